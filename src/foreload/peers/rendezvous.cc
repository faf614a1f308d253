// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/rendezvous.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/hash.h"

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

// What one piece of a long value holds beside its length in digits.
constexpr size_t kPieceBytes = kMostValueBytes - 24;

std::string key_of_piece(const std::string& key, size_t piece) {
  return piece == 0 ? key : fmt::format("{}+{}", key, piece);
}

std::chrono::milliseconds left_until(Clock::time_point deadline) {
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()),
                  std::chrono::milliseconds(0));
}

std::string key_of_rank(const std::string& subject, uint32_t rank) {
  return fmt::format("{}/{}", subject, rank);
}

// All values in one text: each is preceded by its length in digits and a colon.
std::string join_values(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += fmt::format("{}:", value.size()) + value;
  return text;
}

bool split_values(std::string_view text, std::vector<std::string>& values) {
  for (std::string& value : values) {
    size_t bytes = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (error != std::errc() || end == text.data() + text.size() || *end != ':') return false;
    text.remove_prefix(static_cast<size_t>(end - text.data()) + 1);
    if (bytes > text.size()) return false;
    value = text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return text.empty();
}

tl::unexpected<Error> missing_ranks(const std::string& subject, uint32_t rank, uint32_t ranks,
                                    std::chrono::milliseconds timeout, const std::string& who) {
  return fail(
      ErrorKind::cancelled,
      fmt::format("rank {} waited {:.1f} s for all {} ranks to give their {}: {} missing. Check "
                  "that every rank was started, makes this loader and reaches the rendezvous, or "
                  "set a longer join timeout",
                  rank, std::chrono::duration<double>(timeout).count(), ranks, subject, who));
}

// "3 is", "3 and 5 to 7 are".
std::string which_ranks(const std::vector<uint32_t>& ranks) {
  return fmt::format("{} {}", list_ranks(ranks), ranks.size() == 1 ? "is" : "are");
}

// Rank 0's side: the values of all, or an error that names those who are missing.
Result<std::vector<std::string>> gather(Rendezvous& rendezvous, const std::string& subject,
                                        uint32_t ranks, const std::string& own,
                                        std::chrono::milliseconds timeout,
                                        std::vector<uint32_t>& missing) {
  const auto deadline = Clock::now() + timeout;
  std::vector<std::string> values(ranks);
  values[0] = own;
  for (uint32_t r = 1; r < ranks; ++r) {
    auto got = get_in_pieces(rendezvous, key_of_rank(subject, r), left_until(deadline));
    if (got) {
      values[r] = std::move(*got);
    } else if (got.error().kind == ErrorKind::cancelled) {
      missing.push_back(r);
    } else {
      return tl::unexpected(std::move(got).error());
    }
  }
  return values;
}

// Those whose values are not there although rank 0 said nothing: it is one of them, or late.
std::vector<uint32_t> look_who_is_missing(Rendezvous& rendezvous, const std::string& subject,
                                          uint32_t ranks) {
  std::vector<uint32_t> missing;
  for (uint32_t r = 0; r < ranks; ++r) {
    const auto got = rendezvous.get(key_of_rank(subject, r), std::chrono::milliseconds(0));
    if (!got) missing.push_back(r);
  }
  return missing;
}

// A longer answer of rank 0 than this is passed on; everybody gets the checksum from rank 0.
constexpr size_t kShortAnswer = 1024;

std::string checksum_of(const std::string& text) {
  return fmt::format("={:016x}", checksum64(std::as_bytes(std::span(text))));
}

Result<void> put_answer(Rendezvous& rendezvous, const std::string& key, const std::string& answer) {
  if (answer.size() <= kShortAnswer) return put_in_pieces(rendezvous, key, answer);
  FORELOAD_CHECK(put_in_pieces(rendezvous, key + "/long", answer));
  return put_in_pieces(rendezvous, key, checksum_of(answer));
}

// All ranks are there once rank 0 has answered, so the rank above has the answer soon, or it is in
// trouble: rank 0 has it too.
Result<std::string> get_answer(Rendezvous& rendezvous, const std::string& key,
                               std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  FORELOAD_TRY(std::string answer, get_in_pieces(rendezvous, key, timeout));
  if (!answer.starts_with('=')) return answer;
  const std::string expected = std::exchange(answer, "");
  const std::string long_key = key + "/long";
  if (const auto above = rendezvous.above())
    answer = get_in_pieces(*above, long_key, std::min(timeout / 10, left_until(deadline) / 2))
                 .value_or("");
  if (checksum_of(answer) != expected) {
    FORELOAD_TRY(answer, get_in_pieces(rendezvous, long_key, left_until(deadline)));
  }
  if (const auto below = rendezvous.below()) (void)put_in_pieces(*below, long_key, answer);
  return answer;
}

class PartOfRendezvous final : public Rendezvous {
 public:
  PartOfRendezvous(std::shared_ptr<Rendezvous> whole, std::string prefix,
                   std::function<bool()> proceed)
      : whole_(std::move(whole)), prefix_(std::move(prefix)), proceed_(std::move(proceed)) {}

  Result<void> put(const std::string& key, const std::string& value) override {
    return whole_->put(prefix_ + key, value);
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    const auto deadline = Clock::now() + timeout;
    for (;;) {
      if (proceed_ && !proceed_())
        return fail(ErrorKind::cancelled, "waiting for the other ranks was interrupted");
      const auto left = left_until(deadline);
      auto got = whole_->get(prefix_ + key,
                             proceed_ ? std::min(left, std::chrono::milliseconds(250)) : left);
      if (got || got.error().kind != ErrorKind::cancelled || Clock::now() >= deadline) return got;
    }
  }
  std::shared_ptr<Rendezvous> above() override { return part(whole_->above()); }
  std::shared_ptr<Rendezvous> below() override { return part(whole_->below()); }

 private:
  std::shared_ptr<Rendezvous> part(std::shared_ptr<Rendezvous> whole) const {
    return whole ? part_of(std::move(whole), prefix_, proceed_) : nullptr;
  }

  const std::shared_ptr<Rendezvous> whole_;
  const std::string prefix_;
  const std::function<bool()> proceed_;
};

}  // namespace

Result<void> check_sizes(const std::string& key, size_t value_bytes) {
  if (!key.empty() && key.size() <= kMostKeyBytes && value_bytes <= kMostValueBytes) return {};
  return fail(ErrorKind::invalid,
              fmt::format("cannot use a key of {} and a value of {} bytes in a rendezvous: keys "
                          "have 1 to {} bytes, values at most {}",
                          key.size(), value_bytes, kMostKeyBytes, kMostValueBytes));
}

std::unique_ptr<Rendezvous> part_of(std::shared_ptr<Rendezvous> whole, std::string prefix,
                                    std::function<bool()> proceed) {
  return std::make_unique<PartOfRendezvous>(std::move(whole), std::move(prefix),
                                            std::move(proceed));
}

Result<void> put_in_pieces(Rendezvous& rendezvous, const std::string& key,
                           const std::string& value) {
  const size_t pieces = std::max<size_t>(1, (value.size() + kPieceBytes - 1) / kPieceBytes);
  for (size_t piece = pieces - 1; piece > 0; --piece)
    FORELOAD_CHECK(
        rendezvous.put(key_of_piece(key, piece), value.substr(piece * kPieceBytes, kPieceBytes)));
  return rendezvous.put(key, fmt::format("{}:{}", value.size(), value.substr(0, kPieceBytes)));
}

Result<std::string> get_in_pieces(Rendezvous& rendezvous, const std::string& key,
                                  std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  const auto nonsense = [&key] {
    return fail(ErrorKind::corrupt,
                fmt::format("the entry {} of the rendezvous is malformed: give each job a "
                            "rendezvous of its own, and all ranks the same version of foreload",
                            key));
  };
  FORELOAD_TRY(std::string value, rendezvous.get(key, timeout));
  size_t bytes = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
  if (error != std::errc() || end == value.data() + value.size() || *end != ':') return nonsense();
  value.erase(0, static_cast<size_t>(end - value.data()) + 1);
  for (size_t piece = 1; value.size() < bytes; ++piece) {
    if (value.size() != piece * kPieceBytes) return nonsense();
    FORELOAD_TRY(const std::string more,
                 rendezvous.get(key_of_piece(key, piece), left_until(deadline)));
    value += more;
  }
  if (value.size() != bytes) return nonsense();
  return value;
}

Result<std::vector<std::string>> exchange(Rendezvous& rendezvous, const std::string& subject,
                                          uint32_t rank, uint32_t ranks, const std::string& value,
                                          std::chrono::milliseconds timeout) {
  // How much longer the others wait than rank 0, so that its answer reaches them.
  constexpr std::chrono::milliseconds kGrace{2000};
  const std::string all = subject + "/all";
  if (rank == 0) {
    std::vector<uint32_t> missing;
    FORELOAD_CHECK(rendezvous.put(key_of_rank(subject, 0), "0:"));
    FORELOAD_TRY(auto values, gather(rendezvous, subject, ranks, value, timeout, missing));
    const std::string who = missing.empty() ? "" : which_ranks(missing);
    FORELOAD_CHECK(
        put_answer(rendezvous, all, missing.empty() ? "+" + join_values(values) : "-" + who));
    if (!missing.empty()) return missing_ranks(subject, rank, ranks, timeout, who);
    return values;
  }
  FORELOAD_CHECK(put_in_pieces(rendezvous, key_of_rank(subject, rank), value));
  auto got = get_answer(rendezvous, all, timeout + kGrace);
  if (!got) {
    if (got.error().kind != ErrorKind::cancelled) return tl::unexpected(std::move(got).error());
    const auto missing = look_who_is_missing(rendezvous, subject, ranks);
    return missing_ranks(subject, rank, ranks, timeout,
                         missing.empty() ? "the answer of rank 0 is" : which_ranks(missing));
  }
  if (got->starts_with('-')) return missing_ranks(subject, rank, ranks, timeout, got->substr(1));
  std::vector<std::string> values(ranks);
  if (got->empty() || !split_values(std::string_view(*got).substr(1), values))
    return fail(ErrorKind::corrupt,
                fmt::format("the list of {} from rank 0 is malformed: give all ranks the same "
                            "number of ranks and the same version of foreload",
                            subject));
  return values;
}

Result<void> check_in(Rendezvous& rendezvous, const std::string& subject, uint32_t rank,
                      uint32_t ranks, std::chrono::milliseconds timeout) {
  if (rank != 0) return put_in_pieces(rendezvous, key_of_rank(subject, rank), "");
  std::vector<uint32_t> missing;
  FORELOAD_CHECK(gather(rendezvous, subject, ranks, "", timeout, missing));
  if (missing.empty()) return {};
  return missing_ranks(subject, rank, ranks, timeout, which_ranks(missing));
}

}  // namespace foreload
