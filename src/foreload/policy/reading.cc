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
  return {order.size(), plan_->job().ranks, plan_->job().pad,
          epoch == resumed_epoch_ ? resumed_start_ : 0};
}

bool Policy::past_the_end(uint64_t epoch) const {
  return !settings_.endless && epoch >= plan_->job().first_epoch + plan_->epochs();
}

const EpochOrder* Policy::known_order(uint64_t epoch, Actions& actions) {
  const auto found = orders_.find(epoch);
  if (found != orders_.end()) return found->second.get();
  if (computing_ != epoch) {
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
}

void Policy::open_batches(Actions& actions) {
  while (prepared_ || prepare_next_batch(actions)) {
    // What waits to be written to a disk takes memory too, also after its batch is consumed.
    const bool fits = open_bytes_ + placing_bytes_ + prepared_->bytes <= settings_.window_bytes;
    if (!fits && !batches_.empty()) return;
    open_prepared_batch(actions);
  }
}

// False if the order is not known yet or nothing is left.
bool Policy::prepare_next_batch(Actions& actions) {
  const Batching& batching = plan_->job().batching;
  while (!past_the_end(next_epoch_)) {
    const EpochOrder* order = known_order(next_epoch_, actions);
    if (order == nullptr) return false;
    const Sharding sharding = sharding_of(next_epoch_, *order);
    const uint64_t batches = batching.batches(sharding.per_rank());
    if (next_batch_in_epoch_ < batches) {
      const uint64_t first = next_batch_in_epoch_ * batching.batch_size;
      Prepared& next = prepared_.emplace();
      next.samples.resize(batching.length(sharding.per_rank(), next_batch_in_epoch_));
      read_list(*order, sharding, settings_.rank, first, next.samples);
      for (const uint64_t sample : next.samples) next.bytes += aligned(plan_->sizes()[sample]);
      next.last_of_epoch = next_batch_in_epoch_ + 1 == batches;
      return true;
    }
    // A whole epoch without batches: there will never be any.
    if (batches == 0 && sharding.start == 0) return false;
    ++next_epoch_;
    next_batch_in_epoch_ = 0;
    orders_.erase(orders_.begin(), orders_.lower_bound(next_epoch_));
  }
  return false;
}

void Policy::open_prepared_batch(Actions& actions) {
  Batch& batch = batches_.emplace_back();
  batch.number = next_number_++;
  batch.bytes = prepared_->bytes;
  batch.pending = static_cast<uint32_t>(prepared_->samples.size());
  batch.entries.reserve(prepared_->samples.size());
  for (const uint64_t sample : prepared_->samples) batch.entries.push_back({sample});
  open_bytes_ += batch.bytes;
  actions.push_back(action::OpenBatch{batch.number, next_epoch_,
                                      next_batch_in_epoch_ * plan_->job().batching.batch_size,
                                      std::move(prepared_->samples), prepared_->last_of_epoch});
  for (uint32_t i = 0; i < batch.entries.size(); ++i) queue({batch.number, i});
  ++next_batch_in_epoch_;
  // The next epoch's order takes a while to compute and is needed without a pause.
  if (prepared_->last_of_epoch && !past_the_end(next_epoch_ + 1))
    known_order(next_epoch_ + 1, actions);
  prepared_.reset();
}

// Decides where the sample of an open place comes from.
void Policy::queue(BatchPlace place) {
  const uint64_t sample = entry_of(place)->sample;
  if (copies_[sample] != 0) {
    for_tier_[static_cast<uint32_t>(std::countr_zero(copies_[sample]))].push_back(place);
  } else if (on_its_way_[sample] == OnItsWay::no) {
    on_its_way_[sample] = OnItsWay::arriving;
    for_source_.push_back(place);
  } else {
    waiters_[sample].push_back(place);
    ++totals_.merged;
  }
}

void Policy::start_reads(RunTime now, Actions& actions) {
  while (!for_source_.empty() && source_.has_room()) {
    const BatchPlace place = for_source_.front();
    const uint64_t sample = entry_of(place)->sample;
    for_source_.pop_front();
    if (copies_[sample] != 0) {  // a tier has taken it since it was queued
      on_its_way_[sample] = OnItsWay::no;
      queue(place);
      wake_waiters(sample);
      continue;
    }
    start(source_, {Origin::Kind::source, 0}, sample, place, !for_source_.empty(), now, actions);
  }
  for (uint32_t tier = 0; tier < for_tier_.size(); ++tier) {
    auto& queued = for_tier_[tier];
    while (!queued.empty() && tiers_[tier].has_room()) {
      const BatchPlace place = queued.front();
      queued.pop_front();
      start(tiers_[tier], {Origin::Kind::tier, tier}, entry_of(place)->sample, place,
            !queued.empty(), now, actions);
    }
  }
}

void Policy::start(Limiter& limiter, Origin from, uint64_t sample, BatchPlace place, bool waiting,
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
  request.from = from;
  request.sample = sample;
  request.place = place;
  limiter.start(now, waiting);
  if (Entry* entry = entry_of(place)) {
    entry->state = State::reading;
    if (entry->tries == 0) entry->first_try = now;
  }
  actions.push_back(action::Read{uint64_t{request.generation} << 32 | slot, sample, place, from,
                                 settings_.read_deadline});
}

// Owned samples beyond the window go into their tiers while the source has nothing better to do.
void Policy::read_ahead(RunTime now, Actions& actions) {
  if (!for_source_.empty() || !source_.has_room() || past_the_end(next_epoch_)) return;
  const auto known = orders_.find(next_epoch_);
  if (known == orders_.end()) return;
  const EpochOrder& order = *known->second;
  const uint64_t opened = next_batch_in_epoch_ * plan_->job().batching.batch_size;
  if (ahead_epoch_ != next_epoch_ || ahead_position_ < opened) {
    ahead_epoch_ = next_epoch_;
    ahead_position_ = opened;
  }
  const Sharding sharding = sharding_of(next_epoch_, order);
  uint64_t end = sharding.per_rank();
  if (plan_->job().batching.drop_last) end -= end % plan_->job().batching.batch_size;
  for (uint64_t step = 0; step < kAheadSteps && ahead_position_ < end; ++step, ++ahead_position_) {
    if (!source_.has_room() || placing_bytes_ + ahead_in_flight_ >= settings_.ahead_bytes) return;
    std::array<uint64_t, 1> sample{};
    read_list(order, sharding, settings_.rank, ahead_position_, sample);
    uint32_t tier = 0;
    if (copies_[sample[0]] != 0 || on_its_way_[sample[0]] != OnItsWay::no ||
        !keeps(sample[0], tier))
      continue;
    on_its_way_[sample[0]] = OnItsWay::arriving;
    ahead_in_flight_ += plan_->sizes()[sample[0]];
    ++totals_.read_ahead;
    start(source_, {Origin::Kind::source, 0}, sample[0], {kNoBatch, 0}, ahead_position_ + 1 < end,
          now, actions);
  }
}

}  // namespace foreload
