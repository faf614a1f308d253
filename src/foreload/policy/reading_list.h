// SPDX-License-Identifier: Apache-2.0
//
// This rank's reading list as a cursor: across epochs, cut into batches, from where the run begins
// or a seek says. The order of an epoch is asked for when it is needed and was known at the start;
// otherwise the list waits until somebody tells it.
//
// For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "foreload/policy/first_reads.h"

namespace foreload {

class ReadingList {
 public:
  // The first reads are told what is read when an epoch is over.
  ReadingList(Desk& desk, FirstReads& reads);

  struct Batch {
    Sharding sharding;
    std::vector<uint64_t> samples;
    uint64_t bytes = 0;
    bool last_of_epoch = false;
  };
  // The next batch; null if its order is not known yet or nothing is left.
  const Batch* next();
  uint64_t epoch() const { return epoch_; }  // its
  // It is opened under this number, and the cursor moves on. REQUIRES: next().
  void open(uint64_t number);

  void learn(const event::EpochKnown& known);
  void seek(const event::Seek& to);

  // Goes through what comes after the next batch in its epoch while `visit(sample, more)` is true,
  // and begins there the next time; a few steps only, so that one decision stays short.
  template <class Visit>
  void look_ahead(Visit visit);

 private:
  // Positions looked at per decision.
  static constexpr uint64_t kAheadSteps = 256;

  // Null if it is not known yet.
  const EpochOrder* known(uint64_t epoch);
  uint64_t start_of(uint64_t epoch) const { return epoch == resumed_epoch_ ? resumed_start_ : 0; }
  Sharding sharding_of(uint64_t epoch, const EpochOrder& order) const;
  void read(const EpochOrder& order, const Sharding& sharding, uint64_t first,
            std::span<uint64_t> out) const;
  uint64_t batches_of(const EpochOrder& order, const Sharding& sharding) const;
  uint64_t end_of_batch(const EpochOrder& order, const Sharding& sharding, uint64_t i) const;
  uint64_t end_of_batches(const EpochOrder& order, const Sharding& sharding) const;
  // The position in the epoch's order after the last one that anybody reads; padding apart.
  uint64_t end_of_reads(const EpochOrder& order, const Sharding& sharding) const;

  Desk& desk_;
  FirstReads& reads_;
  const uint64_t known_ahead_;                                   // epochs, from the start
  std::map<uint64_t, std::shared_ptr<const EpochOrder>> known_;  // this epoch and the next
  uint64_t computing_ = kNoBatch;                                // epoch asked for, not known yet
  // The next batch, and the samples of its epoch consumed before the run.
  uint64_t epoch_;
  uint64_t batch_in_epoch_ = 0;
  uint64_t position_ = 0;  // of its first sample in the rank's list of the epoch
  uint64_t resumed_epoch_;
  uint64_t resumed_start_;
  std::optional<Batch> next_;
  // Looking ahead: the next position.
  uint64_t ahead_epoch_ = 0;
  uint64_t ahead_position_ = 0;
};

template <class Visit>
void ReadingList::look_ahead(Visit visit) {
  if (desk_.past_the_end(epoch_)) return;
  const auto known = known_.find(epoch_);
  if (known == known_.end()) return;
  if (ahead_epoch_ != epoch_ || ahead_position_ < position_) {
    ahead_epoch_ = epoch_;
    ahead_position_ = position_;
  }
  const EpochOrder& order = *known->second;
  const Sharding sharding = sharding_of(epoch_, order);
  const uint64_t end = end_of_batches(order, sharding);
  for (uint64_t step = 0; step < kAheadSteps && ahead_position_ < end; ++step, ++ahead_position_) {
    std::array<uint64_t, 1> sample{};
    read(order, sharding, ahead_position_, sample);
    if (!visit(sample[0], ahead_position_ + 1 < end)) return;
  }
}

}  // namespace foreload
