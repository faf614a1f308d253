// SPDX-License-Identifier: Apache-2.0
//
// The rule that a sample is not read from the source while a live, reachable copy of it exists,
// checked over the real contents of all tiers of all ranks. What it excepts is named in Exception.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/sim/policy_rank.h"

namespace foreload::sim {

enum class Exception : uint8_t {
  none,
  for_time,       // a copy would have come too late
  hedged,         // a copy was asked for and takes too long
  catching_up,    // the rank was stopped and hears what it missed
  asked_in_vain,  // its keeper refused, did not answer, or the bytes came damaged
  refused_push,   // its keeper once told this rank that it does not keep it
  first_reader,   // it was to read the sample first; the keeper did not wait so long
  padding,        // samples that an epoch repeats, or that the first one leaves out
  replica,        // the keeper itself has none; second copies elsewhere are not looked for
  other_view,     // ranks know of different deaths, and so name different keepers
  fetched,        // out of order, before anybody is known to have read it
};
inline constexpr size_t kExceptions = 11;

class SourceRule {
 public:
  using Ranks = std::span<const std::unique_ptr<PolicyRank>>;

  // The contents of `ranks` are looked at when needed. REQUIRES: all of it outlives this.
  // `peers`: ranks talk to each other.
  SourceRule(const Plan& plan, Ranks ranks, bool peers)
      : plan_(plan), ranks_(ranks), peers_(peers), sought_(ranks.size()) {
    note_who_reads_first();
  }

  // Reads from the source under the rule. `reaches`: whether two ranks can talk to each other.
  std::optional<std::string> check(uint32_t rank, const action::Read& read, bool catching_up,
                                   const std::function<bool(uint32_t, uint32_t)>& reaches) {
    if (read.detour) return except(Exception::for_time);
    if (read.hedge) return except(Exception::hedged);
    if (catching_up) return except(Exception::catching_up);
    const uint64_t sample = read.sample;
    if (holds(rank, sample))
      return fmt::format("rank {} reads sample {} from the source, its own tier has it", rank,
                         sample);
    if (!peers_) return std::nullopt;
    if (vain_.contains({rank, sample})) return except(Exception::asked_in_vain);
    if (!was_read(rank, read)) {
      const auto holder = any_holder(rank, sample, reaches, [](uint32_t) { return true; });
      if (!holder) return std::nullopt;
      if (is_fetch(read.place.batch)) return except(Exception::fetched);
      if (padding_.contains(sample)) return except(Exception::padding);
      if (first_reader_[sample] == rank) return except(Exception::first_reader);
      return fmt::format("rank {} reads sample {} first, which rank {} has", rank, sample, *holder);
    }
    const uint32_t keeper = ranks_[rank]->policy().keeper_of(sample);
    if (keeper != kNoOwner && keeper != rank)
      return fmt::format("rank {} reads sample {} from the source without asking rank {}", rank,
                         sample, keeper);
    if (refused_push_.contains({rank, sample})) return except(Exception::refused_push);
    // Nobody is to be asked, as far as this rank knows.
    const auto alike = any_holder(rank, sample, reaches, [&](uint32_t holder) {
      return ranks_[holder]->policy().keeper_of(sample) == holder &&
             given_up_[rank] == given_up_[holder];
    });
    if (alike)
      return fmt::format("rank {} reads sample {} from the source, which rank {} keeps", rank,
                         sample, *alike);
    const auto keeps = any_holder(rank, sample, reaches, [&](uint32_t holder) {
      return ranks_[holder]->policy().keeper_of(sample) == holder;
    });
    if (keeps) return except(Exception::other_view);
    if (any_holder(rank, sample, reaches, [](uint32_t) { return true; }))
      return except(Exception::replica);
    return std::nullopt;
  }
  // The read will succeed: what it was excused by is used up.
  void succeeds(uint32_t rank, uint64_t sample) { vain_.erase({rank, sample}); }
  // Bytes for a rank that had asked for them were damaged on the way.
  void damaged(uint32_t rank, uint64_t sample) { vain_.insert({rank, sample}); }
  // From now on the rank asks for everything: it does not know any more what was read.
  void seek(uint32_t rank) {
    sought_[rank] = true;
    std::erase_if(vain_, [rank](const auto& entry) { return entry.first == rank; });
  }
  const std::array<uint64_t, kExceptions>& exceptions() const { return exceptions_; }

  // What a policy wants done. What is wrong with it, if anything is.
  std::optional<std::string> note(uint32_t rank, const Action& action, bool catching_up) {
    if (const auto* open = std::get_if<action::OpenBatch>(&action)) {
      epochs_[{rank, open->batch}] = open->epoch;
    } else if (const auto* read = std::get_if<action::Read>(&action)) {
      if (read->from.kind != Origin::Kind::peer) return std::nullopt;
      asked_[{rank, read->request}] = read->sample;
      vain_.erase({rank, read->sample});
    } else if (const auto* cancel = std::get_if<action::Cancel>(&action)) {
      if (const auto asked = asked_.find({rank, cancel->request}); asked != asked_.end())
        vain_.insert({rank, asked->second});
    } else if (const auto* refuse = std::get_if<action::Refuse>(&action)) {
      const auto asked = asked_.find({refuse->rank, refuse->request});
      if (asked == asked_.end()) return "an answer to what nobody asked";
      vain_.insert({refuse->rank, asked->second});
      if (holds(rank, asked->second) && !catching_up)
        return fmt::format("rank {} refuses sample {}, which it has", rank, asked->second);
    } else if (const auto* push = std::get_if<action::SendPush>(&action)) {
      pushed_[{rank, push->push}] = push->sample;
    } else if (const auto* answer = std::get_if<action::AnswerPush>(&action)) {
      if (answer->end == PushEnd::refused)
        refused_push_.insert({answer->rank, pushed_[{answer->rank, answer->push}]});
    } else if (const auto* drop = std::get_if<action::DropPeer>(&action)) {
      given_up_[rank].insert(drop->rank);
    }
    return std::nullopt;
  }

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // a rank and a sample, request, push or batch

  std::nullopt_t except(Exception why) {
    ++exceptions_[static_cast<size_t>(why)];
    return std::nullopt;
  }
  bool holds(uint32_t rank, uint64_t sample) const {
    for (uint32_t tier = 0; tier < plan_.capacities().tiers(); ++tier)
      if (ranks_[rank]->tiers().holds(tier, sample)) return true;
    return false;
  }
  template <class Which>
  std::optional<uint32_t> any_holder(uint32_t rank, uint64_t sample,
                                     const std::function<bool(uint32_t, uint32_t)>& reaches,
                                     Which which) {
    for (uint32_t other = 0; other < ranks_.size(); ++other) {
      if (other == rank || ranks_[other]->life().dead() || ranks_[other]->life().stopped() ||
          !reaches(rank, other) || given_up_[rank].contains(other) ||
          given_up_[other].contains(rank))
        continue;
      if (holds(other, sample) && which(other)) return other;
    }
    return std::nullopt;
  }
  // Whether somebody has read it in an epoch before, or had it from the start.
  bool was_read(uint32_t rank, const action::Read& read) {
    if (read.place.batch == kNoBatch) return false;
    return sought_[rank] || first_epoch_[read.sample] <= epochs_[{rank, read.place.batch}];
  }
  void note_who_reads_first() {
    const Job& job = plan_.job();
    first_epoch_.assign(plan_.sizes().samples(), UINT64_MAX);
    first_reader_.assign(plan_.sizes().samples(), kNoOwner);
    for (const Held& copy : job.held) first_epoch_[copy.sample] = 0;
    for (uint64_t epoch = job.first_epoch; epoch < job.first_epoch + plan_.epochs(); ++epoch) {
      const Sharding sharding = plan_.sharding(epoch);
      const auto order = *plan_.order().epoch(epoch);
      const uint64_t batches = job.batching.batches(sharding.per_rank());
      const uint64_t steps = std::min(batches * job.batching.batch_size, sharding.per_rank());
      std::vector<uint64_t> list(steps);
      std::set<uint64_t> seen;
      for (uint32_t rank = 0; rank < job.ranks; ++rank) {
        read_list(*order, sharding, rank, 0, list);
        for (uint64_t step = 0; step < steps; ++step) {
          const uint64_t sample = list[step];
          const bool repeated = sharding.start + step * sharding.ranks + rank >= sharding.samples;
          if (repeated || !seen.insert(sample).second) padding_.insert(sample);
          if (repeated || first_epoch_[sample] <= epoch) continue;
          if (first_epoch_[sample] == UINT64_MAX) first_reader_[sample] = rank;
          first_epoch_[sample] = std::min(first_epoch_[sample], epoch + 1);
        }
      }
      if (epoch > job.first_epoch) continue;
      for (uint64_t sample = 0; sample < plan_.sizes().samples(); ++sample)
        if (!seen.contains(sample)) padding_.insert(sample);
    }
  }

  const Plan& plan_;
  Ranks ranks_;
  const bool peers_;
  std::vector<uint64_t> first_epoch_;   // by sample: 1 + the one that reads it first; 0: held
  std::vector<uint32_t> first_reader_;  // by sample
  std::set<uint64_t> padding_;          // samples
  std::vector<bool> sought_;            // by rank
  std::map<uint32_t, std::set<uint32_t>> given_up_;  // by rank: peers
  std::map<Key, uint64_t> epochs_;                   // of batches
  std::map<Key, uint64_t> asked_;                    // samples, by request
  std::map<Key, uint64_t> pushed_;                   // samples, by push
  std::set<Key> vain_;                               // samples asked for in vain, not had since
  std::set<Key> refused_push_;                       // samples
  std::array<uint64_t, kExceptions> exceptions_{};
};

}  // namespace foreload::sim
