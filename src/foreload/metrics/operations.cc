// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/operations.h"

#include <algorithm>

namespace foreload {

std::string_view name_of(Operation operation) {
  constexpr std::array<std::string_view, kOperations> kNames{"list", "open", "stat", "read",
                                                             "write"};
  return kNames[static_cast<size_t>(operation)];
}

void Operations::count(Operation operation, std::chrono::nanoseconds time, uint64_t bytes,
                       bool failed) {
  constexpr auto relaxed = std::memory_order_relaxed;
  Counters& counters = counters_[static_cast<size_t>(operation)];
  const auto bin = std::ranges::upper_bound(kSizeBins, bytes) - kSizeBins.begin();
  counters.count.fetch_add(1, relaxed);
  if (failed) counters.failed.fetch_add(1, relaxed);
  counters.nanoseconds.fetch_add(static_cast<uint64_t>(std::max<int64_t>(0, time.count())),
                                 relaxed);
  counters.bytes.fetch_add(bytes, relaxed);
  counters.size_bins[static_cast<size_t>(bin)].fetch_add(1, relaxed);
}

Operations::Totals Operations::totals(Operation operation) const {
  constexpr auto relaxed = std::memory_order_relaxed;
  const Counters& counters = counters_[static_cast<size_t>(operation)];
  Totals totals;
  totals.count = counters.count.load(relaxed);
  totals.failed = counters.failed.load(relaxed);
  totals.nanoseconds = counters.nanoseconds.load(relaxed);
  totals.bytes = counters.bytes.load(relaxed);
  for (size_t i = 0; i < totals.size_bins.size(); ++i)
    totals.size_bins[i] = counters.size_bins[i].load(relaxed);
  return totals;
}

void Operations::visit(const std::function<void(Operation, const Totals&)>& visit) const {
  for (size_t i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    if (const Totals seen = totals(operation); seen.count > 0) visit(operation, seen);
  }
}

}  // namespace foreload
