// SPDX-License-Identifier: Apache-2.0
//
// One rank of the simulator whose reads, and what is made of them, end when the test says so;
// copies are kept at once, and decoding a sample takes a millisecond of the simulator's clock.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/sim/policy_rank.h"

#include "../sim/conduct.h"
#include "jobs.h"

namespace foreload {

class OneRank : private sim::World {
 public:
  explicit OneRank(std::shared_ptr<const Plan> plan, PolicySettings settings = {},
                   std::span<const Held> held = {})
      : plan_(std::move(plan)),
        conduct_(*plan_, settings),
        cluster_(devices(*plan_), 0, 1),
        rank_({.plan = plan_,
               .policy = settings,
               .orders = std::make_shared<sim::SharedOrders>(plan_->order()),
               .held = {held.begin(), held.end()}},
              cluster_, *this),
        now_mark_(cluster_.agenda().add()) {
    rank_.begin();
    advance(RunTime(0));
  }

  void tell(const Event& event) {
    rank_.tell(event);
    advance(RunTime(0));
  }
  // What is due until then happens.
  void advance(RunTime by) {
    sim::Agenda& agenda = cluster_.agenda();
    const sim::Time end = agenda.now() + std::chrono::duration<double>(by).count();
    for (bool quiet = false; !quiet;) {
      quiet = true;
      agenda.set(now_mark_, end);
      for (uint32_t slot = agenda.next(); slot != now_mark_; slot = agenda.next()) {
        quiet = false;
        if (slot == rank_.timer_slot())
          rank_.tell(event::Timer{});
        else if (const auto token = cluster_.woken(slot))
          rank_.ended(*token);
      }
    }
  }
  void end_read(uint64_t request, ReadEnd end = ReadEnd::ok) {
    const action::Read read = reads_.at(request);
    if (end == ReadEnd::ok && read.from.kind == Origin::Kind::source) {
      ++source_reads_[read.sample];
      source_bytes_ += plan_->sizes()[read.sample];
    } else if (end == ReadEnd::ok) {
      EXPECT_TRUE(rank_.tiers().holds(read.from.number, read.sample));
    }
    rank_.end(request, end);
    advance(RunTime(0));
  }
  void end_make(uint64_t request, bool ok = true) {
    rank_.end(request, ok ? ReadEnd::ok : ReadEnd::undecodable);
    advance(RunTime(0));
  }
  void consume() {
    rank_.tell(event::Consumed{delivered_.at(consumed_++)});
    advance(RunTime(0));
  }
  // Ends the oldest read first until `batches` more are delivered or nothing is left.
  void run(uint64_t batches = UINT64_MAX) {
    const uint64_t goal = batches == UINT64_MAX ? batches : delivered_.size() + batches;
    while (delivered_.size() < goal) {
      if (totals().decoding > 0)
        advance(std::chrono::milliseconds(1));
      else if (!making_.empty())
        end_make(making_.begin()->first);
      else if (!reads_.empty())
        end_read(reads_.begin()->first);
      else if (delivered_.size() > consumed_)
        consume();
      else
        break;
    }
  }
  // The tier is off; reads of it that are under way end like that.
  void lose_tier(uint32_t tier) {
    rank_.lose_tier(tier);
    advance(RunTime(0));
  }

  PolicyTotals totals() const { return rank_.policy().totals(); }
  const Limiter& source_limiter() const { return rank_.policy().source_limiter(); }
  uint64_t kept(uint32_t tier) const {
    uint64_t samples = 0;
    for (uint64_t i = 0; i < plan_->sizes().samples(); ++i) samples += rank_.tiers().holds(tier, i);
    return samples;
  }

  const std::shared_ptr<const Plan> plan_;

 private:
  sim::Conduct conduct_;

 public:
  const std::map<uint64_t, action::Read>& reads_ = conduct_.reads();  // under way, by request
  const std::map<uint64_t, action::Make>& making_ = conduct_.making();
  std::map<uint64_t, action::OpenBatch> open_;  // also those that were delivered
  std::vector<uint64_t> delivered_;
  std::vector<uint64_t> fetched_;
  uint64_t consumed_ = 0;
  std::map<uint64_t, std::vector<uint64_t>> lists_;  // by epoch: samples delivered, in order
  std::map<uint64_t, uint64_t> source_reads_;
  uint64_t source_bytes_ = 0;
  std::vector<action::Fail> failed_;
  std::vector<action::Skip> skipped_;
  std::vector<uint64_t> cancelled_;
  std::vector<uint32_t> lost_;
  uint64_t hedges_ = 0;
  uint64_t undecodable_ = UINT64_MAX;  // sample

 private:
  static sim::ClusterSettings devices(const Plan& plan) {
    sim::ClusterSettings settings;
    settings.ranks = plan.job().ranks;
    settings.tiers.resize(plan.capacities().tiers());
    settings.preprocess = 1000 * static_cast<double>(plan.sizes().mean());
    return settings;
  }

  void heard(uint32_t, const Event& event) override { conduct_.heard(event); }
  void pass_on(uint32_t, std::vector<Action>& actions) override {
    for (const Action& action : actions) {
      if (const auto wrong = conduct_.decided(action)) ADD_FAILURE() << *wrong;
      if (const auto* open = std::get_if<action::OpenBatch>(&action))
        open_[open->batch] = *open;
      else if (const auto* close = std::get_if<action::CloseBatch>(&action))
        open_.erase(close->batch);
      else if (const auto* cancel = std::get_if<action::Cancel>(&action))
        cancelled_.push_back(cancel->request);
      else if (const auto* lose = std::get_if<action::LoseTier>(&action))
        lost_.push_back(lose->tier);
    }
  }
  sim::Fate fate(uint32_t, const action::Read& read) override {
    hedges_ += read.hedge;
    const bool rule = read.from.kind == Origin::Kind::source && !read.hedge && !read.detour;
    for (uint32_t tier = 0; rule && tier < plan_->capacities().tiers(); ++tier)
      EXPECT_FALSE(rank_.tiers().holds(tier, read.sample))
          << "read from the source although it is cached";
    return {.held = true};
  }
  sim::Fate makes(uint32_t, const action::Make&) override { return {.held = true}; }
  bool decodes(uint32_t, const action::Decode& decode) override {
    return decode.sample != undecodable_;
  }
  void delivered(uint32_t, const action::OpenBatch& batch,
                 const std::vector<uint64_t>& samples) override {
    EXPECT_TRUE(delivered_.empty() || batch.batch > delivered_.back());
    delivered_.push_back(batch.batch);
    std::vector<uint64_t>& list = lists_[batch.epoch];
    list.insert(list.end(), samples.begin(), samples.end());
    rank_.batches().ready().clear();
  }
  void fetched(uint32_t, const action::OpenBatch& batch, const std::vector<uint64_t>&) override {
    fetched_.push_back(batch.batch);
  }
  void failed(uint32_t, const action::Fail& fail) override { failed_.push_back(fail); }
  void skipped(uint32_t, const action::Skip& skip) override { skipped_.push_back(skip); }

  sim::Cluster cluster_;
  sim::PolicyRank rank_;
  const uint32_t now_mark_;  // slot
};

}  // namespace foreload
