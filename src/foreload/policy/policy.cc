// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/policy.h"

#include <utility>
#include <variant>

namespace foreload {

Policy::Policy(std::shared_ptr<const Plan> plan, PolicySettings settings,
               std::span<const Held> held)
    : parts_(std::move(plan), std::move(settings), held) {}

void Policy::begin(RunTime now, std::vector<Action>& actions) {
  parts_.desk.now = now;
  parts_.desk.actions = &actions;
  parts_.keeping.begin();
  go_on();
}

void Policy::on(const Event& event, RunTime now, std::vector<Action>& actions) {
  parts_.desk.now = now;
  parts_.desk.actions = &actions;
  std::visit([this](const auto& e) { handle(e); }, event);
  go_on();
}

void Policy::go_on() {
  do {
    parts_.window.deliver();
    reads_.open_fetches();
    reads_.open_batches();
    if (parts_.desk.with_peers) {
      peering_.overtake_pushes();
      reads_.overtake();
    }
    reads_.start();
    // Fetches that were forgotten may be complete, and others wait for what they waited for.
  } while (parts_.window.has_complete_fetches() ||
           (parts_.desk.with_peers && parts_.paths.ready(kNeighbours)));
  reads_.read_ahead();
  lateness_.set_timer();
}

PolicyTotals Policy::totals() const {
  PolicyTotals totals = parts_.desk.totals;
  totals.window_bytes = parts_.window.open_bytes();
  totals.waiting_for_source = parts_.paths.waiting(kSource);
  return totals;
}

}  // namespace foreload
