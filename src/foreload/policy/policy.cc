// SPDX-License-Identifier: Apache-2.0
//
// The part of the policy that answers: what an ended read, a taken sample, a consumed batch or a
// lost tier means.
#include "foreload/policy/policy.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace foreload {

Policy::Policy(std::shared_ptr<const Plan> plan, PolicySettings settings,
               std::span<const Held> held)
    : plan_(std::move(plan)),
      settings_(std::move(settings)),
      source_(settings_.source_limiter),
      tier_alive_(plan_->capacities().tiers(), true),
      on_its_way_(plan_->sizes().samples()),
      copies_(plan_->sizes().samples()),
      next_epoch_(plan_->job().first_epoch),
      resumed_epoch_(plan_->job().first_epoch),
      resumed_start_(plan_->job().start),
      for_tier_(plan_->capacities().tiers()) {
  for (uint32_t tier = 0; tier < plan_->capacities().tiers(); ++tier)
    tiers_.emplace_back(tier < settings_.tier_limiters.size() ? settings_.tier_limiters[tier]
                                                              : Limiter::Settings{});
  assert(tiers_.size() <= kMostTiers);
  for (const Held& copy : held) {
    const Owner owner = plan_->placement().owner(copy.sample);
    if (copy.rank != settings_.rank || owner.rank != copy.rank) continue;
    if (owner.tier == copy.tier || plan_->placement().backing(copy.sample) == copy.tier)
      copies_[copy.sample] |= bit(copy.tier);
  }
}

void Policy::begin(RunTime now, Actions& actions) {
  go_on(now, actions);
}

void Policy::on(const Event& event, RunTime now, Actions& actions) {
  std::visit([&](const auto& e) { handle(e, now, actions); }, event);
  go_on(now, actions);
}

PolicyTotals Policy::totals() const {
  PolicyTotals totals = totals_;
  totals.window_bytes = open_bytes_;
  totals.waiting_for_source = for_source_.size();
  return totals;
}

Policy::Batch* Policy::batch_of(uint64_t number) {
  if (batches_.empty() || number < batches_.front().number) return nullptr;
  const uint64_t i = number - batches_.front().number;
  return i < batches_.size() ? &batches_[i] : nullptr;
}

Policy::Entry* Policy::entry_of(BatchPlace place) {
  Batch* batch = batch_of(place.batch);
  return batch == nullptr ? nullptr : &batch->entries[place.index];
}

bool Policy::keeps(uint64_t sample, uint32_t& tier) const {
  const Owner owner = plan_->placement().owner(sample);
  tier = owner.tier;
  return owner.rank == settings_.rank && tier_alive_[owner.tier];
}

void Policy::settle(Batch& batch, Entry& entry, State state) {
  assert(batch.pending > 0 && entry.state != State::ready && entry.state != State::bad);
  entry.state = state;
  --batch.pending;
}

void Policy::deliver(Actions& actions) {
  while (Batch* next = batch_of(next_delivery_)) {
    Batch& batch = *next;
    if (batch.failed || batch.pending > 0) return;
    // A bad sample's place takes the next good one of the batch, going round.
    const auto size = static_cast<uint32_t>(batch.entries.size());
    for (uint32_t i = 0; i < size; ++i) {
      if (batch.entries[i].state != State::bad) continue;
      uint32_t good = (i + 1) % size;
      while (batch.entries[good].state == State::bad) good = (good + 1) % size;
      actions.push_back(action::Copy{{batch.number, good}, {batch.number, i}});
    }
    batch.delivered = true;
    ++next_delivery_;
    actions.push_back(action::Deliver{batch.number});
  }
}

void Policy::handle(const event::EpochKnown& e, RunTime, Actions&) {
  if (computing_ == e.epoch) computing_ = kNoBatch;
  if (e.epoch >= next_epoch_) orders_[e.epoch] = e.order;
}

void Policy::handle(const event::Consumed& e, RunTime, Actions&) {
  while (!batches_.empty() && batches_.front().number <= e.batch && batches_.front().delivered) {
    open_bytes_ -= batches_.front().bytes;
    batches_.pop_front();
  }
}

void Policy::handle(const event::ReadEnded& e, RunTime now, Actions& actions) {
  const auto slot = static_cast<uint32_t>(e.request);
  if (slot >= requests_.size() || !requests_[slot].active ||
      requests_[slot].generation != e.request >> 32)
    return;
  const Request request = requests_[slot];
  requests_[slot].active = false;
  free_requests_.push_back(slot);
  const uint64_t bytes = plan_->sizes()[request.sample];
  Limiter& limiter =
      request.from.kind == Origin::Kind::tier ? tiers_[request.from.number] : source_;
  limiter.finish(now, e.end == ReadEnd::ok ? bytes : 0);
  if (e.end == ReadEnd::throttled) limiter.throttled(now);
  if (request.place.batch == kNoBatch) ahead_in_flight_ -= bytes;
  if (e.end == ReadEnd::ok)
    arrived(request, e.request, actions);
  else
    not_arrived(request, e.end, now, actions);
}

void Policy::arrived(const Request& request, uint64_t id, Actions& actions) {
  const bool has_place = request.place.batch != kNoBatch;
  if (has_place) {
    Batch& batch = *batch_of(request.place.batch);
    settle(batch, batch.entries[request.place.index], State::ready);
  }
  uint32_t tier = 0;
  const bool keep = keeps(request.sample, tier);
  if (request.from.kind == Origin::Kind::tier) {
    // Read from a slower tier than the plan wants it on: a copy moves up.
    if (keep && tier < request.from.number && (copies_[request.sample] & bit(tier)) == 0)
      place(request, id, tier, actions);
    return;
  }
  on_its_way_[request.sample] = keep ? OnItsWay::placing : OnItsWay::no;
  if (keep) {
    place(request, id, tier, actions);
    const uint32_t backing = plan_->placement().backing(request.sample);
    if (backing != kNoTier && tier_alive_[backing]) place(request, id, backing, actions);
  }
  // Without a place of its own the bytes reach waiters through the tier.
  const auto waiting = waiters_.find(request.sample);
  if (waiting == waiters_.end() || (!has_place && keep)) return;
  if (!has_place) return wake_waiters(request.sample);
  for (const BatchPlace& place : waiting->second) {
    Batch& batch = *batch_of(place.batch);
    actions.push_back(action::Copy{request.place, place});
    settle(batch, batch.entries[place.index], State::ready);
  }
  waiters_.erase(waiting);
}

void Policy::place(const Request& request, uint64_t id, uint32_t tier, Actions& actions) {
  if (tier > 0) placing_bytes_ += plan_->sizes()[request.sample];
  actions.push_back(action::Place{id, request.sample, request.place, tier});
}

void Policy::not_arrived(const Request& request, ReadEnd end, RunTime now, Actions& actions) {
  if (request.from.kind == Origin::Kind::tier) {
    // A copy that is not there any more is a miss; the place goes to the front, it is needed first.
    copies_[request.sample] &= static_cast<Copies>(~bit(request.from.number));
    if (end != ReadEnd::missing)
      actions.push_back(action::Evict{request.sample, request.from.number});
    entry_of(request.place)->state = State::waiting;
    if (copies_[request.sample] == 0 && on_its_way_[request.sample] == OnItsWay::no) {
      on_its_way_[request.sample] = OnItsWay::arriving;
      for_source_.push_front(request.place);
    } else {
      queue(request.place);
    }
    return;
  }
  if (request.place.batch == kNoBatch) {
    // Nobody needs it yet; whoever does will see what is wrong with it.
    on_its_way_[request.sample] = OnItsWay::no;
    wake_waiters(request.sample);
    return;
  }
  Entry& entry = *entry_of(request.place);
  entry.end = end;
  entry.tries += end == ReadEnd::deadline && settings_.tries > 2 ? settings_.tries - 1 : 1;
  const bool hopeless = end == ReadEnd::permanent || end == ReadEnd::changed;
  if (hopeless || entry.tries >= settings_.tries) return give_up(request.place, now, actions);
  ++totals_.retries;
  entry.state = State::waiting;
  const RunTime at =
      now + settings_.first_back_off * (1 << std::min<unsigned>(entry.tries - 1, 10));
  retries_.insert({at, request.place});
  if (retries_.begin()->place == request.place) actions.push_back(action::SetTimer{at});
}

// The sample of this place, and of all places that wait for it, cannot be had.
void Policy::give_up(BatchPlace place, RunTime now, Actions& actions) {
  const Entry& first = *entry_of(place);
  const uint64_t sample = first.sample;
  const ReadEnd end = first.end;
  const unsigned tries = first.tries;
  const RunTime since = now - first.first_try;
  on_its_way_[sample] = OnItsWay::no;
  std::vector<BatchPlace> places{place};
  if (const auto waiting = waiters_.find(sample); waiting != waiters_.end()) {
    places.insert(places.end(), waiting->second.begin(), waiting->second.end());
    waiters_.erase(waiting);
  }
  for (const BatchPlace& lost : places) {
    Batch& batch = *batch_of(lost.batch);
    settle(batch, batch.entries[lost.index], State::bad);
    const bool any_good = std::any_of(batch.entries.begin(), batch.entries.end(),
                                      [](const Entry& entry) { return entry.state != State::bad; });
    if (settings_.skip_bad_samples && any_good) {
      ++totals_.skipped;
      actions.push_back(action::Skip{sample, lost, end});
    } else if (!batch.failed) {
      batch.failed = true;
      actions.push_back(action::Fail{sample, lost, end, tries, since});
    }
  }
}

// Places that waited for a sample look for it anew.
void Policy::wake_waiters(uint64_t sample) {
  const auto waiting = waiters_.find(sample);
  if (waiting == waiters_.end()) return;
  const std::vector<BatchPlace> places = std::move(waiting->second);
  waiters_.erase(waiting);
  for (const BatchPlace& place : places) queue(place);
}

void Policy::handle(const event::Placed& e, RunTime, Actions&) {
  if (e.tier > 0) placing_bytes_ -= plan_->sizes()[e.sample];
  const bool ok = e.ok && tier_alive_[e.tier];
  if (ok) copies_[e.sample] |= bit(e.tier);
  // A second copy that failed says nothing about the first, which is still on its way.
  const bool second = plan_->placement().backing(e.sample) == e.tier;
  if (on_its_way_[e.sample] != OnItsWay::placing || (!ok && second)) return;
  on_its_way_[e.sample] = OnItsWay::no;
  wake_waiters(e.sample);
}

void Policy::handle(const event::Timer&, RunTime now, Actions& actions) {
  while (!retries_.empty() && retries_.begin()->at <= now) {
    for_source_.push_front(retries_.begin()->place);
    retries_.erase(retries_.begin());
  }
  if (!retries_.empty()) actions.push_back(action::SetTimer{retries_.begin()->at});
}

void Policy::handle(const event::TierLost& e, RunTime, Actions&) {
  tier_alive_[e.tier] = false;
  for (Copies& copies : copies_) copies &= static_cast<Copies>(~bit(e.tier));
  const std::deque<BatchPlace> places = std::move(for_tier_[e.tier]);
  for_tier_[e.tier].clear();
  for (const BatchPlace& place : places) queue(place);
}

void Policy::handle(const event::Seek& e, RunTime now, Actions& actions) {
  for (uint32_t slot = 0; slot < requests_.size(); ++slot) {
    Request& request = requests_[slot];
    if (!request.active) continue;
    actions.push_back(action::Cancel{uint64_t{request.generation} << 32 | slot});
    Limiter& limiter =
        request.from.kind == Origin::Kind::tier ? tiers_[request.from.number] : source_;
    limiter.finish(now, 0);
    request.active = false;
    free_requests_.push_back(slot);
  }
  for (OnItsWay& state : on_its_way_) {
    if (state == OnItsWay::arriving) state = OnItsWay::no;
  }
  for (const Batch& batch : batches_) actions.push_back(action::CloseBatch{batch.number});
  batches_.clear();
  open_bytes_ = 0;
  for_source_.clear();
  for (auto& queued : for_tier_) queued.clear();
  waiters_.clear();
  retries_.clear();
  ahead_in_flight_ = 0;
  ahead_epoch_ = kNoBatch;
  next_delivery_ = next_number_;
  prepared_.reset();
  next_epoch_ = e.epoch;
  next_batch_in_epoch_ = 0;
  resumed_epoch_ = e.epoch;
  resumed_start_ = e.start;
  orders_.erase(orders_.begin(), orders_.lower_bound(e.epoch));
}

}  // namespace foreload
