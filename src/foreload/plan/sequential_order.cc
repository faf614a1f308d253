// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "foreload/plan/order.h"

namespace foreload {
namespace {

class SequentialEpoch final : public EpochOrder {
 public:
  explicit SequentialEpoch(uint64_t samples) : samples_(samples) {}
  uint64_t size() const override { return samples_; }
  void read(uint64_t first, std::span<uint64_t> out) const override {
    std::iota(out.begin(), out.end(), first);
  }
  std::optional<uint64_t> next_use(uint64_t sample, uint64_t from) const override {
    return from <= sample && sample < samples_ ? std::optional(sample) : std::nullopt;
  }

 private:
  uint64_t samples_;
};

class SequentialOrder final : public Order {
 public:
  SequentialOrder(uint64_t samples, uint64_t seed) : Order("sequential", samples, seed) {}
  Result<std::shared_ptr<const EpochOrder>> epoch(uint64_t) const override {
    return std::make_shared<SequentialEpoch>(samples());
  }
};

}  // namespace

MadeOrder sequential_order(const OrderSettings&, uint64_t samples, uint64_t seed) {
  return std::make_unique<SequentialOrder>(samples, seed);
}

}  // namespace foreload
