// SPDX-License-Identifier: Apache-2.0
//
// The part of the policy that watches the clock: retries, copies that do not answer, and hedged
// reads.
#include <algorithm>
#include <bit>

#include "foreload/policy/policy.h"

namespace foreload {

void Policy::set_timer(RunTime now, Actions& actions) {
  const bool reading = requests_.size() > free_requests_.size();
  if (!reading && !peers_owe_something())
    next_look_.reset();
  else if (!next_look_)
    next_look_ = now + settings_.hedge_after;
  std::optional<RunTime> wanted = next_look_;
  if (!retries_.empty()) wanted = std::min(wanted.value_or(RunTime::max()), retries_.begin()->at);
  if (!wanted || wanted == timer_) return;
  timer_ = wanted;
  actions.push_back(action::SetTimer{*wanted});
}

// How long a read may take before it counts as late.
RunTime Policy::late_after(const Request& request) {
  const Pace& pace = pace_of(request.from);
  if (pace.usual() == RunTime{0}) return RunTime::max();
  const auto long_for_this_path = std::chrono::duration_cast<RunTime>(
      settings_.hedge_factor * std::chrono::duration<double, std::nano>(pace.usual()));
  return std::max(settings_.hedge_after, long_for_this_path);
}

void Policy::look_after_late_reads(RunTime now, Actions& actions) {
  next_look_.reset();
  const auto slots = static_cast<uint32_t>(requests_.size());  // hedges add more
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const Request& request = requests_[slot];
    if (!request.active) continue;
    const RunTime age = now - request.begin;
    if (request.from.kind == Origin::Kind::tier && age >= settings_.tier_deadline) {
      give_up_tier_read(slot, now, actions);
      continue;
    }
    if (request.from.kind == Origin::Kind::neighbour) continue;  // a copy in memory: it ends soon
    if (request.rival != kAlone || age < late_after(request) || !may_hedge(request.sample))
      continue;
    // Only what the next batch waits for.
    BatchPlace place = request.place;
    if (place.batch == kNoBatch) {
      const auto waiting = waiters_.find(request.sample);
      if (waiting == waiters_.end()) continue;
      place = waiting->second.front();
    }
    if (place.batch == next_delivery_) hedge(slot, place, now, actions);
  }
  if (with_peers()) look_after_peers(actions);
}

void Policy::give_up_tier_read(uint32_t slot, RunTime now, Actions& actions) {
  const Request request = requests_[slot];
  const uint32_t tier = request.from.number;
  cancel(slot, now, actions);
  ++totals_.late_tier_reads;
  if (tier_alive_[tier] && ++late_in_a_row_[tier] >= settings_.tier_patience) {
    actions.push_back(action::LoseTier{tier});
    handle(event::TierLost{tier}, now, actions);
  }
  lose_copy(request, ReadEnd::deadline, actions);
}

bool Policy::may_hedge(uint64_t sample) const {
  return static_cast<double>(totals_.hedged_bytes + plan_->sizes()[sample]) <=
         settings_.hedge_share * static_cast<double>(source_bytes_);
}

void Policy::hedge(uint32_t slot, BatchPlace place, RunTime now, Actions& actions) {
  const uint64_t sample = requests_[slot].sample;
  Origin from;
  if (requests_[slot].from.kind == Origin::Kind::tier) {
    const auto others = static_cast<TierCopies::Tiers>(
        copies_[sample] & ~TierCopies::bit(requests_[slot].from.number));
    if (others != 0) from = {Origin::Kind::tier, static_cast<uint32_t>(std::countr_zero(others))};
  }
  if (requests_[slot].place.batch == kNoBatch) {
    const auto waiting = waiters_.find(sample);
    waiting->second.erase(waiting->second.begin());
    if (waiting->second.empty()) waiters_.erase(waiting);
  }
  ++totals_.hedged;
  totals_.hedged_bytes += plan_->sizes()[sample];
  const uint32_t rival = start(from, sample, place, !for_source_.empty(), true, now, actions);
  requests_[rival].rival = slot;
  requests_[slot].rival = rival;
}

void Policy::wait_at(const Request& request) {
  entry_of(request.place)->state = State::waiting;
  waiters_[request.sample].push_back(request.place);
}

// The other read of a hedged sample goes on alone.
void Policy::leave_to_rival(const Request& request) {
  Request& rival = requests_[request.rival];
  rival.rival = kAlone;
  // A read ahead has no place: the bytes reach it through the tier.
  if (rival.place.batch == kNoBatch && request.place.batch != kNoBatch) wait_at(request);
}

void Policy::end_rival(const Request& request, RunTime now, Actions& actions) {
  if (request.rival == kAlone) return;
  const Request rival = requests_[request.rival];
  cancel(request.rival, now, actions);
  if (request.place.batch == kNoBatch && rival.place.batch != kNoBatch) wait_at(rival);
}

}  // namespace foreload
