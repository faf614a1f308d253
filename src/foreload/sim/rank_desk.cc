// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/rank_desk.h"

#include <cstddef>

namespace foreload::sim {
namespace {

constexpr size_t kOrdersKept = 3;

}  // namespace

std::shared_ptr<const EpochOrder> SharedOrders::epoch(uint64_t epoch) {
  const auto found = orders_.find(epoch);
  if (found != orders_.end()) return found->second;
  auto order = order_.epoch(epoch);
  if (!order) return nullptr;
  while (orders_.size() >= kOrdersKept) orders_.erase(orders_.begin());
  return orders_[epoch] = std::move(*order);
}

}  // namespace foreload::sim
