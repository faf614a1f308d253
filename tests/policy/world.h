// SPDX-License-Identifier: Apache-2.0
//
// A world for a policy under test: carries actions out in memory, in any order the test likes, and
// checks what must hold whatever happens.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/policy/driver.h"
#include "foreload/policy/policy.h"

namespace foreload {

inline std::shared_ptr<const Plan> plan_of(Job job, Sizes sizes) {
  return std::make_shared<const Plan>(std::move(*Plan::make(job, std::move(sizes))));
}

inline Job job_of(uint64_t epochs, uint64_t memory, uint64_t disk = 0, uint64_t batch = 4) {
  Job job;
  job.epochs = epochs;
  job.batching.batch_size = batch;
  job.tiers = {{{"memory", memory, 2}, {"disk", disk, 1}}};
  return job;
}

// Carries out actions. What is in flight ends when the test says so.
class World : private Driver {
 public:
  World(std::shared_ptr<const Plan> plan, PolicySettings settings = {},
        std::span<const Held> held = {})
      : plan_(std::move(plan)), policy_(plan_, std::move(settings), held) {
    for (const Held& copy : held) tiers_[copy.tier].insert(copy.sample);
    policy_.begin(now_, todo_);
    carry_out(todo_);
  }

  void tell(const Event& event) {
    policy_.on(event, now_, todo_);
    carry_out(todo_);
  }
  void advance(RunTime by) {
    now_ += by;
    if (timer_ && *timer_ <= now_) {
      timer_.reset();
      tell(event::Timer{});
    }
  }
  void end_read(uint64_t request, ReadEnd end = ReadEnd::ok) {
    const action::Read read = reads_.at(request);
    reads_.erase(request);
    if (end == ReadEnd::ok) {
      if (read.from.kind == Origin::Kind::source) {
        ++source_reads_[read.sample];
        source_bytes_ += plan_->sizes()[read.sample];
      } else {
        EXPECT_TRUE(tiers_[read.from.number].contains(read.sample));
      }
      if (read.place.batch != kNoBatch) filled_[read.place] = read.sample;
    }
    tell(event::ReadEnded{request, end});
  }
  void end_place(size_t i, bool ok = true) {
    const action::Place place = placing_.at(i);
    placing_.erase(placing_.begin() + static_cast<std::ptrdiff_t>(i));
    if (ok) tiers_[place.tier].insert(place.sample);
    tell(event::Placed{place.sample, place.tier, ok});
  }
  void end_decode(size_t i, bool ok = true) {
    const action::Decode decode = decoding_.at(i);
    decoding_.erase(decoding_.begin() + static_cast<std::ptrdiff_t>(i));
    tell(event::Decoded{decode.place, ok});
  }
  // Ends the oldest things first until `batches` more are delivered or nothing is left.
  void run(uint64_t batches = UINT64_MAX) {
    const uint64_t goal = batches == UINT64_MAX ? batches : delivered_.size() + batches;
    while (delivered_.size() < goal) {
      if (!placing_.empty())
        end_place(0);
      else if (!decoding_.empty())
        end_decode(0);
      else if (!reads_.empty())
        end_read(reads_.begin()->first);
      else if (delivered_.size() > consumed_)
        consume();
      else
        break;
    }
  }
  void consume() { tell(event::Consumed{delivered_.at(consumed_++)}); }

  std::map<uint64_t, action::Read> reads_;  // in flight
  std::vector<action::Place> placing_;
  std::vector<action::Decode> decoding_;
  std::map<uint64_t, action::OpenBatch> open_;  // also those that were delivered
  std::vector<uint64_t> delivered_;
  std::vector<uint64_t> fetched_;
  uint64_t consumed_ = 0;
  std::vector<std::vector<uint64_t>> lists_;  // by epoch: samples delivered, in order
  std::map<uint64_t, uint64_t> source_reads_;
  uint64_t source_bytes_ = 0;
  std::map<uint32_t, std::set<uint64_t>> tiers_;
  std::vector<action::Fail> failed_;
  std::vector<action::Skip> skipped_;
  std::vector<uint64_t> cancelled_;
  std::vector<uint64_t> evicted_;
  std::vector<uint32_t> lost_;
  uint64_t hedges_ = 0;
  std::optional<RunTime> timer_;
  RunTime now_{0};
  std::shared_ptr<const Plan> plan_;
  Policy policy_;

 private:
  void carry(action::ComputeEpoch& a) override {
    policy_.on(event::EpochKnown{a.epoch, std::move(*plan_->order().epoch(a.epoch))}, now_, todo_);
  }
  void carry(action::OpenBatch& a) override {
    EXPECT_FALSE(open_.contains(a.batch));
    open_[a.batch] = a;
  }
  void carry(action::Read& a) override {
    if (a.place.batch != kNoBatch) {
      EXPECT_TRUE(open_.contains(a.place.batch));
      EXPECT_EQ(open_[a.place.batch].samples.at(a.place.index), a.sample);
    }
    EXPECT_TRUE(reads_.emplace(a.request, a).second) << "a request id in use";
    if (a.hedge) {
      ++hedges_;
    } else if (a.from.kind == Origin::Kind::source) {
      for (const auto& [tier, samples] : tiers_)
        EXPECT_FALSE(samples.contains(a.sample)) << "read from the source although it is cached";
      for (const auto& [id, other] : reads_)
        EXPECT_FALSE(id != a.request && other.sample == a.sample &&
                     other.from.kind == Origin::Kind::source)
            << "read twice at a time";
    }
  }
  void carry(action::Cancel& a) override {
    EXPECT_EQ(reads_.erase(a.request), 1u);
    cancelled_.push_back(a.request);
  }
  void carry(action::Place& a) override {
    EXPECT_TRUE(plan_->placement().owner(a.sample).tier == a.tier ||
                plan_->placement().backing(a.sample) == a.tier);
    placing_.push_back(a);
  }
  void carry(action::Evict& a) override {
    tiers_[a.tier].erase(a.sample);
    evicted_.push_back(a.sample);
  }
  void carry(action::Decode& a) override {
    EXPECT_TRUE(filled_.contains(a.place));
    decoding_.push_back(a);
  }
  void carry(action::Copy& a) override {
    ASSERT_TRUE(filled_.contains(a.from));
    filled_[a.to] = filled_[a.from];
  }
  void carry(action::Substitute& a) override {
    ASSERT_TRUE(filled_.contains(a.from));
    filled_[a.to] = filled_[a.from];
  }
  void carry(action::LoseTier& a) override {
    tiers_[a.tier].clear();
    lost_.push_back(a.tier);
  }
  void carry(action::Deliver& a) override {
    if (is_fetch(a.batch)) return fetched_.push_back(a.batch);
    EXPECT_TRUE(delivered_.empty() || a.batch > delivered_.back());
    delivered_.push_back(a.batch);
    const action::OpenBatch& batch = open_.at(a.batch);
    const uint64_t row = batch.epoch;
    if (lists_.size() <= row) lists_.resize(row + 1);
    for (uint32_t i = 0; i < batch.samples.size(); ++i) {
      const BatchPlace place{a.batch, i};
      ASSERT_TRUE(filled_.contains(place)) << "delivered without bytes";
      lists_[row].push_back(filled_[place]);
    }
  }
  void carry(action::Fail& a) override { failed_.push_back(a); }
  void carry(action::Skip& a) override { skipped_.push_back(a); }
  void carry(action::SetTimer& a) override { timer_ = a.at; }
  void carry(action::CloseBatch& a) override { EXPECT_EQ(open_.erase(a.batch), 1u); }
  void not_alone() override { ADD_FAILURE() << "a rank without peers deals with some"; }

  std::vector<Action> todo_;
  std::map<BatchPlace, uint64_t> filled_;  // which sample's bytes are there
};

inline std::vector<uint64_t> reading_list(const Plan& plan, uint64_t epoch, uint32_t rank = 0) {
  const auto order = std::move(*plan.order().epoch(epoch));
  std::vector<uint64_t> list(plan.sharding(epoch).per_rank());
  read_list(*order, plan.sharding(epoch), rank, 0, list);
  return list;
}

}  // namespace foreload
