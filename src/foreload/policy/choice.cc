// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/choice.h"

#include <algorithm>
#include <utility>

namespace foreload {
namespace {

// Reads that begin later share the path, and make those before them later than was reckoned: a copy
// that would be here in this part of the time that is left comes in time.
constexpr double kSurelyInTime = 0.4;

}  // namespace

void Choice::line_up(Origin from, BatchPlace place) {
  if (!saves_time_) return paths_.line_up(from, place);
  BatchWindow::Entry& entry = window_.at(place);
  entry.way = static_cast<uint8_t>(paths_.outlook().way(from, entry.sample));
  paths_.outlook().line_up(entry.way);
  paths_.line_up(from, place);
}

void Choice::go_first(BatchPlace place) {
  if (!saves_time_) return paths_.go_first(place);
  BatchWindow::Entry& entry = window_.at(place);
  entry.way = static_cast<uint8_t>(paths_.outlook().way(kSource, entry.sample));
  paths_.outlook().line_up(entry.way);
  paths_.go_first(place);
}

BatchPlace Choice::take(Origin from) {
  const BatchPlace place = paths_.take(from);
  leave_line(place);
  return place;
}

void Choice::leave_line(BatchPlace place) {
  if (!saves_time_) return;
  uint8_t& way = window_.at(place).way;
  paths_.outlook().leave_line(std::exchange(way, Outlook::kNoWay));
}

bool Choice::is_too_late(Origin copy, BatchPlace place) {
  if (copy == tier_origin(0)) return false;  // memory is faster than any source
  BatchWindow::Entry& entry = window_.at(place);
  if (entry.detour == BatchWindow::Detour::never) return false;
  const Outlook& outlook = paths_.outlook();
  const double there =
      outlook.seconds(outlook.way(copy, entry.sample), paths_.limiter(copy).limit());
  const double needed = demand_.seconds(place);
  if (there <= kSurelyInTime * needed) return false;
  entry.won = 0;
  // Both at once would be faster than a copy that is as fast as the source, but nobody gains by it.
  if (!demand_.computes() &&
      !outlook.is_faster(Outlook::kSourceWay, outlook.way(copy, entry.sample)))
    return false;
  // Whoever does not know the source tries it with one read.
  if (outlook.unknown(Outlook::kSourceWay)) return outlook.idle(Outlook::kSourceWay);
  const double source = outlook.seconds(Outlook::kSourceWay, paths_.limiter(kSource).limit());
  entry.won = static_cast<float>(std::max(0.0, there - std::max(source, needed)));
  return source < Outlook::kClearlySooner * there;
}

void Choice::line_up_for(Origin copy, BatchPlace place) {
  if (!saves_time_) return paths_.line_up(copy, place);
  using Detour = BatchWindow::Detour;
  Detour& detour = window_.at(place).detour;
  const bool late = is_too_late(copy, place);
  if (detour != Detour::never)
    detour = !late                             ? Detour::no
             : copy.kind == Origin::Kind::tier ? Detour::own_copy
                                               : Detour::other_copy;
  line_up(late ? kSource : copy, place);
}

}  // namespace foreload
