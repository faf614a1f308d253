// SPDX-License-Identifier: Apache-2.0
//
// Cover first: every sample gets exactly one owner until capacity is used up.
//
// Samples are served in the order of how often their best remaining rank reads them, so that a
// rank's room goes to the samples it reads most and its fastest tier fills with the most-read of
// those. A sample whose favourite is full falls back to the next best rank with room, at that
// rank's (lower) count; at count 0 any rank with room will do. There is no sorting: samples are
// visited level by level, and levels are few.
//
// Where the first epoch does not read everything (it was resumed in the middle), the samples that
// it does read come first: they can be in the caches when the second epoch begins, the others
// cannot.
#include <algorithm>
#include <atomic>
#include <vector>

#include "foreload/base/random.h"
#include "foreload/plan/holdings.h"
#include "foreload/plan/placement.h"
#include "foreload/plan/placement_builder.h"
#include "foreload/plan/room.h"

namespace foreload {
namespace {

// Where a sample would best go at the moment.
struct Favourite {
  uint32_t rank = 0;
  uint32_t count = 0;
};

constexpr uint32_t kPlaced = UINT32_MAX;      // as a level: has an owner, or never will
constexpr uint32_t kUnread = UINT32_MAX - 1;  // as a level: nobody reads it

class Cover {
 public:
  Cover(const ReaderTable& table, const Sizes& sizes, const Capacities& capacities,
        const PlacementOptions& options)
      : table_(table),
        sizes_(sizes),
        options_(options),
        room_(capacities),
        builder_(PlacementKind::cover, table.samples()),
        favourites_(table.samples()),
        tally_(table) {}

  Result<Placement> run() {
    keep_held();
    FORELOAD_CHECK(find_favourites());
    place_all(/*in_first_epoch=*/true);
    if (!all_in_first_epoch_) place_all(/*in_first_epoch=*/false);
    if (!options_.held.empty()) promote();
    if (has_room_left()) back_up();
    if (has_room_left() && highest_ > 0) {
      FORELOAD_TRY(HoldingRule replicas, fill_by_count(table_, sizes_, room_.flat(), highest_,
                                                       builder_.placement.owner_ranks(), options_));
      builder_.set_holdings(std::move(replicas));
    }
    return builder_.finish();
  }

 private:
  bool has_room_left() const { return room_.largest() >= std::max<uint64_t>(1, sizes_.mean()); }

  // Held samples lie where an earlier run left them. The most-read of a rank get a copy on a faster
  // tier if there is room; the one that is there remains.
  void promote() {
    if (!has_room_left()) return;
    std::vector<uint32_t> own(table_.samples());
    for (uint64_t sample = 0; sample < table_.samples(); ++sample) {
      const Owner owner = builder_.placement.owner(sample);
      if (owner.rank == kNoOwner || owner.tier == 0) continue;
      for (const auto& [rank, count] : tally_.of(sample))
        own[sample] += rank == owner.rank ? count : 0;
    }
    for (uint32_t level = highest_; level > 0; --level) {
      for (uint64_t sample = 0; sample < table_.samples(); ++sample) {
        if (own[sample] != level) continue;
        const Owner owner = builder_.placement.owner(sample);
        const uint32_t tier = room_.fastest_with(owner.rank, sizes_[sample]);
        if (tier >= owner.tier) continue;
        take(sample, {owner.rank, tier});
        builder_.set_backing(sample, owner.tier);
      }
    }
  }

  // A second copy on a slower tier of the owner, which may outlive the run.
  void back_up() {
    for (uint64_t sample = 0; sample < table_.samples(); ++sample) {
      const Owner owner = builder_.placement.owner(sample);
      if (owner.rank == kNoOwner || builder_.placement.backing(sample) != kNoTier) continue;
      for (uint32_t tier = owner.tier + 1; tier < room_.tiers(); ++tier) {
        if (!room_.fits(owner.rank, tier, sizes_[sample])) continue;
        room_.take({owner.rank, tier}, sizes_[sample]);
        builder_.set_backing(sample, tier);
        break;
      }
    }
  }

  // A copy that exists stays where it is; of several the first one named becomes the owner's.
  void keep_held() {
    for (const Held& held : options_.held) {
      if (builder_.has_owner(held.sample) || !room_.fits(held.rank, held.tier, sizes_[held.sample]))
        continue;
      take(held.sample, {held.rank, held.tier});
    }
  }

  Result<void> find_favourites() {
    std::vector<ReaderTable::Tally> tallies(options_.threads, ReaderTable::Tally(table_));
    std::vector<uint32_t> highest(options_.threads, 0);
    std::atomic<bool> all_in_first_epoch = true;
    auto visit = [&](uint64_t first, uint64_t last, unsigned worker) {
      for (uint64_t sample = first; sample < last; ++sample) {
        const auto counts = tallies[worker].of(sample);
        for (const RankCount& entry : counts)
          highest[worker] = std::max(highest[worker], entry.count);
        if (tallies[worker].first_epoch() != 0) all_in_first_epoch = false;
        if (favourites_[sample].count == kPlaced) continue;
        favourites_[sample] = counts.empty() ? Favourite{0, kUnread} : best(sample, counts);
      }
    };
    FORELOAD_CHECK(for_sample_ranges(table_.samples(), options_.threads, visit, options_.progress));
    all_in_first_epoch_ = all_in_first_epoch;
    highest_ = *std::max_element(highest.begin(), highest.end());
    waiting_.assign(highest_ + 1, 0);
    for (const Favourite& favourite : favourites_) {
      if (favourite.count <= highest_) ++waiting_[favourite.count];
    }
    return {};
  }

  // The rank with room that reads the sample most often, ties broken by a keyed hash so that no
  // rank is preferred; count 0 if none has room.
  Favourite best(uint64_t sample, std::span<const RankCount> counts) const {
    Favourite result;
    uint64_t result_hash = 0;
    for (const auto& [rank, count] : counts) {
      if (count < result.count || !room_.fits(rank, sizes_[sample])) continue;
      const uint64_t hash = mix64(mix64(options_.seed ^ sample) + rank);
      if (count > result.count || hash < result_hash) {
        result = {rank, count};
        result_hash = hash;
      }
    }
    return result;
  }

  void place_all(bool in_first_epoch) {
    for (uint32_t level = highest_; level > 0; --level) {
      if (waiting_[level] == 0) continue;
      visit_level(level, in_first_epoch, [this](uint64_t s) { place_with_reader(s); });
    }
    visit_level(0, in_first_epoch, [this](uint64_t s) { place_anywhere(s); });
    visit_level(kUnread, in_first_epoch, [this](uint64_t s) { place_anywhere(s); });
  }

  template <class Place>
  void visit_level(uint32_t level, bool in_first_epoch, Place place) {
    for (uint64_t sample = 0; sample < table_.samples(); ++sample) {
      if (favourites_[sample].count != level) continue;
      if (all_in_first_epoch_ || is_in_first_epoch(sample) == in_first_epoch) place(sample);
    }
  }

  bool is_in_first_epoch(uint64_t sample) const {
    return table_.reader(0, sample) < table_.ranks();
  }

  void place_with_reader(uint64_t sample) {
    Favourite& favourite = favourites_[sample];
    const uint64_t size = sizes_[sample];
    if (room_.largest() < size) {  // and room never grows
      favourite.count = kPlaced;
      return;
    }
    if (!room_.fits(favourite.rank, size)) {
      const uint32_t level = favourite.count;
      favourite = best(sample, tally_.of(sample));
      if (favourite.count < level) {
        ++waiting_[favourite.count];
        return;
      }
    }
    take(sample, {favourite.rank, room_.fastest_with(favourite.rank, size)});
  }

  void place_anywhere(uint64_t sample) {
    favourites_[sample].count = kPlaced;
    if (const auto place = room_.roomiest(sizes_[sample])) take(sample, *place);
  }

  void take(uint64_t sample, Owner owner) {
    room_.take(owner, sizes_[sample]);
    builder_.set_owner(sample, owner);
    favourites_[sample].count = kPlaced;
  }

  const ReaderTable& table_;
  const Sizes& sizes_;
  const PlacementOptions& options_;
  Room room_;
  PlacementBuilder builder_;
  // By sample. `count` is the level at which the sample waits; it only falls.
  std::vector<Favourite> favourites_;
  std::vector<uint64_t> waiting_;  // by level: samples that have waited there
  uint32_t highest_ = 0;           // count of any rank and sample
  bool all_in_first_epoch_ = true;
  ReaderTable::Tally tally_;
};

}  // namespace

Result<Placement> place_cover(const ReaderTable& table, const Sizes& sizes,
                              const Capacities& capacities, const PlacementOptions& options) {
  return Cover(table, sizes, capacities, options).run();
}

}  // namespace foreload
