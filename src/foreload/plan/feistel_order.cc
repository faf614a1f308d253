// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/feistel.h"
#include "foreload/plan/order.h"

namespace foreload {
namespace {

class FeistelEpoch final : public EpochOrder {
 public:
  FeistelEpoch(uint64_t samples, uint64_t seed, uint64_t epoch)
      : permutation_(samples, seed, epoch) {}
  uint64_t size() const override { return permutation_.size(); }
  void read(uint64_t first, std::span<uint64_t> out) const override {
    for (uint64_t& id : out) id = permutation_(first++);
  }
  std::optional<uint64_t> next_use(uint64_t sample, uint64_t from) const override {
    if (sample >= size()) return std::nullopt;
    const uint64_t position = permutation_.inverse(sample);
    return position >= from ? std::optional(position) : std::nullopt;
  }

 private:
  FeistelPermutation permutation_;
};

class FeistelOrder final : public Order {
 public:
  FeistelOrder(uint64_t samples, uint64_t seed) : Order("feistel", samples, seed) {}
  Result<std::shared_ptr<const EpochOrder>> epoch(uint64_t epoch) const override {
    return std::make_shared<FeistelEpoch>(samples(), seed(), epoch);
  }
};

}  // namespace

MadeOrder feistel_order(const OrderSettings&, uint64_t samples, uint64_t seed) {
  return std::make_unique<FeistelOrder>(samples, seed);
}

}  // namespace foreload
