// SPDX-License-Identifier: Apache-2.0
//
// The tiers as this engine borrows them: what it asks them for, what it gives them, and what others
// who borrow them too have put there.
//
// For the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "foreload/fetch/batch.h"
#include "foreload/fetch/engine_counts.h"
#include "foreload/fetch/engine_parts.h"
#include "foreload/fetch/open_batches.h"
#include "foreload/policy/sample_states.h"
#include "foreload/tiers/tier.h"

namespace foreload {

class LentTiers {
 public:
  // What a tier was asked for. The id that its answer carries says both what it was and the number
  // of the request, the sample, or the serving: nothing needs to be looked up.
  enum class Job : uint8_t { read, place, serve };
  static constexpr Job job_of(uint64_t id) { return static_cast<Job>(id & 3); }
  static constexpr uint64_t number_of(uint64_t id) { return id >> 2; }

  // `parts` are complete, and outlive this.
  LentTiers(EngineParts& parts, EngineCounts& counts);
  // REQUIRES: nobody asks any more.
  void give_back();

  CopyKey key_of(uint64_t sample) const;
  bool is_disk(uint32_t tier) const { return lent_[tier].from == From::disk; }
  bool holds(uint32_t tier, uint64_t sample) const;
  // What a read of the sample counts as.
  From from(uint32_t tier, uint64_t sample) const;
  // The tier where somebody else has put the sample; nothing if the source is to be read.
  std::optional<uint32_t> put_by_others(uint64_t sample);

  // With flush(). `job` is read or serve.
  void ask(uint32_t tier, Job job, uint64_t number, uint64_t sample, KeptBytes into);
  void flush();
  void cancel_read(uint32_t tier, uint64_t request);
  void place(uint32_t tier, uint64_t sample, std::span<const std::byte> bytes,
             std::shared_ptr<const void> keeper, Traffic traffic);
  // The sample was read before anybody needed it: its next read counts as one of the source.
  void mark_ahead(uint64_t sample) { ahead_.set(sample, 0); }
  void evict(uint32_t tier, uint64_t sample) { parts_.tiers[tier]->drop(key_of(sample)); }
  // False if it was lost before.
  bool lose(uint32_t tier, const std::string& why);

  // A job has ended, however.
  void end(uint32_t tier, uint64_t id);
  // A sample has come from a tier.
  void count_read(uint32_t tier, uint64_t sample);
  uint64_t disk_jobs() const { return disk_jobs_; }
  bool are_placing() const { return placing_ > 0; }

 private:
  struct Lent {
    Tier::Borrower borrower;
    From from;               // what statistics call it
    std::vector<Get> reads;  // of this round
    std::vector<Get> serves;
    bool lost = false;
  };
  static constexpr uint64_t id_of(Job job, uint64_t number) {
    return number << 2 | static_cast<uint64_t>(job);
  }
  bool owns(uint32_t tier, uint64_t sample) const;
  uint64_t begin(uint32_t tier, Job job, uint64_t number);

  EngineParts& parts_;
  EngineCounts& counts_;
  std::vector<Lent> lent_;               // by tier
  uint64_t placing_ = 0;                 // samples that disks are given
  uint64_t disk_jobs_ = 0;               // that disks are asked for
  SampleBits ahead_;                     // samples whose next read counts as source
  std::unordered_set<uint64_t> others_;  // samples whose copies others have put
};

}  // namespace foreload
