// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "foreload/base/bytes.h"
#include "foreload/verdict/verdict.h"

namespace foreload {
namespace {

constexpr size_t kNamesShown = 3;

std::string counted(uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", format_count(count), count == 1 ? one : many);
}

std::string skipped_line(const EpochFigures& figures) {
  std::string line = counted(figures.skipped, "sample skipped", "samples skipped");
  const size_t shown = std::min(figures.skipped_names.size(), kNamesShown);
  if (shown == 0) return line;
  line += " (";
  for (size_t i = 0; i < shown; ++i) line += (i > 0 ? ", " : "") + figures.skipped_names[i];
  return line + (figures.skipped > shown ? ", ...)" : ")");
}

}  // namespace

std::vector<std::string> losses_of(const EpochFigures& figures) {
  std::vector<std::string> losses;
  if (figures.skipped > 0) losses.push_back(skipped_line(figures));
  for (const std::string& why : figures.lost_tiers) losses.push_back(why);
  if (!figures.dead_peers.empty())
    losses.push_back(fmt::format("{} {} lost", figures.dead_peers.size() == 1 ? "rank" : "ranks",
                                 fmt::join(figures.dead_peers, ", ")));
  if (figures.retries > 0) losses.push_back(counted(figures.retries, "read", "reads") + " retried");
  if (figures.corrupt_copies > 0)
    losses.push_back(counted(figures.corrupt_copies, "bad copy", "bad copies") +
                     " in caches read again");
  return losses;
}

}  // namespace foreload
