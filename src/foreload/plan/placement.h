// SPDX-License-Identifier: Apache-2.0
//
// Who keeps what. A placement gives samples an owner, a rank and one of its tiers; ranks may keep
// replicas besides. It is computed from the reader table by every rank for itself and comes out the
// same everywhere.
//
//   cover        every sample gets one owner until capacity is used up: the rank that reads it most
//                often and still has room. The most-read samples lie on the owner's fastest tier.
//                Capacity left after everything has an owner goes to second copies: first on the
//                owner's slower tiers, so that the next run finds on disk what this one has in
//                memory, then to replicas on other ranks.
//   independent  the published scheme: each rank keeps what it reads most often, whatever the
//                others keep. Some samples are kept many times, some nowhere.
//   computed     owners follow from a keyed permutation and prefix sums of capacity, without
//                counts: constant time per sample and memory per rank, for billions of samples.
//
// Replicas, and all copies of `independent`, are not lists but a rule. Rank r orders the samples it
// reads by (count descending, keyed hash ascending), quantised into numbered steps; each of its
// tiers keeps the samples whose step lies within its limits. Anybody who knows the counts can tell
// who holds what, and 1,024 ranks need a few kilobytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/plan/feistel.h"
#include "foreload/plan/readers.h"
#include "foreload/plan/sizes.h"

namespace foreload {

enum class PlacementKind : uint8_t { cover, independent, computed };

inline constexpr uint32_t kNoOwner = UINT32_MAX;
inline constexpr uint32_t kNoTier = UINT8_MAX;

// One level of a rank's own storage.
struct PlannedTier {
  std::string name;       // "memory", "disk"
  uint64_t capacity = 0;  // bytes of payload
  double speed = 0;       // bytes per second; only the order matters here
  double rate = 0;        // bytes per second that a rank reads from it; 0: nobody knows
};

// What is slower than the source gives a rank gets no room: fetching a sample back from there would
// take longer than reading it again. REQUIRES: all ranks do so, or tell each other what is left.
void leave_out_slow_tiers(std::vector<PlannedTier>& tiers, double source_rate);

// Tiers of every rank, fastest first, ranks one after the other.
class Capacities {
 public:
  // `tiers` has one entry per rank, or a single one that holds for all; tiers are sorted by speed,
  // ties keep their order, and ranks with fewer tiers get empty ones. Fails with `invalid` for a
  // wrong number of entries or a total beyond 64 bits.
  static Result<Capacities> of(uint32_t ranks, std::vector<std::vector<PlannedTier>> tiers);

  uint32_t ranks() const { return ranks_; }
  uint32_t tiers() const { return tiers_; }
  uint64_t at(uint32_t rank, uint32_t tier) const { return bytes_[rank * tiers_ + tier]; }
  uint64_t of_rank(uint32_t rank) const;
  uint64_t of_tier(uint32_t tier) const;
  uint64_t total() const { return total_; }
  const std::string& name(uint32_t tier) const { return names_[tier]; }
  std::span<const uint64_t> flat() const { return bytes_; }  // [rank][tier]

 private:
  uint32_t ranks_ = 0;
  uint32_t tiers_ = 0;
  uint64_t total_ = 0;
  std::vector<uint64_t> bytes_;
  std::vector<std::string> names_;  // by tier, as the first rank that has it calls it
};

// A copy that exists before the run; its holder stays its owner as long as it has room. It may get
// a second copy on a faster tier.
struct Held {
  uint64_t sample;
  uint32_t rank;
  uint32_t tier;
};

// Which samples a rank keeps because it reads them often (see above).
class HoldingRule {
 public:
  static constexpr uint32_t kStepsPerCount = 256;

  HoldingRule() = default;
  HoldingRule(uint32_t ranks, uint32_t tiers, uint32_t highest_count, uint64_t seed);

  // The step of a sample in a rank's order of preference. REQUIRES: 1 <= count <= highest_count.
  uint32_t step(uint32_t rank, uint64_t sample, uint32_t count) const;
  uint32_t steps() const { return highest_count_ * kStepsPerCount; }
  // Tier t of the rank keeps steps from the limit of tier t - 1 (0 for the first) up to its own.
  void set_limit(uint32_t rank, uint32_t tier, uint32_t limit);
  // The tier that keeps the sample, or tiers() if none does.
  uint32_t tier_of(uint32_t rank, uint64_t sample, uint32_t count) const;
  bool empty() const { return limits_.empty(); }
  uint32_t tiers() const { return tiers_; }
  std::span<const uint32_t> limits() const { return limits_; }

 private:
  uint32_t tiers_ = 0;
  uint32_t highest_count_ = 0;
  uint64_t seed_ = 0;
  std::vector<uint32_t> limits_;  // [rank][tier]
};

struct Owner {
  uint32_t rank = kNoOwner;
  uint32_t tier = 0;
};

// A sample's place in its owner's arena.
struct Owned {
  uint64_t sample;
  uint64_t offset;
  uint32_t tier;
};

class Placement {
 public:
  // Owners of `computed`: the permutation gives a sample a slot, and slots are dealt to tiers in
  // one run each.
  struct Computed {
    FeistelPermutation permutation;
    std::vector<Owner> tiers;     // that have slots
    std::vector<uint64_t> ends;   // first slot after each of them
    std::vector<uint32_t> guide;  // where to start looking in `ends`, by slot / guide_width
    uint64_t guide_width = 1;
  };

  PlacementKind kind() const { return kind_; }
  Owner owner(uint64_t sample) const;
  // The slower tier on which the owner keeps a second copy, or kNoTier.
  uint32_t backing(uint64_t sample) const {
    return backing_.empty() ? kNoTier : uint32_t{backing_[sample]};
  }
  // By sample, kNoOwner where nobody keeps it. Empty for `computed`.
  std::span<const uint32_t> owner_ranks() const { return ranks_; }
  std::span<const uint8_t> owner_tiers() const { return tiers_; }
  std::span<const uint8_t> backing_tiers() const { return backing_; }  // empty if there is none
  // Copies beside the owners'; empty for `computed`.
  const HoldingRule& holdings() const { return holdings_; }
  // For `computed`: adds to slots[t] how many samples are kept on tier t of any rank.
  void count_slots(std::span<uint64_t> slots) const;
  // Samples owned by a rank in ascending order, each tier packed from offset 0. Looks at every
  // sample.
  std::vector<Owned> owned_by(uint32_t rank, const Sizes& sizes) const;

 private:
  friend struct PlacementBuilder;

  PlacementKind kind_ = PlacementKind::cover;
  std::vector<uint32_t> ranks_;
  std::vector<uint8_t> tiers_;
  std::vector<uint8_t> backing_;
  HoldingRule holdings_;
  std::shared_ptr<const Computed> computed_;
};

struct PlacementOptions {
  uint64_t seed = 0;
  unsigned threads = 1;
  std::span<const Held> held;
  Progress progress;
};

// REQUIRES for all: sizes.samples() == table.samples(), capacities.ranks() == table.ranks().
Result<Placement> place_cover(const ReaderTable& table, const Sizes& sizes,
                              const Capacities& capacities, const PlacementOptions& options = {});
Result<Placement> place_independent(const ReaderTable& table, const Sizes& sizes,
                                    const Capacities& capacities,
                                    const PlacementOptions& options = {});
// Sizes are taken as equal to the mean, so a tier may overflow or stay short by a little where they
// differ. Where there is more capacity than data, every tier gets its share.
Placement place_computed(const Sizes& sizes, const Capacities& capacities, uint64_t seed);

Result<PlacementKind> parse_placement_kind(std::string_view name);
std::string_view name_of(PlacementKind kind);

}  // namespace foreload
