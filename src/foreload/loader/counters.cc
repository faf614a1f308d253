// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/counters.h"

namespace foreload {
namespace {

template <auto Field>
uint64_t of_engine(const EngineStats& stats) {
  return stats.*Field;
}
template <auto Field>
uint64_t of_policy(const EngineStats& stats) {
  return stats.policy.*Field;
}

}  // namespace

const std::vector<Counter>& counters() {
  using Unit = CounterUnit;
  using E = EngineStats;
  using P = PolicyTotals;
  static const std::vector<Counter> all{
      {"source_bytes", Unit::bytes, of_engine<&E::source_bytes>},
      {"source_samples", Unit::samples, of_engine<&E::source_samples>},
      {"read_along_bytes", Unit::bytes, of_policy<&P::read_along_bytes>},
      {"others_bytes", Unit::bytes, of_engine<&E::others_bytes>},
      {"others_samples", Unit::samples, of_engine<&E::others_samples>},
      {"fetched_bytes", Unit::bytes, of_engine<&E::fetched_bytes>},
      {"fetched_samples", Unit::samples, of_engine<&E::fetched_samples>},
      {"retries", Unit::reads, of_policy<&P::retries>},
      {"merged_reads", Unit::reads, of_policy<&P::merged>},
      {"hedged_reads", Unit::reads, of_policy<&P::hedged>},
      {"hedged_bytes", Unit::bytes, of_policy<&P::hedged_bytes>},
      {"off_priority_samples", Unit::samples, of_policy<&P::off_priority>},
      {"off_priority_bytes", Unit::bytes, of_policy<&P::off_priority_bytes>},
      {"off_priority_microseconds", Unit::microseconds, of_policy<&P::off_priority_microseconds>},
      {"left_out_samples", Unit::samples, of_policy<&P::left_out>},
      {"late_tier_reads", Unit::reads, of_policy<&P::late_tier_reads>},
      {"abandoned_reads", Unit::reads, of_engine<&E::abandoned_reads>},
      {"source_errors", Unit::reads, of_engine<&E::source_errors>},
      {"read_ahead_samples", Unit::samples, of_policy<&P::read_ahead>},
      {"decoded_samples", Unit::samples, of_engine<&E::decoded_samples>},
      {"corrupt_copies", Unit::samples, of_engine<&E::corrupt_copies>},
      {"skipped", Unit::samples, of_engine<&E::skipped_samples>},
      {"served_samples", Unit::samples, of_policy<&P::served>},
      {"refused_requests", Unit::requests, of_policy<&P::refused>},
      {"pushed_samples", Unit::samples, of_policy<&P::pushed>},
      {"failed_pushes", Unit::samples, of_policy<&P::push_failed>},
      {"adopted_samples", Unit::samples, of_policy<&P::adopted>},
      {"replicas_kept", Unit::samples, of_policy<&P::replicas>},
      {"replicas_given_up", Unit::samples, of_policy<&P::gave_way>},
  };
  return all;
}

}  // namespace foreload
