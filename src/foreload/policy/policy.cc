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
      tier_paces_(plan_->capacities().tiers()),
      neighbour_limiter_({256, 256, 256}),  // memory: nothing to find out
      tier_alive_(plan_->capacities().tiers(), true),
      late_in_a_row_(plan_->capacities().tiers()),
      copies_(plan_->sizes().samples(), plan_->capacities().tiers()),
      next_epoch_(plan_->job().first_epoch),
      resumed_epoch_(plan_->job().first_epoch),
      resumed_start_(plan_->job().start),
      for_tier_(plan_->capacities().tiers()) {
  for (uint32_t tier = 0; tier < plan_->capacities().tiers(); ++tier)
    tiers_.emplace_back(tier < settings_.tier_limiters.size() ? settings_.tier_limiters[tier]
                                                              : Limiter::Settings{});
  assert(tiers_.size() <= TierCopies::kMostTiers);
  if (settings_.peers && plan_->job().ranks > 1) begin_peers();
  for (const Held& copy : held) {
    if (copy.rank != settings_.rank) continue;
    const Owner owner = plan_->placement().owner(copy.sample);
    if (owner.rank != copy.rank) {
      if (with_peers()) find_replica(copy);
    } else if (owner.tier == copy.tier || plan_->placement().backing(copy.sample) == copy.tier) {
      copies_.add(copy.sample, copy.tier);
    }
  }
}

void Policy::begin(RunTime now, Actions& actions) {
  for (const Held& copy : std::exchange(no_room_for_, {}))
    actions.push_back(action::Evict{copy.sample, copy.tier});
  go_on(now, actions);
}

void Policy::on(const Event& event, RunTime now, Actions& actions) {
  now_ = now;
  std::visit([&](const auto& e) { handle(e, now, actions); }, event);
  go_on(now, actions);
}

Limiter& Policy::limiter_of(Origin from) {
  switch (from.kind) {
    case Origin::Kind::tier:
      return tiers_[from.number];
    case Origin::Kind::peer:
      return peer_limiters_[from.number];
    case Origin::Kind::neighbour:
      return neighbour_limiter_;
    case Origin::Kind::source:
      break;
  }
  return source_;
}

Pace& Policy::pace_of(Origin from) {
  switch (from.kind) {
    case Origin::Kind::tier:
      return tier_paces_[from.number];
    case Origin::Kind::peer:
      return peer_pace_;
    case Origin::Kind::neighbour:
      return neighbour_pace_;
    case Origin::Kind::source:
      break;
  }
  return source_pace_;
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
  if (owner.rank == settings_.rank) return tier_alive_[owner.tier];
  if (!with_peers() || keeper_of(sample) != settings_.rank) return false;
  tier = adopting_tier(sample);
  return tier != kNoTier;
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
      actions.push_back(action::Substitute{{batch.number, good}, {batch.number, i}});
    }
    batch.delivered = true;
    ++next_delivery_;
    actions.push_back(action::Deliver{batch.number});
  }
}

void Policy::handle(const event::EpochKnown& e, RunTime, Actions&) {
  if (computing_ == e.epoch) computing_ = kNoBatch;
  if (e.epoch < next_epoch_) return;
  const KnownEpoch& known = known_[e.epoch] = {e.order, e.batch_ends};
  if (with_peers() && !settings_.given_lists && e.epoch == plan_->job().first_epoch)
    mark_cut_off(known, sharding_of(e.epoch, *e.order));
}

void Policy::handle(const event::Consumed& e, RunTime, Actions&) {
  while (!batches_.empty() && batches_.front().number <= e.batch && batches_.front().delivered) {
    open_bytes_ -= batches_.front().bytes;
    open_samples_ -= batches_.front().entries.size();
    batches_.pop_front();
  }
}

void Policy::handle(const event::ReadEnded& e, RunTime now, Actions& actions) {
  const auto slot = static_cast<uint32_t>(e.request);
  if (slot >= requests_.size() || !requests_[slot].active ||
      requests_[slot].generation != e.request >> 32)
    return;
  const Request request = requests_[slot];
  end(slot);
  const uint64_t bytes = plan_->sizes()[request.sample];
  Limiter& limiter = limiter_of(request.from);
  limiter.finish(now, e.end == ReadEnd::ok ? bytes : 0);
  if (e.end == ReadEnd::throttled) limiter.throttled(now);
  if (e.end == ReadEnd::ok) {
    pace_of(request.from).add(now - request.begin);
    if (request.from.kind == Origin::Kind::tier) late_in_a_row_[request.from.number] = 0;
    if (request.from.kind == Origin::Kind::source) source_bytes_ += bytes;
    end_rival(request, now, actions);
    arrived(request, e.request, actions);
  } else if (request.from.kind == Origin::Kind::tier) {
    lose_copy(request, e.end, actions);
  } else if (request.rival != kAlone) {
    leave_to_rival(request);
  } else if (request.from.kind == Origin::Kind::neighbour) {
    entry_of(request.place)->state = State::waiting;
    ask_keeper(request.place, actions);
  } else if (request.from.kind == Origin::Kind::peer) {
    // The owner does not have it: it is this rank's turn to read it.
    entry_of(request.place)->state = State::waiting;
    for_source_.push_front(request.place);
  } else {
    not_arrived(request, e.end, now, actions);
  }
}

void Policy::end(uint32_t slot) {
  Request& request = requests_[slot];
  request.active = false;
  free_requests_.push_back(slot);
  if (request.place.batch == kNoBatch) ahead_in_flight_ -= plan_->sizes()[request.sample];
}

void Policy::cancel(uint32_t slot, RunTime now, Actions& actions) {
  actions.push_back(action::Cancel{id_of(slot)});
  limiter_of(requests_[slot].from).finish(now, 0);
  end(slot);
}

void Policy::arrived(const Request& request, uint64_t id, Actions& actions) {
  const bool has_place = request.place.batch != kNoBatch;
  if (has_place) filled(request.place, actions);
  uint32_t tier = 0;
  const bool keep = keeps(request.sample, tier);
  if (request.from.kind == Origin::Kind::tier) {
    // Read from a slower tier than the plan wants it on: a copy moves up.
    if (keep && tier < request.from.number &&
        (copies_[request.sample] & TierCopies::bit(tier)) == 0)
      place(request, id, tier, actions);
    return;
  }
  // A hedge for a copy in a tier that took too long: the copy is still there.
  if (request.hedge && on_its_way_[request.sample] != OnItsWay::arriving) return;
  const bool replica = !keep && may_replicate(request, tier);
  on_its_way_[request.sample] = keep || replica ? OnItsWay::placing : OnItsWay::no;
  if (keep) {
    keep_here(request, id, tier, actions);
  } else if (with_peers()) {
    // A hedge for a peer that took too long brings what the peer has.
    const bool peer_has_it = request.hedge && request.rival != kAlone &&
                             requests_[request.rival].from.kind == Origin::Kind::peer;
    if (request.from.kind == Origin::Kind::source && !peer_has_it) push(request, id, actions);
    if (replica) {
      spare_[tier] -= plan_->sizes()[request.sample];
      place(request, id, tier, actions);
    } else {  // it was to be adopted, and there is no room any more
      answer_parked(request.sample, actions);
    }
  }
  // Without a place of its own the bytes reach waiters through the tier.
  const auto waiting = waiters_.find(request.sample);
  if (waiting == waiters_.end() || (!has_place && keep)) return;
  if (!has_place) return wake_waiters(request.sample, actions);
  for (const BatchPlace& place : waiting->second) {
    actions.push_back(action::Copy{request.place, place});
    filled(place, actions);
  }
  waiters_.erase(waiting);
}

void Policy::keep_here(const Request& request, uint64_t id, uint32_t tier, Actions& actions) {
  if (with_peers()) {
    came_[request.sample] = true;
    peers_[settings_.rank].late = false;
    if (!is_owner(request.sample)) adopt(request.sample, tier, actions);
  }
  place(request, id, tier, actions);
  const uint32_t backing = plan_->placement().backing(request.sample);
  if (backing != kNoTier && tier_alive_[backing] &&
      plan_->placement().owner(request.sample).rank == settings_.rank)
    place(request, id, backing, actions);
}

// The bytes of a place are there.
void Policy::filled(BatchPlace place, Actions& actions) {
  Batch& batch = *batch_of(place.batch);
  Entry& entry = batch.entries[place.index];
  if (!settings_.decode) return settle(batch, entry, State::ready);
  entry.state = State::decoding;
  ++totals_.decoding;
  actions.push_back(action::Decode{entry.sample, place});
}

void Policy::handle(const event::Decoded& e, RunTime now, Actions& actions) {
  Batch* batch = batch_of(e.place.batch);
  if (batch == nullptr) return;  // closed by a seek
  --totals_.decoding;
  Entry& entry = batch->entries[e.place.index];
  if (e.ok) return settle(*batch, entry, State::ready);
  mark_bad(e.place, ReadEnd::undecodable, std::max(entry.tries, 1u), now - entry.first_try,
           actions);
}

void Policy::place(const Request& request, uint64_t id, uint32_t tier, Actions& actions) {
  if (tier > 0) placing_bytes_ += plan_->sizes()[request.sample];
  if (with_peers() && !is_owner(request.sample)) ++arriving_guests_[request.sample];
  actions.push_back(action::Place{id, request.sample, request.place, tier});
}

// A copy that is not there any more is a miss; the place goes to the front, it is needed first.
void Policy::lose_copy(const Request& request, ReadEnd end, Actions& actions) {
  forget_copy(request.sample, request.from.number);
  // The room of a guest goes to others: whatever is left of it must go.
  if (end != ReadEnd::missing || !is_owner(request.sample))
    actions.push_back(action::Evict{request.sample, request.from.number});
  const bool nowhere = copies_[request.sample] == 0 && on_its_way_[request.sample] == OnItsWay::no;
  if (request.rival != kAlone) {
    if (nowhere && requests_[request.rival].from.kind == Origin::Kind::source)
      on_its_way_[request.sample] = OnItsWay::arriving;
    return leave_to_rival(request);
  }
  entry_of(request.place)->state = State::waiting;
  if (nowhere && (!with_peers() || is_owner(request.sample))) {
    on_its_way_[request.sample] = OnItsWay::arriving;
    for_source_.push_front(request.place);
  } else {
    queue(request.place);
  }
}

void Policy::not_arrived(const Request& request, ReadEnd end, RunTime now, Actions& actions) {
  if (request.place.batch == kNoBatch) {
    // Nobody needs it yet; whoever does will see what is wrong with it.
    on_its_way_[request.sample] = OnItsWay::no;
    wake_waiters(request.sample, actions);
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
}

// The sample of this place, and of all places that wait for it, cannot be had.
void Policy::give_up(BatchPlace place, RunTime now, Actions& actions) {
  const Entry& first = *entry_of(place);
  const uint64_t sample = first.sample;
  const ReadEnd end = first.end;
  const unsigned tries = first.tries;
  const RunTime since = now - first.first_try;
  on_its_way_[sample] = OnItsWay::no;
  if (with_peers()) {
    came_[sample] = true;  // or as good as: nobody shall wait for it here
    answer_parked(sample, actions);
    if (const uint32_t keeper = keeper_of(sample); keeper != kNoOwner && keeper != settings_.rank)
      actions.push_back(action::TellUnread{keeper, sample});
  }
  std::vector<BatchPlace> places{place};
  if (const auto waiting = waiters_.find(sample); waiting != waiters_.end()) {
    places.insert(places.end(), waiting->second.begin(), waiting->second.end());
    waiters_.erase(waiting);
  }
  for (const BatchPlace& lost : places) mark_bad(lost, end, tries, since, actions);
}

void Policy::mark_bad(BatchPlace place, ReadEnd end, unsigned tries, RunTime since,
                      Actions& actions) {
  Batch& batch = *batch_of(place.batch);
  Entry& entry = batch.entries[place.index];
  settle(batch, entry, State::bad);
  const bool any_good = std::any_of(batch.entries.begin(), batch.entries.end(),
                                    [](const Entry& other) { return other.state != State::bad; });
  if (settings_.skip_bad_samples && any_good) {
    ++totals_.skipped;
    actions.push_back(action::Skip{entry.sample, place, end});
  } else if (!batch.failed) {
    batch.failed = true;
    actions.push_back(
        action::Fail{entry.sample, place, end, tries, since, settings_.skip_bad_samples});
  }
}

// Places that waited for a sample look for it anew.
void Policy::wake_waiters(uint64_t sample, Actions& actions) {
  if (with_peers()) answer_parked(sample, actions);
  const auto waiting = waiters_.find(sample);
  if (waiting == waiters_.end()) return;
  const std::vector<BatchPlace> places = std::move(waiting->second);
  waiters_.erase(waiting);
  for (const BatchPlace& place : places) queue(place);
}

void Policy::handle(const event::Placed& e, RunTime, Actions& actions) {
  if (e.tier > 0) placing_bytes_ -= plan_->sizes()[e.sample];
  const bool ok = e.ok && tier_alive_[e.tier];
  const bool is_new = ok && (copies_[e.sample] & TierCopies::bit(e.tier)) == 0;
  if (ok) copies_.add(e.sample, e.tier);
  if (with_peers() && !is_owner(e.sample)) guest_placed(e.sample, e.tier, ok, is_new, actions);
  // A second copy that failed says nothing about the first, which is still on its way.
  const bool second = plan_->placement().owner(e.sample).rank == settings_.rank &&
                      plan_->placement().backing(e.sample) == e.tier;
  if (!ok && second) return;
  if (with_peers()) answer_pushes(e.sample, ok, actions);
  if (on_its_way_[e.sample] == OnItsWay::placing) {
    on_its_way_[e.sample] = OnItsWay::no;
    wake_waiters(e.sample, actions);
  } else if (ok && with_peers()) {
    answer_parked(e.sample, actions);  // a peer was faster than this rank's own read
  }
}

void Policy::handle(const event::Timer&, RunTime now, Actions& actions) {
  timer_.reset();
  while (!retries_.empty() && retries_.begin()->at <= now) {
    for_source_.push_front(retries_.begin()->place);
    retries_.erase(retries_.begin());
  }
  if (next_look_ && *next_look_ <= now) look_after_late_reads(now, actions);
}

void Policy::handle(const event::TierLost& e, RunTime, Actions&) {
  tier_alive_[e.tier] = false;
  copies_.clear(e.tier);
  if (with_peers()) replica_bytes_[e.tier] = 0;
  const std::deque<BatchPlace> places = std::move(for_tier_[e.tier]);
  for_tier_[e.tier].clear();
  for (const BatchPlace& place : places) queue(place);
}

void Policy::handle(const event::Seek& e, RunTime now, Actions& actions) {
  for (uint32_t slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot].active) cancel(slot, now, actions);
  }
  if (with_peers()) forget_peers_work(actions);
  on_its_way_.forget(OnItsWay::arriving);
  for (const Batch& batch : batches_) actions.push_back(action::CloseBatch{batch.number});
  batches_.clear();
  open_bytes_ = 0;
  open_samples_ = 0;
  for_source_.clear();
  for (auto& queued : for_tier_) queued.clear();
  waiters_.clear();
  retries_.clear();
  totals_.decoding = 0;
  ahead_epoch_ = kNoBatch;
  next_delivery_ = next_number_;
  prepared_.reset();
  next_epoch_ = e.epoch;
  next_batch_in_epoch_ = 0;
  next_position_ = 0;
  resumed_epoch_ = e.epoch;
  resumed_start_ = e.start;
  // A list that a sampler gave is good for one time.
  known_.erase(known_.begin(), settings_.given_lists ? known_.end() : known_.lower_bound(e.epoch));
}

}  // namespace foreload
