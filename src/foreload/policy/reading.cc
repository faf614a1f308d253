// SPDX-License-Identifier: Apache-2.0
//
// The part of the policy that looks forward: which batches are open, what is read next, and from
// where.
#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "foreload/policy/policy.h"

namespace foreload {
namespace {

// Ranges in a slot are aligned for SIMD.
uint64_t aligned(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// Positions looked at for reading ahead per decision, so that one decision stays short.
constexpr uint64_t kAheadSteps = 256;

}  // namespace

Sharding Policy::sharding_of(uint64_t epoch, const EpochOrder& order) const {
  // A given list is what this rank has left of the epoch.
  if (settings_.given_lists) return {order.size(), 1, plan_->job().pad, 0};
  return {order.size(), plan_->job().ranks, plan_->job().pad, start_of(epoch)};
}

void Policy::read_own_list(const EpochOrder& order, const Sharding& sharding, uint64_t first,
                           std::span<uint64_t> out) const {
  read_list(order, sharding, settings_.given_lists ? 0 : settings_.rank, first, out);
}

uint64_t Policy::batches_of(const KnownEpoch& known, const Sharding& sharding) const {
  return known.batch_ends ? known.batch_ends->size()
                          : plan_->job().batching.batches(sharding.per_rank());
}

uint64_t Policy::end_of_batch(const KnownEpoch& known, const Sharding& sharding, uint64_t i) const {
  if (known.batch_ends) return (*known.batch_ends)[i];
  return std::min((i + 1) * plan_->job().batching.batch_size, sharding.per_rank());
}

bool Policy::past_the_end(uint64_t epoch) const {
  return !settings_.endless && epoch >= plan_->job().first_epoch + plan_->epochs();
}

const Policy::KnownEpoch* Policy::known_epoch(uint64_t epoch, Actions& actions) {
  const auto found = known_.find(epoch);
  if (found != known_.end()) return &found->second;
  if (computing_ != epoch && !settings_.given_lists) {
    computing_ = epoch;
    actions.push_back(action::ComputeEpoch{epoch});
  }
  return nullptr;
}

void Policy::go_on(RunTime now, Actions& actions) {
  deliver(actions);
  open_batches(actions);
  start_reads(now, actions);
  read_ahead(now, actions);
  set_timer(now, actions);
}

void Policy::open_batches(Actions& actions) {
  while (prepared_ || prepare_next_batch(actions)) {
    // What waits to be written to a disk takes memory too, also after its batch is consumed.
    const bool fits = open_bytes_ + placing_bytes_ + pushing_bytes_ + prepared_->bytes <=
                          settings_.window_bytes &&
                      open_samples_ + prepared_->samples.size() <= settings_.window_samples;
    if (!fits && !batches_.empty()) return;
    open_prepared_batch(actions);
  }
}

// False if the order is not known yet or nothing is left.
bool Policy::prepare_next_batch(Actions& actions) {
  while (!past_the_end(next_epoch_)) {
    const KnownEpoch* known = known_epoch(next_epoch_, actions);
    if (known == nullptr) return false;
    const Sharding sharding = sharding_of(next_epoch_, *known->order);
    const uint64_t batches = batches_of(*known, sharding);
    if (next_batch_in_epoch_ < batches) {
      Prepared& next = prepared_.emplace();
      next.sharding = sharding;
      next.samples.resize(end_of_batch(*known, sharding, next_batch_in_epoch_) - next_position_);
      read_own_list(*known->order, sharding, next_position_, next.samples);
      for (const uint64_t sample : next.samples)
        next.bytes += aligned(plan_->sizes()[sample]) + settings_.decoded_bytes;
      next.last_of_epoch = next_batch_in_epoch_ + 1 == batches;
      return true;
    }
    // A whole epoch without batches: there will never be any.
    if (batches == 0 && sharding.start == 0 && !settings_.given_lists) return false;
    if (with_peers()) mark_seen(*known, sharding);
    ++next_epoch_;
    next_batch_in_epoch_ = 0;
    next_position_ = 0;
    known_.erase(known_.begin(), known_.lower_bound(next_epoch_));
  }
  return false;
}

// Lists of a sampler are each rank's own: their samples have the places that they would have if the
// sampler had dealt them out in turn.
Sharding Policy::places_in_epoch() const {
  if (!settings_.given_lists) return prepared_->sharding;
  return {UINT64_MAX, plan_->job().ranks, plan_->job().pad, start_of(next_epoch_)};
}

void Policy::open_prepared_batch(Actions& actions) {
  Batch& batch = batches_.emplace_back();
  batch.number = next_number_++;
  batch.epoch = next_epoch_;
  batch.bytes = prepared_->bytes;
  batch.pending = static_cast<uint32_t>(prepared_->samples.size());
  batch.entries.reserve(prepared_->samples.size());
  for (const uint64_t sample : prepared_->samples) batch.entries.push_back({sample});
  open_bytes_ += batch.bytes;
  open_samples_ += batch.entries.size();
  actions.push_back(action::OpenBatch{batch.number, next_epoch_, next_position_, places_in_epoch(),
                                      std::move(prepared_->samples), prepared_->last_of_epoch});
  next_position_ += batch.entries.size();
  for (uint32_t i = 0; i < batch.entries.size(); ++i) queue({batch.number, i});
  ++next_batch_in_epoch_;
  // The next epoch's order takes a while to compute and is needed without a pause.
  if (prepared_->last_of_epoch && !past_the_end(next_epoch_ + 1))
    known_epoch(next_epoch_ + 1, actions);
  prepared_.reset();
}

// Decides where the sample of an open place comes from.
void Policy::queue(BatchPlace place) {
  const uint64_t sample = entry_of(place)->sample;
  if (copies_[sample] != 0) {
    for_tier_[static_cast<uint32_t>(std::countr_zero(copies_[sample]))].push_back(place);
    return;
  }
  if (on_its_way_[sample] != OnItsWay::no) {
    waiters_[sample].push_back(place);
    ++totals_.merged;
    return;
  }
  const uint32_t keeper = with_peers() && was_read(sample) ? keeper_of(sample) : kNoOwner;
  if (keeper == settings_.rank && may_expect(sample)) {
    expect(sample);
    waiters_[sample].push_back(place);
    return;
  }
  on_its_way_[sample] = OnItsWay::arriving;
  if (neighbour_with(sample).kind == Origin::Kind::neighbour) {
    for_neighbours_.push_back(place);
  } else if (keeper == kNoOwner || keeper == settings_.rank) {
    for_source_.push_back(place);
  } else {
    ask(keeper, place);
  }
}

void Policy::start_reads(RunTime now, Actions& actions) {
  while (!for_neighbours_.empty() && neighbour_limiter_.has_room()) {
    const BatchPlace place = for_neighbours_.front();
    const uint64_t sample = entry_of(place)->sample;
    for_neighbours_.pop_front();
    const Origin from = neighbour_with(sample);
    if (from.kind == Origin::Kind::neighbour)
      start(from, sample, place, !for_neighbours_.empty(), false, now, actions);
    else
      ask_keeper(place, actions);
  }
  while (!for_source_.empty() && source_.has_room()) {
    const BatchPlace place = for_source_.front();
    const uint64_t sample = entry_of(place)->sample;
    for_source_.pop_front();
    if (copies_[sample] != 0) {  // a tier has taken it since it was queued
      on_its_way_[sample] = OnItsWay::no;
      queue(place);
      wake_waiters(sample, actions);
      continue;
    }
    start({Origin::Kind::source, 0}, sample, place, !for_source_.empty(), false, now, actions);
  }
  for (uint32_t tier = 0; tier < for_tier_.size(); ++tier) {
    auto& queued = for_tier_[tier];
    while (!queued.empty() && tiers_[tier].has_room()) {
      const BatchPlace place = queued.front();
      queued.pop_front();
      start({Origin::Kind::tier, tier}, entry_of(place)->sample, place, !queued.empty(), false, now,
            actions);
    }
  }
  for (auto rank = peers_wanted_.begin(); rank != peers_wanted_.end();) {
    auto& queued = for_peer_[*rank];
    while (!queued.empty() && peer_limiters_[*rank].has_room()) {
      const BatchPlace place = queued.front();
      queued.pop_front();
      start({Origin::Kind::peer, *rank}, entry_of(place)->sample, place, !queued.empty(), false,
            now, actions);
    }
    rank = queued.empty() ? peers_wanted_.erase(rank) : std::next(rank);
  }
}

uint32_t Policy::start(Origin from, uint64_t sample, BatchPlace place, bool waiting, bool hedge,
                       RunTime now, Actions& actions) {
  if (free_requests_.empty()) {
    free_requests_.push_back(static_cast<uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const uint32_t slot = free_requests_.back();
  free_requests_.pop_back();
  Request& request = requests_[slot];
  ++request.generation;
  request.active = true;
  request.hedge = hedge;
  request.from = from;
  request.sample = sample;
  request.place = place;
  request.begin = now;
  request.rival = kAlone;
  if (place.batch == kNoBatch) ahead_in_flight_ += plan_->sizes()[sample];
  limiter_of(from).start(now, waiting);
  if (Entry* entry = entry_of(place)) {
    entry->state = State::reading;
    if (entry->tries == 0) entry->first_try = now;
  }
  actions.push_back(action::Read{id_of(slot), sample, place, from, settings_.read_deadline, hedge});
  return slot;
}

// Owned samples beyond the window go into their tiers while the source has nothing better to do.
void Policy::read_ahead(RunTime now, Actions& actions) {
  if (!for_source_.empty() || !source_.has_room() || past_the_end(next_epoch_)) return;
  const auto known = known_.find(next_epoch_);
  if (known == known_.end()) return;
  const EpochOrder& order = *known->second.order;
  if (ahead_epoch_ != next_epoch_ || ahead_position_ < next_position_) {
    ahead_epoch_ = next_epoch_;
    ahead_position_ = next_position_;
  }
  const Sharding sharding = sharding_of(next_epoch_, order);
  const uint64_t batches = batches_of(known->second, sharding);
  const uint64_t end = batches == 0 ? 0 : end_of_batch(known->second, sharding, batches - 1);
  for (uint64_t step = 0; step < kAheadSteps && ahead_position_ < end; ++step, ++ahead_position_) {
    if (!source_.has_room() || placing_bytes_ + ahead_in_flight_ >= settings_.ahead_bytes) return;
    std::array<uint64_t, 1> sample{};
    read_own_list(order, sharding, ahead_position_, sample);
    uint32_t tier = 0;
    if (copies_[sample[0]] != 0 || on_its_way_[sample[0]] != OnItsWay::no ||
        !keeps(sample[0], tier) || (with_peers() && was_read(sample[0])))
      continue;
    on_its_way_[sample[0]] = OnItsWay::arriving;
    ++totals_.read_ahead;
    start({Origin::Kind::source, 0}, sample[0], {kNoBatch, 0}, ahead_position_ + 1 < end, false,
          now, actions);
  }
}

}  // namespace foreload
