// SPDX-License-Identifier: Apache-2.0
//
// How many decisions a second the policy makes on one core. An event and an action each count as
// one; devices answer at once.
#include <deque>

#include <benchmark/benchmark.h>

#include "foreload/policy/policy.h"

namespace foreload {
namespace {

// Answers every read at once, for as many samples as the state asks for.
void policy_decisions(benchmark::State& state, uint64_t memory_percent) {
  constexpr uint64_t kSamples = 100'000;
  constexpr uint64_t kSize = 100'000;
  Job job;
  job.epochs = 1000;
  job.tiers = {{{"memory", kSamples * kSize / 100 * memory_percent, 1}}};
  const auto plan = std::make_shared<const Plan>(std::move(
      *Plan::make(job, *Sizes::uniform(kSamples, kSize), {.table_bytes = 10 * kSamples})));
  PolicySettings settings;
  settings.tier_limiters = {{256, 256, 256}};
  Policy policy(plan, settings);
  std::vector<Action> actions;
  std::deque<Event> events;
  RunTime now{0};
  uint64_t decisions = 0;
  policy.begin(now, actions);
  for (auto _ : state) {
    for (Action& action : actions) {
      ++decisions;
      if (const auto* read = std::get_if<action::Read>(&action))
        events.push_back(event::ReadEnded{read->request, ReadEnd::ok});
      else if (const auto* place = std::get_if<action::Place>(&action))
        events.push_back(event::Placed{place->sample, place->tier, true});
      else if (const auto* deliver = std::get_if<action::Deliver>(&action))
        events.push_back(event::Consumed{deliver->batch});
      else if (const auto* compute = std::get_if<action::ComputeEpoch>(&action))
        events.push_back(
            event::EpochKnown{compute->epoch, std::move(*plan->order().epoch(compute->epoch))});
    }
    actions.clear();
    now += std::chrono::microseconds(10);
    policy.on(events.front(), now, actions);
    events.pop_front();
    ++decisions;
  }
  state.SetItemsProcessed(static_cast<int64_t>(decisions));
}
BENCHMARK_CAPTURE(policy_decisions, nothing_cached, 0);
BENCHMARK_CAPTURE(policy_decisions, half_cached, 50);
BENCHMARK_CAPTURE(policy_decisions, all_cached, 100);

}  // namespace
}  // namespace foreload
