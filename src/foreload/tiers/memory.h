// SPDX-License-Identifier: Apache-2.0
//
// The memory tier: copies in this host's memory (memory_copies.h), behind what all tiers promise.
// It has no threads: what a borrower asks waits in a queue of its own by traffic class, and whoever
// gives threads is told once per job that there is one to do. A job is several copies, so that
// passing it on costs little.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/tiers/memory_copies.h"
#include "foreload/tiers/tier.h"

namespace foreload {

struct MemorySettings {
  MemoryCopies::Settings copies;
  // For borrowers that bring no threads; null: whoever asks does it.
  Tier::Run run;
};

class MemoryTier final : public Tier {
 public:
  MemoryTier(std::shared_ptr<MemoryCopies> copies, MemorySettings settings);
  ~MemoryTier() override;

  std::string_view kind() const override { return "memory"; }
  uint64_t capacity(uint64_t mean_size) const override { return copies_->capacity(mean_size); }
  Borrower lend(Answered answered, Run run) override;
  void give_back(Borrower borrower) override;
  std::vector<FoundCopy> found() const override { return copies_->found(); }
  void keep(Borrower borrower, const Wanted& wanted) override;
  void want(Borrower borrower, const CopyKey& key) override;
  void submit(Borrower borrower, std::span<Get> gets, Traffic traffic) override;
  void submit(Borrower borrower, std::span<Put> puts, Traffic traffic) override;
  void cancel(Borrower borrower, uint64_t id) override;
  void drop(const CopyKey& key) override;
  std::shared_ptr<const void> pin(const CopyKey& key) override { return copies_->pin(key); }
  bool holds(const CopyKey& key) const override { return copies_->holds(key); }
  uint64_t payload() const override { return copies_->payload(); }
  void visit(const VisitCounter& visit) const override;
  std::optional<std::string> dead() const override { return std::nullopt; }

  MemoryCopies& copies() { return *copies_; }

 private:
  class Work;
  template <class Request>
  void submit_in_jobs(Borrower borrower, std::span<Request> requests, Traffic traffic);

  const std::shared_ptr<MemoryCopies> copies_;
  const MemorySettings settings_;
  const std::shared_ptr<Work> work_;  // outlives the tier where a job still refers to it
};

// Fails as MemoryCopies::create() does.
Result<std::shared_ptr<MemoryTier>> open_memory(MemorySettings settings);

}  // namespace foreload
