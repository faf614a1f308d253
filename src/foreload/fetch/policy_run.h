// SPDX-License-Identifier: Apache-2.0
//
// The policy of an engine while time passes: what it is told is told at the time of the run, what
// it wants done gathers until somebody carries it out.
//
// For the loop thread.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "foreload/fetch/engine_parts.h"
#include "foreload/policy/policy.h"

namespace foreload {

class PolicyRun {
 public:
  explicit PolicyRun(const EngineParts& parts) : policy_(parts.plan, parts.policy, parts.held) {}

  void begin() { policy_.begin(now(), wanted_); }
  void tell(const Event& event) { policy_.on(event, now(), wanted_); }
  // If it wanted to hear of this moment.
  void tell_time() {
    if (!timer_ || std::chrono::steady_clock::now() < *timer_) return;
    timer_.reset();
    tell(event::Timer{});
  }
  void set_timer(RunTime at) { timer_ = start_ + at; }
  std::optional<SteadyTime> timer() const { return timer_; }
  std::vector<Action>& wanted() { return wanted_; }
  const Policy& policy() const { return policy_; }

 private:
  RunTime now() const { return std::chrono::steady_clock::now() - start_; }

  Policy policy_;
  const SteadyTime start_ = std::chrono::steady_clock::now();
  std::vector<Action> wanted_;
  std::optional<SteadyTime> timer_;
};

}  // namespace foreload
