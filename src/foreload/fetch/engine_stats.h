// SPDX-License-Identifier: Apache-2.0
//
// What an engine says about itself: counted since it began, or as it is now. Plain values.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "foreload/metrics/stage.h"
#include "foreload/policy/policy.h"
#include "foreload/staging/staging.h"

namespace foreload {

// One stage of a sample's way, by name: "source", "memory", "disk", "hands".
struct StageStats {
  std::string name;
  unsigned limit = 0;  // of what may be in flight, now; 0: none
  double rate = 0;     // bytes per second, measured last; 0: unknown
  StageTotals totals;
};

// What passed between this rank and another one.
struct PeerStats {
  bool same_host = false;  // its memory can be read in place
  bool lost = false;       // dead, or it has left
  uint64_t same_host_samples = 0;
  uint64_t same_host_bytes = 0;
  uint64_t samples = 0;  // asked for and got
  uint64_t bytes = 0;
  uint64_t served_samples = 0;  // it asked for and was sent
  uint64_t served_bytes = 0;
  double wait_seconds = 0;  // of all requests to it, from question to answer
  double longest_wait = 0;  // seconds
  uint64_t missing = 0;     // it did not have what it was asked for
  uint64_t corrupt = 0;     // copies that were not what they should be
  uint64_t given_up = 0;    // requests that were answered too late or never

  // Something to tell.
  bool any() const {
    return lost || same_host_samples + samples + served_samples + missing + corrupt + given_up > 0;
  }
};

// Decoding of samples whose files have a size in [2^(class - 1), 2^class) bytes.
struct DecodedSizes {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  double seconds = 0;  // of all threads together
};
inline constexpr size_t kSizeClasses = 40;  // larger ones count as the last

struct EngineStats {
  PolicyTotals policy;
  StagingTotals staging;
  std::vector<StageStats> stages;
  StageTotals disks;           // all together; reads, writes and what peers asked for
  StageTotals peer_requests;   // to all ranks together
  uint64_t ready_batches = 0;  // waiting for the loop, now
  uint64_t abandoned_reads = 0;
  uint64_t source_bytes = 0;  // all that was read, also what nobody took in the end
  uint64_t source_samples = 0;
  uint64_t disk_bytes = 0;      // read from disk caches for batches
  uint64_t corrupt_copies = 0;  // in tiers; each became a miss
  uint64_t source_errors = 0;
  uint64_t decoded_samples = 0;
  double decode_seconds = 0;  // of all threads together
  std::array<DecodedSizes, kSizeClasses> decoded_sizes{};
  std::vector<uint64_t> kept_bytes;  // of samples, by tier, now
  uint64_t tier_overhead = 0;        // bytes of memory that finding them costs
  uint64_t fetched_samples = 0;      // by fetch(), delivered
  uint64_t fetched_bytes = 0;
  uint64_t others_samples = 0;  // read from copies that other loaders of the cache have put
  uint64_t others_bytes = 0;
  uint64_t skipped_samples = 0;         // of batches that next() gave
  std::vector<std::string> skipped;     // names of the first hundred
  std::vector<std::string> lost_tiers;  // and why
  std::vector<uint32_t> dead_peers;     // those that have left included
  std::vector<uint32_t> left_peers;     // in good order, when their loop was done
  std::vector<PeerStats> peers;         // by rank; empty without peers
};

}  // namespace foreload
