// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/rank_operations.h"

namespace foreload::sim {

uint64_t RankOperations::keep(const Operation& operation) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  operations_[number] = operation;
  return uint64_t{rank_} << 32 | number;
}

Operation RankOperations::take(uint64_t token) {
  const auto number = static_cast<uint32_t>(token);
  free_.push_back(number);
  return operations_[number];
}

void RankOperations::expect_read(uint64_t request, uint64_t token) {
  const auto slot = static_cast<uint32_t>(request);
  if (slot >= reads_.size()) reads_.resize(slot + 1);
  reads_[slot] = {request, token};
}

std::optional<uint64_t> RankOperations::token_of(uint64_t request) const {
  if (reads(request)) return reads_[static_cast<uint32_t>(request)].token;
  const auto made = making_.find(request);
  if (made == making_.end()) return std::nullopt;
  return made->second;
}

void RankOperations::forget(uint64_t request) {
  if (reads(request))
    reads_[static_cast<uint32_t>(request)].request = UINT64_MAX;
  else
    making_.erase(request);
}

}  // namespace foreload::sim
