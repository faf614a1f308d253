// SPDX-License-Identifier: Apache-2.0
//
// What the loop of one rank must get: its reading list from where the job began, or from where it
// went on after a seek, cut into batches. Reckoned from the plan's orders, not from what a policy
// says about its batches.
#pragma once

#include <algorithm>
#include <compare>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/plan/plan.h"
#include "foreload/policy/actions.h"

namespace foreload::sim {

// So many samples of an epoch are behind all ranks together.
struct JobPosition {
  uint64_t epoch = 0;
  uint64_t start = 0;
  friend auto operator<=>(const JobPosition&, const JobPosition&) = default;
};

class ReadingList {
 public:
  // REQUIRES: the plan outlives it.
  ReadingList(const Plan& plan, uint32_t rank, JobPosition from, uint64_t first_batch)
      : plan_(&plan), rank_(rank), from_(from), next_number_(first_batch) {
    for (uint64_t epoch = from.epoch; epoch < end(); ++epoch) batches_ += batches_in(epoch);
    epoch_ = from.epoch;
    skip_empty_epochs();
  }

  // In all, from where it begins.
  uint64_t batches() const { return batches_; }

  // Where the job is after so many batches of every rank; nothing: at its end.
  std::optional<JobPosition> after(uint64_t batches) const {
    for (uint64_t epoch = from_.epoch; epoch < end(); ++epoch) {
      const uint64_t here = batches_in(epoch);
      if (batches < here) {
        const Sharding sharding = sharding_of(epoch);
        return JobPosition{
            epoch, sharding.start +
                       std::min(batches * batch_size(), sharding.per_rank()) * sharding.ranks};
      }
      batches -= here;
    }
    return std::nullopt;
  }

  // A batch was delivered, with the bytes of these samples. What is wrong with it, if anything is.
  // `skipped`: samples that this rank could not have.
  std::optional<std::string> delivered(const action::OpenBatch& batch,
                                       const std::vector<uint64_t>& filled,
                                       const std::set<std::pair<uint32_t, uint64_t>>& skipped) {
    if (batch.batch != next_number_++)
      return fmt::format("rank {}: batch {} is out of turn", rank_, batch.batch);
    if (epoch_ == end()) return fmt::format("rank {}: a batch after the last one", rank_);
    const Sharding sharding = sharding_of(epoch_);
    std::vector<uint64_t> expected(std::min(batch_size(), sharding.per_rank() - read_));
    if (batch.epoch != epoch_ || batch.first != read_ || filled.size() != expected.size())
      return fmt::format(
          "rank {}: batch {} is {} samples from {} of epoch {}, not {} from {} of {}", rank_,
          batch.batch, filled.size(), batch.first, batch.epoch, expected.size(), read_, epoch_);
    read_list(**plan_->order().epoch(epoch_), sharding, rank_, read_, expected);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (filled[i] == expected[i]) continue;
      const bool substitute = skipped.contains({rank_, expected[i]}) &&
                              std::ranges::find(expected, filled[i]) != expected.end();
      if (!substitute)
        return fmt::format("rank {}: place {} of batch {} has sample {}, not {}", rank_, i,
                           batch.batch, static_cast<int64_t>(filled[i]), expected[i]);
    }
    read_ += expected.size();
    if (++batches_read_ == batches_in(epoch_)) {
      ++epoch_;
      skip_empty_epochs();
    }
    return std::nullopt;
  }

 private:
  uint64_t end() const { return plan_->job().first_epoch + plan_->epochs(); }
  uint64_t batch_size() const { return plan_->job().batching.batch_size; }
  Sharding sharding_of(uint64_t epoch) const {
    return {plan_->sizes().samples(), plan_->job().ranks, plan_->job().pad,
            epoch == from_.epoch ? from_.start : 0};
  }
  uint64_t batches_in(uint64_t epoch) const {
    return plan_->job().batching.batches(sharding_of(epoch).per_rank());
  }
  void skip_empty_epochs() {
    read_ = batches_read_ = 0;
    while (epoch_ < end() && batches_in(epoch_) == 0) ++epoch_;
  }

  const Plan* plan_;
  uint32_t rank_;
  JobPosition from_;
  uint64_t batches_ = 0;
  uint64_t next_number_;
  uint64_t epoch_ = 0;         // of the next batch
  uint64_t read_ = 0;          // of it
  uint64_t batches_read_ = 0;  // of it
};

}  // namespace foreload::sim
