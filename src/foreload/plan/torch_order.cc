// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "foreload/plan/stored_epoch.h"
#include "foreload/plan/torch_shuffle.h"

namespace foreload {
namespace {

class TorchOrder final : public Order {
 public:
  TorchOrder(uint64_t samples, uint64_t seed) : Order("torch", samples, seed) {}
  Result<std::shared_ptr<const EpochOrder>> epoch(uint64_t epoch) const override {
    return samples() <= UINT32_MAX ? shuffled<uint32_t>(epoch) : shuffled<uint64_t>(epoch);
  }

 private:
  template <class Id>
  std::shared_ptr<const EpochOrder> shuffled(uint64_t epoch) const {
    std::vector<Id> ids(samples());
    torch_randperm(seed() + epoch, std::span(ids));
    return std::make_shared<StoredEpoch<Id>>(std::move(ids));
  }
};

}  // namespace

MadeOrder torch_order(const OrderSettings&, uint64_t samples, uint64_t seed) {
  // A shuffle lies in memory as a whole.
  constexpr uint64_t kMostShuffled = uint64_t{1} << 40;
  if (samples > kMostShuffled)
    return fail(ErrorKind::invalid,
                fmt::format("{} samples are too many to shuffle as torch does: use the order "
                            "feistel",
                            samples));
  return std::make_unique<TorchOrder>(samples, seed);
}

}  // namespace foreload
