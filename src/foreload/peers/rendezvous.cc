// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/rendezvous.h"

#include <algorithm>

#include <fmt/format.h>

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

// "3, 5 to 7 and 12"; a long list is cut.
std::string list_ranks(const std::vector<uint32_t>& ranks) {
  constexpr size_t kMostRuns = 8;
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    runs.push_back(last == i ? fmt::format("{}", ranks[i])
                             : fmt::format("{} to {}", ranks[i], ranks[last]));
    i = last + 1;
  }
  const bool cut = runs.size() > kMostRuns;
  if (cut) runs.resize(kMostRuns);
  std::string text;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) text += !cut && i + 1 == runs.size() ? " and " : ", ";
    text += runs[i];
  }
  return cut ? text + " and others" : text;
}

}  // namespace

Result<std::vector<std::string>> exchange(Rendezvous& rendezvous, const std::string& subject,
                                          uint32_t rank, uint32_t ranks, const std::string& value,
                                          std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const auto key = [&](uint32_t r) { return fmt::format("{}/{}", subject, r); };
  FORELOAD_CHECK(rendezvous.put(key(rank), value));
  std::vector<std::string> values(ranks);
  std::vector<uint32_t> missing;
  for (uint32_t i = 0; i < ranks; ++i) {
    // Everybody starts elsewhere, so that rank 0's value is not asked for by all at once.
    const uint32_t r = (rank + i) % ranks;
    if (r == rank) {
      values[r] = value;
      continue;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    auto got = rendezvous.get(key(r), std::max(left, std::chrono::milliseconds(0)));
    if (got) {
      values[r] = std::move(*got);
    } else if (got.error().kind == ErrorKind::cancelled) {
      missing.push_back(r);
    } else {
      return tl::unexpected(std::move(got).error());
    }
  }
  if (missing.empty()) return values;
  std::sort(missing.begin(), missing.end());
  return fail(
      ErrorKind::cancelled,
      fmt::format("rank {} waited {:.1f} s for all {} ranks to give their {}: {} {} missing. "
                  "Check that they were started and reach the rendezvous, or set a longer "
                  "join timeout",
                  rank, std::chrono::duration<double>(timeout).count(), ranks, subject,
                  list_ranks(missing), missing.size() == 1 ? "is" : "are"));
}

}  // namespace foreload
