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
      epoch_(desk.plan->job().first_epoch),
      resumed_epoch_(desk.plan->job().first_epoch),
      resumed_start_(desk.plan->job().start) {}

Sharding ReadingList::sharding_of(uint64_t epoch, const EpochOrder& order) const {
  const Job& job = desk_.plan->job();
  // A given list is what this rank has left of the epoch.
  if (desk_.settings.given_lists) return {order.size(), 1, job.pad, 0};
  return {order.size(), job.ranks, job.pad, start_of(epoch)};
}

void ReadingList::read(const EpochOrder& order, const Sharding& sharding, uint64_t first,
                       std::span<uint64_t> out) const {
  read_list(order, sharding, desk_.settings.given_lists ? 0 : desk_.settings.rank, first, out);
}

uint64_t ReadingList::batches_of(const Known& known, const Sharding& sharding) const {
  return known.batch_ends ? known.batch_ends->size()
                          : desk_.plan->job().batching.batches(sharding.per_rank());
}

uint64_t ReadingList::end_of_batch(const Known& known, const Sharding& sharding, uint64_t i) const {
  if (known.batch_ends) return (*known.batch_ends)[i];
  return std::min((i + 1) * desk_.plan->job().batching.batch_size, sharding.per_rank());
}

uint64_t ReadingList::end_of_batches(const Known& known, const Sharding& sharding) const {
  const uint64_t batches = batches_of(known, sharding);
  return batches == 0 ? 0 : end_of_batch(known, sharding, batches - 1);
}

uint64_t ReadingList::end_of_reads(const Known& known, const Sharding& sharding) const {
  const uint64_t steps = end_of_batches(known, sharding);
  return std::min(sharding.samples, sharding.start + steps * sharding.ranks);
}

const ReadingList::Known* ReadingList::known(uint64_t epoch) {
  const auto found = known_.find(epoch);
  if (found != known_.end()) return &found->second;
  if (computing_ != epoch && !desk_.settings.given_lists) {
    computing_ = epoch;
    desk_.act(action::ComputeEpoch{epoch});
  }
  return nullptr;
}

void ReadingList::learn(const event::EpochKnown& e) {
  if (computing_ == e.epoch) computing_ = kNoBatch;
  if (e.epoch < epoch_) return;
  const Known& known = known_[e.epoch] = {e.order, e.batch_ends};
  if (!desk_.with_peers || desk_.settings.given_lists || e.epoch != desk_.plan->job().first_epoch)
    return;
  const Sharding sharding = sharding_of(e.epoch, *e.order);
  reads_.note_left_out(*e.order, end_of_reads(known, sharding), sharding.samples);
}

const ReadingList::Batch* ReadingList::next() {
  if (next_) return &*next_;
  while (!desk_.past_the_end(epoch_)) {
    const Known* list = known(epoch_);
    if (list == nullptr) return nullptr;
    const Sharding sharding = sharding_of(epoch_, *list->order);
    const uint64_t batches = batches_of(*list, sharding);
    if (batch_in_epoch_ < batches) {
      Batch& batch = next_.emplace();
      batch.sharding = sharding;
      batch.samples.resize(end_of_batch(*list, sharding, batch_in_epoch_) - position_);
      read(*list->order, sharding, position_, batch.samples);
      for (const uint64_t sample : batch.samples)
        batch.bytes += aligned(desk_.bytes(sample)) + desk_.settings.decoded_bytes;
      batch.last_of_epoch = batch_in_epoch_ + 1 == batches;
      return &batch;
    }
    // A whole epoch without batches: there will never be any.
    if (batches == 0 && sharding.start == 0 && !desk_.settings.given_lists) return nullptr;
    if (desk_.with_peers)
      reads_.note_read(*list->order, sharding.start, end_of_reads(*list, sharding));
    ++epoch_;
    batch_in_epoch_ = 0;
    position_ = 0;
    known_.erase(known_.begin(), known_.lower_bound(epoch_));
  }
  return nullptr;
}

void ReadingList::open(uint64_t number) {
  // Lists of a sampler are each rank's own: their samples have the places that they would have if
  // the sampler had dealt them out in turn.
  const Job& job = desk_.plan->job();
  const Sharding places = desk_.settings.given_lists
                              ? Sharding{UINT64_MAX, job.ranks, job.pad, start_of(epoch_)}
                              : next_->sharding;
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
  // A list that a sampler gave is good for one time.
  known_.erase(known_.begin(),
               desk_.settings.given_lists ? known_.end() : known_.lower_bound(to.epoch));
}

}  // namespace foreload
