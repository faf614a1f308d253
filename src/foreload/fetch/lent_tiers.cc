// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/lent_tiers.h"

#include <functional>
#include <utility>

namespace foreload {

LentTiers::LentTiers(EngineParts& parts, EngineCounts& counts)
    : parts_(parts), counts_(counts), ahead_(parts.plan->sizes().samples(), 1) {
  for (uint32_t tier = 0; tier < parts.tiers.size(); ++tier) {
    const auto answered = [inbox = parts.inbox, tier](std::span<const TierAnswer> answers) {
      inbox->post(message::TierAnswered{tier, {answers.begin(), answers.end()}});
    };
    const auto run = [hands = parts.hands.get()](Traffic traffic, std::function<void()> job) {
      if (traffic == Traffic::peer)
        hands->serve(std::move(job));
      else
        hands->copy(std::move(job));
    };
    Tier& lender = *parts.tiers[tier];
    lent_.push_back({lender.lend(answered, run),
                     lender.kind() == "memory" ? From::memory : From::disk,
                     {},
                     {}});
    if (tier < parts.keep.size()) lender.keep(lent_[tier].borrower, parts.keep[tier]);
  }
  parts.keep.clear();
  // What the plan has no room for is found when it is needed.
  if (!parts.lent_to_others) return;
  for (const Held& copy : parts.held)
    if (owns(copy.tier, copy.sample)) others_.insert(copy.sample);
}

void LentTiers::give_back() {
  for (size_t tier = 0; tier < lent_.size(); ++tier)
    parts_.tiers[tier]->give_back(lent_[tier].borrower);
}

CopyKey LentTiers::key_of(uint64_t sample) const {
  return {parts_.index->content(sample), form_id(parts_.form.get())};
}

bool LentTiers::owns(uint32_t tier, uint64_t sample) const {
  const Owner owner = parts_.plan->placement().owner(sample);
  return owner.rank == parts_.policy.rank && owner.tier == tier;
}

bool LentTiers::holds(uint32_t tier, uint64_t sample) const {
  return parts_.tiers[tier]->holds(key_of(sample));
}

From LentTiers::from(uint32_t tier, uint64_t sample) const {
  return ahead_.test(sample, 0) ? From::source : lent_[tier].from;
}

std::optional<uint32_t> LentTiers::put_by_others(uint64_t sample) {
  // Once in a row: what is found and cannot be read is the source's.
  if (!parts_.lent_to_others || others_.erase(sample) > 0) return std::nullopt;
  if (parts_.peers && parts_.plan->placement().owner(sample).rank != parts_.policy.rank)
    return std::nullopt;
  for (uint32_t tier = 0; tier < lent_.size(); ++tier) {
    if (lent_[tier].lost || !holds(tier, sample)) continue;
    others_.insert(sample);
    return tier;
  }
  return std::nullopt;
}

uint64_t LentTiers::begin(uint32_t tier, Job job, uint64_t number) {
  if (is_disk(tier)) {
    ++disk_jobs_;
    placing_ += job == Job::place;
  }
  return id_of(job, number);
}

void LentTiers::end(uint32_t tier, uint64_t id) {
  if (!is_disk(tier)) return;
  --disk_jobs_;
  placing_ -= job_of(id) == Job::place;
}

void LentTiers::ask(uint32_t tier, Job job, uint64_t number, uint64_t sample, KeptBytes into) {
  auto& asked = job == Job::serve ? lent_[tier].serves : lent_[tier].reads;
  asked.push_back({begin(tier, job, number), key_of(sample), into.bytes.size(), 0, into.bytes,
                   std::move(into.keeper)});
}

void LentTiers::flush() {
  for (size_t i = 0; i < lent_.size(); ++i) {
    Lent& tier = lent_[i];
    if (!tier.reads.empty())
      parts_.tiers[i]->submit(tier.borrower, std::span(tier.reads), Traffic::training);
    if (!tier.serves.empty())
      parts_.tiers[i]->submit(tier.borrower, std::span(tier.serves), Traffic::peer);
    tier.reads.clear();
    tier.serves.clear();
  }
}

void LentTiers::cancel_read(uint32_t tier, uint64_t request) {
  parts_.tiers[tier]->cancel(lent_[tier].borrower, id_of(Job::read, request));
}

void LentTiers::place(uint32_t tier, uint64_t sample, std::span<const std::byte> bytes,
                      std::shared_ptr<const void> keeper, Traffic traffic) {
  Put put{begin(tier, Job::place, sample), key_of(sample), bytes, std::nullopt, std::move(keeper)};
  parts_.tiers[tier]->submit(lent_[tier].borrower, std::span(&put, 1), traffic);
}

bool LentTiers::lose(uint32_t tier, const std::string& why) {
  if (std::exchange(lent_[tier].lost, true)) return false;
  counts_.count([&](EngineStats& stats) { stats.lost_tiers.push_back(why); });
  return true;
}

void LentTiers::count_read(uint32_t tier, uint64_t sample) {
  ahead_.reset(sample, 0);
  const bool others = others_.contains(sample);
  // It shall stay when whoever has put it is gone.
  if (others && owns(tier, sample)) parts_.tiers[tier]->want(lent_[tier].borrower, key_of(sample));
  if (!others && !is_disk(tier)) return;
  const uint64_t size = parts_.plan->sizes()[sample];
  counts_.count([&](EngineStats& stats) {
    if (is_disk(tier)) stats.disk_bytes += size;
    if (!others) return;
    ++stats.others_samples;
    stats.others_bytes += size;
  });
}

}  // namespace foreload
