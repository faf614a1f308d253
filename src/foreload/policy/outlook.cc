// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/outlook.h"

#include <algorithm>

namespace foreload {
namespace {

// With more in flight than there were so far a way may be faster, but nobody knows by how much.
constexpr double kMostHope = 2;

}  // namespace

Outlook::Outlook(const Desk& desk)
    : desk_(desk),
      mean_bytes_(static_cast<double>(std::max<uint64_t>(1, desk.plan->sizes().mean()))),
      ways_(desk.settings.objective == Objective::traffic
                ? 0
                : 2 + desk.tiers() * (desk.with_peers ? 2 : 1)) {
  if (ways_.empty()) return;
  auto tell = [](Way& way, const PathSpeed& speed) {
    if (speed.rate <= 0) return;
    way.told = 1 / speed.rate;
    way.quickest = speed.latency;
  };
  const KnownSpeeds& known = desk.settings.speeds;
  tell(ways_[kSourceWay], known.source);
  for (uint32_t tier = 0; tier < desk.tiers(); ++tier) {
    if (tier < known.tiers.size()) tell(ways_[2 + tier], known.tiers[tier]);
    if (desk.with_peers && tier < known.peers.size())
      tell(ways_[2 + desk.tiers() + tier], known.peers[tier]);
  }
}

uint32_t Outlook::way(Origin from, uint64_t sample) const {
  if (ways_.empty()) return kNoWay;
  switch (from.kind) {
    case Origin::Kind::source:
      return kSourceWay;
    case Origin::Kind::neighbour:
      return 1;
    case Origin::Kind::tier:
      return 2 + from.number;
    default:
      const Owner owner = desk_.owner(sample);
      // Heirs keep what they adopt where they have room, and mostly that is memory.
      return 2 + desk_.tiers() + (owner.rank == from.number ? owner.tier : 0);
  }
}

void Outlook::clear_lines() {
  for (Way& way : ways_) way.waiting = 0;
}

void Outlook::end(uint32_t way, uint64_t bytes, RunTime took) {
  if (way == kNoWay) return;
  Way& of = ways_[way];
  of.flow.end(desk_.now, static_cast<double>(bytes));
  if (bytes == 0) return;
  const double seconds = std::chrono::duration<double>(took).count();
  constexpr double kForget = 1.0 / 64;
  of.quickest = of.quickest == 0
                    ? seconds
                    : std::min(seconds, of.quickest + (seconds - of.quickest) * kForget);
}

bool Outlook::unknown(uint32_t way) const {
  return ways_[way].told == 0 && !ways_[way].flow.known();
}

bool Outlook::is_faster(uint32_t way, uint32_t than) const {
  const double one = seconds_for_byte(way);
  return one > 0 && one < kClearlySooner * seconds_for_byte(than);
}

double Outlook::seconds(uint32_t way, unsigned limit) const {
  const Way& of = ways_[way];
  const double ahead = static_cast<double>(of.waiting + of.flow.under_way());
  double one = of.told;
  if (of.flow.known() || one == 0) {
    const double crowd = std::max(1.0, of.flow.crowd());
    const double hope =
        std::clamp(std::min(ahead + 1, static_cast<double>(limit)) / crowd, 1.0, kMostHope);
    one = of.flow.seconds_for_one(desk_.now) / hope;
  }
  return std::max(of.quickest, (ahead + 1) * mean_bytes_ * one);
}

}  // namespace foreload
