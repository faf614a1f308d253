// SPDX-License-Identifier: Apache-2.0
//
// What a policy is told about its rank, and what it tells about itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "foreload/plan/sizes.h"
#include "foreload/policy/limiter.h"

namespace foreload {

// What reading is to save. `time`: a sample is taken from where it will be here first, and the
// source is read although there is a copy where the loop would wait otherwise. `traffic`: never
// that.
enum class Objective : uint8_t { time, traffic };
constexpr std::string_view name_of(Objective objective) {
  return objective == Objective::time ? "time" : "traffic";
}
constexpr std::optional<Objective> parse_objective(std::string_view name) {
  if (name == name_of(Objective::time)) return Objective::time;
  if (name == name_of(Objective::traffic)) return Objective::traffic;
  return std::nullopt;
}

// What a path gives this rank while all that share it use it; 0: nobody knows.
struct PathSpeed {
  double rate = 0;     // bytes per second
  double latency = 0;  // seconds
};

// As far as a profile says.
struct KnownSpeeds {
  PathSpeed source;
  std::vector<PathSpeed> tiers;  // of this rank
  std::vector<PathSpeed> peers;  // by the tier on which they keep a sample
};

struct PolicySettings {
  uint32_t rank = 0;
  Objective objective = Objective::traffic;
  KnownSpeeds speeds;
  uint64_t window_bytes = uint64_t{256} << 20;  // of open batches and of samples on their way
                                                // to a disk; one batch is open whatever its size
  uint64_t window_samples = 65'536;  // of open batches: where samples are tiny, their number costs
  uint64_t ahead_bytes = uint64_t{32} << 20;  // in flight beyond the window, on their way to a tier
  // Two batches may take what reads ahead do not.
  uint64_t most_of_two_batches() const { return window_bytes + ahead_bytes; }
  bool skip_bad_samples = false;
  // Sizes at the source, where what is read there is made into the form in which samples are kept,
  // whose sizes the plan has, before anybody else has it; null: it is kept as it is read.
  std::shared_ptr<const Sizes> made_from;
  // Samples are decoded in their places before they are delivered, each into so many bytes.
  bool decode = false;
  uint64_t decoded_bytes = 0;
  // A read from the source is tried this often. One that ran into its deadline counts as all tries
  // but one, so that a source that hangs is given up after two deadlines.
  unsigned tries = 3;
  RunTime read_deadline = std::chrono::seconds(30);
  RunTime first_back_off = std::chrono::milliseconds(100);  // doubles with every try
  // A copy in a tier that is not there after so long is a miss; a tier of which so many reads in a
  // row were not is given up.
  RunTime tier_deadline = std::chrono::seconds(10);
  unsigned tier_patience = 8;
  // A read is hedged when it takes this many times what reads on its path usually take, and at
  // least so long, as far as hedged bytes stay below a share of all that were read.
  double hedge_factor = 6;
  RunTime hedge_after = std::chrono::milliseconds(50);
  double hedge_share = 0.005;
  Limiter::Settings source_limiter;
  std::vector<Limiter::Settings> tier_limiters;  // by tier; defaults where missing
  bool endless = false;                          // go on after the plan's epochs
  // Ranks talk to each other; otherwise every one is alone with the source.
  bool peers = false;
  // Who is silent for so long while something is owed is dead. A sign of life is asked for before.
  RunTime peer_timeout = std::chrono::seconds(10);
  // An owner lets peers wait at most so long for a sample that its first reader should push.
  RunTime push_patience = std::chrono::seconds(30);
  // The window bounds what is asked for, and the peer what it sends: to begin with less only leaves
  // links idle.
  Limiter::Settings peer_limiter{1, 64, 64};
  uint64_t push_bytes = uint64_t{16} << 20;   // on their way to all peers together, about
  uint64_t serve_bytes = uint64_t{32} << 20;  // being sent to peers that asked, about
  // Ranks on this host whose memory can be read in place.
  std::vector<uint32_t> neighbours;
  // Which replicas give way to what the dead held, by name (eviction.h).
  std::string_view eviction = "in turn";
};

// What the policy knows about itself, for statistics.
struct PolicyTotals {
  uint64_t retries = 0;
  uint64_t skipped = 0;
  uint64_t merged = 0;            // reads saved because the sample was on its way already
  uint64_t read_along_bytes = 0;  // that one read of the source gave to further batches, too
  uint64_t hedged = 0;            // samples read a second time because the first took too long
  uint64_t hedged_bytes = 0;
  uint64_t off_priority = 0;        // samples read from the source although a copy was there,
  uint64_t off_priority_bytes = 0;  // which would have come later than they were needed
  // By how much the loop would have waited longer for those copies, as reckoned when the source was
  // chosen; added up, although several of them may have come at the same time.
  uint64_t off_priority_microseconds = 0;
  uint64_t left_out = 0;  // samples not kept, or not pushed, because the loop would have waited
  uint64_t late_tier_reads = 0;     // given up
  uint64_t read_ahead = 0;          // samples read into a tier before their batch was open
  uint64_t window_bytes = 0;        // now
  uint64_t waiting_for_source = 0;  // places, now
  uint64_t decoding = 0;            // places, now
  uint64_t served = 0;              // samples sent to peers that asked
  uint64_t refused = 0;             // that were not here
  uint64_t pushed = 0;              // samples given to their owners
  uint64_t push_failed = 0;         // refused, or the owner died
  uint64_t adopted = 0;             // samples of dead ranks kept here
  uint64_t replicas = 0;            // second copies that were kept
  uint64_t gave_way = 0;            // of those, to adopted samples
  uint64_t dead_peers = 0;
};

}  // namespace foreload
