// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/reading_list.h"

#include <algorithm>

namespace foreload {
namespace {

// Ranges in a slot are aligned for SIMD.
uint64_t aligned(uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

}  // namespace

ReadingList::ReadingList(Desk& desk, FirstReads& reads)
    : desk_(desk),
      reads_(reads),
      known_ahead_(desk.plan->order().known_until()),
      epoch_(desk.plan->job().first_epoch),
      resumed_epoch_(desk.plan->job().first_epoch),
      resumed_start_(desk.plan->job().start) {}

Sharding ReadingList::sharding_of(uint64_t epoch, const EpochOrder& order) const {
  return desk_.plan->dealt(order.size(), start_of(epoch));
}

void ReadingList::read(const EpochOrder& order, const Sharding& sharding, uint64_t first,
                       std::span<uint64_t> out) const {
  read_list(order, sharding, sharding.ranks == 1 ? 0 : desk_.settings.rank, first, out);
}

uint64_t ReadingList::batches_of(const EpochOrder& order, const Sharding& sharding) const {
  const auto ends = order.batch_ends();
  return ends.empty() ? desk_.plan->job().batching.batches(sharding.per_rank()) : ends.size();
}

uint64_t ReadingList::end_of_batch(const EpochOrder& order, const Sharding& sharding,
                                   uint64_t i) const {
  if (const auto ends = order.batch_ends(); !ends.empty()) return ends[i];
  return std::min((i + 1) * desk_.plan->job().batching.batch_size, sharding.per_rank());
}

uint64_t ReadingList::end_of_batches(const EpochOrder& order, const Sharding& sharding) const {
  const uint64_t batches = batches_of(order, sharding);
  return batches == 0 ? 0 : end_of_batch(order, sharding, batches - 1);
}

uint64_t ReadingList::end_of_reads(const EpochOrder& order, const Sharding& sharding) const {
  const uint64_t steps = end_of_batches(order, sharding);
  return std::min(sharding.samples, sharding.start + steps * sharding.ranks);
}

const EpochOrder* ReadingList::known(uint64_t epoch) {
  const auto found = known_.find(epoch);
  if (found != known_.end()) return found->second.get();
  if (computing_ != epoch && epoch < known_ahead_) {
    computing_ = epoch;
    desk_.act(action::ComputeEpoch{epoch});
  }
  return nullptr;
}

void ReadingList::learn(const event::EpochKnown& e) {
  if (computing_ == e.epoch) computing_ = kNoBatch;
  if (e.epoch < epoch_) return;
  known_[e.epoch] = e.order;
  const Plan& plan = *desk_.plan;
  if (!desk_.with_peers || !plan.order().shared() || e.epoch != plan.job().first_epoch) return;
  const Sharding sharding = sharding_of(e.epoch, *e.order);
  reads_.note_left_out(*e.order, end_of_reads(*e.order, sharding), sharding.samples);
}

const ReadingList::Batch* ReadingList::next() {
  if (next_) return &*next_;
  while (!desk_.past_the_end(epoch_)) {
    const EpochOrder* order = known(epoch_);
    if (order == nullptr) return nullptr;
    const Sharding sharding = sharding_of(epoch_, *order);
    const uint64_t batches = batches_of(*order, sharding);
    if (batch_in_epoch_ < batches) {
      Batch& batch = next_.emplace();
      batch.sharding = sharding;
      batch.samples.resize(end_of_batch(*order, sharding, batch_in_epoch_) - position_);
      read(*order, sharding, position_, batch.samples);
      for (const uint64_t sample : batch.samples)
        batch.bytes += aligned(desk_.bytes(sample)) + desk_.settings.decoded_bytes +
                       (desk_.makes() ? aligned(desk_.source_bytes(sample)) : 0);
      batch.last_of_epoch = batch_in_epoch_ + 1 == batches;
      return &batch;
    }
    // A whole epoch without batches, and those to come are no longer: there will never be any.
    if (batches == 0 && sharding.start == 0 && epoch_ < known_ahead_) return nullptr;
    if (desk_.with_peers) reads_.note_read(*order, sharding.start, end_of_reads(*order, sharding));
    ++epoch_;
    batch_in_epoch_ = 0;
    position_ = 0;
    known_.erase(known_.begin(), known_.lower_bound(epoch_));
  }
  return nullptr;
}

void ReadingList::open(uint64_t number) {
  // Samples of an order of each rank's own have the places that they would have if somebody had
  // dealt them out in turn.
  const Job& job = desk_.plan->job();
  const Sharding places = desk_.plan->order().shared()
                              ? next_->sharding
                              : Sharding{UINT64_MAX, job.ranks, job.pad, start_of(epoch_)};
  const bool last = next_->last_of_epoch;
  const uint64_t end = position_ + next_->samples.size();
  desk_.act(action::OpenBatch{number, epoch_, position_, places, std::move(next_->samples), last});
  next_.reset();
  position_ = end;
  ++batch_in_epoch_;
  // The next epoch's order takes a while to compute and is needed without a pause.
  if (last && !desk_.past_the_end(epoch_ + 1)) known(epoch_ + 1);
}

void ReadingList::seek(const event::Seek& to) {
  ahead_epoch_ = kNoBatch;
  next_.reset();
  epoch_ = resumed_epoch_ = to.epoch;
  batch_in_epoch_ = 0;
  position_ = 0;
  resumed_start_ = to.start;
  // A list that was given is good for one time.
  known_.erase(known_.begin(),
               to.epoch < known_ahead_ ? known_.lower_bound(to.epoch) : known_.end());
}

}  // namespace foreload
