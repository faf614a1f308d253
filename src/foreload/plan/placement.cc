// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/placement.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/text.h"

namespace foreload {
namespace {

// By PlacementKind.
constexpr std::array<std::string_view, 3> kPlacements{"cover", "independent", "computed"};

}  // namespace

void leave_out_slow_tiers(std::vector<PlannedTier>& tiers, double source_rate) {
  for (PlannedTier& tier : tiers)
    if (tier.rate > 0 && tier.rate < source_rate) tier.capacity = 0;
}

Result<Capacities> Capacities::of(uint32_t ranks, std::vector<std::vector<PlannedTier>> tiers) {
  if (tiers.empty()) tiers.emplace_back();
  if (tiers.size() != 1 && tiers.size() != ranks)
    return fail(ErrorKind::invalid,
                fmt::format("tiers are given for {} ranks but the job has {}: give one list per "
                            "rank, or one for all",
                            tiers.size(), ranks));
  Capacities capacities;
  capacities.ranks_ = ranks;
  for (auto& list : tiers) {
    std::stable_sort(list.begin(), list.end(),
                     [](const PlannedTier& a, const PlannedTier& b) { return a.speed > b.speed; });
    if (list.size() >= kNoTier)
      return fail(ErrorKind::invalid,
                  fmt::format("a rank has {} tiers: give at most {}", list.size(), kNoTier - 1));
    for (size_t tier = capacities.names_.size(); tier < list.size(); ++tier)
      capacities.names_.push_back(list[tier].name);
  }
  if (capacities.names_.empty()) capacities.names_.emplace_back("memory");
  capacities.tiers_ = static_cast<uint32_t>(capacities.names_.size());
  capacities.bytes_.resize(static_cast<size_t>(ranks) * capacities.tiers_);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    const auto& list = tiers[tiers.size() == 1 ? 0 : rank];
    for (size_t tier = 0; tier < list.size(); ++tier) {
      capacities.bytes_[rank * capacities.tiers_ + tier] = list[tier].capacity;
      if (__builtin_add_overflow(capacities.total_, list[tier].capacity, &capacities.total_))
        return fail(ErrorKind::invalid,
                    "the tiers of all ranks add up to more than 2^64 - 1 bytes: check their sizes");
    }
  }
  return capacities;
}

uint64_t Capacities::of_rank(uint32_t rank) const {
  const auto first = bytes_.begin() + static_cast<std::ptrdiff_t>(rank) * tiers_;
  return std::accumulate(first, first + tiers_, uint64_t{0});
}

uint64_t Capacities::of_tier(uint32_t tier) const {
  uint64_t sum = 0;
  for (size_t i = tier; i < bytes_.size(); i += tiers_) sum += bytes_[i];
  return sum;
}

Owner Placement::owner(uint64_t sample) const {
  if (!computed_) return {ranks_[sample], tiers_[sample]};
  const uint64_t slot = computed_->permutation(sample);
  if (computed_->ends.empty() || slot >= computed_->ends.back()) return {};
  uint32_t i = computed_->guide[slot / computed_->guide_width];
  while (slot >= computed_->ends[i]) ++i;
  return computed_->tiers[i];
}

void Placement::count_slots(std::span<uint64_t> slots) const {
  uint64_t begin = 0;
  for (size_t i = 0; i < computed_->ends.size(); ++i) {
    slots[computed_->tiers[i].tier] += computed_->ends[i] - begin;
    begin = computed_->ends[i];
  }
}

std::vector<Owned> Placement::owned_by(uint32_t rank, const Sizes& sizes) const {
  std::vector<Owned> result;
  std::vector<uint64_t> used(UINT8_MAX + 1);
  for (uint64_t sample = 0; sample < sizes.samples(); ++sample) {
    const Owner place = owner(sample);
    if (place.rank != rank) continue;
    result.push_back({sample, used[place.tier], place.tier});
    used[place.tier] += sizes[sample];
  }
  return result;
}

Result<PlacementKind> parse_placement_kind(std::string_view name) {
  const auto kind = std::ranges::find(kPlacements, name);
  if (kind != kPlacements.end()) return static_cast<PlacementKind>(kind - kPlacements.begin());
  const std::vector<std::string> kinds(kPlacements.begin(), kPlacements.end());
  return fail(ErrorKind::invalid, fmt::format("unknown placement '{}': use {}{}", name,
                                              alternatives(kinds), did_you_mean(name, kinds)));
}

std::string_view name_of(PlacementKind kind) {
  return kPlacements[static_cast<size_t>(kind)];
}

}  // namespace foreload
