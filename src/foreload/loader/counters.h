// SPDX-License-Identifier: Apache-2.0
//
// What a loader counts, named once: stats(), epoch_stats(), run files, --json and pages take names
// and values from here. A new one is a field that somebody counts up, and a row.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "foreload/fetch/engine_stats.h"

namespace foreload {

enum class CounterUnit : uint8_t { bytes, samples, reads, requests, microseconds };

// Grows during a run; those of all ranks together are the job's.
struct Counter {
  std::string_view name;
  CounterUnit unit;
  uint64_t (*value)(const EngineStats&);
};

const std::vector<Counter>& counters();

// Calls visit(counter, value) for each.
template <class Visit>
void visit_counters(const EngineStats& stats, Visit visit) {
  for (const Counter& counter : counters()) visit(counter, counter.value(stats));
}

}  // namespace foreload
