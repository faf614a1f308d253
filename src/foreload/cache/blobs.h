// SPDX-License-Identifier: Apache-2.0
//
// Blobs of one tier: bytes under a name. A blob is a copy whose content is the hash of its name, in
// a form that no sample has. Those that the tier found are there again.
//
// Any thread may call anything; calls wait for the tier.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "foreload/tiers/tier.h"

namespace foreload {

class Blobs {
 public:
  explicit Blobs(std::shared_ptr<Tier> tier);
  // Whether an earlier run has left some.
  static bool any_on(const Tier& tier);
  ~Blobs();
  Blobs(const Blobs&) = delete;
  Blobs& operator=(const Blobs&) = delete;

  // Replaces a blob of this name. False if the tier does not take it; then there is none.
  bool put(std::string_view name, std::span<const std::byte> bytes);
  std::optional<std::vector<std::byte>> get(std::string_view name);
  void drop(std::string_view name);
  uint64_t bytes() const;                          // of all of them
  uint64_t bytes_of(std::string_view name) const;  // 0 if there is none

 private:
  // Waits for the answer.
  template <class Request>
  TierEnd ask(Request request);

  const std::shared_ptr<Tier> tier_;
  Tier::Borrower borrower_;
  mutable std::mutex mutex_;  // guards the rest
  std::unordered_map<CopyKey, uint64_t, CopyKeyHash> sizes_;
  uint64_t bytes_ = 0;
  uint64_t next_ = 1;
  std::map<uint64_t, TierEnd> answers_;  // by id, until who asked has seen them
  std::condition_variable answered_;
};

}  // namespace foreload
