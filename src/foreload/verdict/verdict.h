// SPDX-License-Identifier: Apache-2.0
//
// What limited an epoch, how long the loop waited, what was lost, and what would help: judged once,
// from counters, and shown alike by the program, the progress bar, the statistics and the report.
//
// The model is that of the simulator in closed form. Stages work beside each other, so an epoch
// takes as long as its slowest one; a stage takes its work over the rate at which it did that work
// while it was busy. What would help is the same sum with one thing changed: the bytes that more
// memory would take off the source, twice the CPUs, a transform without Python. A stage that had
// little to do may be able to do more than it showed, so predictions are rather too careful.
//
// Plain values; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

// Stages that can be what an epoch waits for, as the JSON names them.
enum class Limit : uint8_t {
  loop,       // the loop itself: input was there when it asked
  source,     // reading from where the data set lies
  network,    // samples of other ranks
  disk,       // samples of this node's disk caches
  decode,     // threads that decode and transform in C++
  transform,  // a Python function, whoever runs it
};
inline constexpr size_t kLimits = 6;
std::string_view name_of(Limit limit);  // "loop", "source", ...

// One stage in one epoch.
struct StageFigures {
  double busy_seconds = 0;  // something was in flight; of worker stages: their seconds over workers
  uint64_t bytes = 0;       // that passed it; 0 for stages that do not count bytes
};

// The counters of one epoch, finished or under way, or of a whole run.
struct EpochFigures {
  uint64_t epoch = 0;
  double seconds = 0;      // since the epoch's first batch was asked for
  double waited = 0;       // of these, the loop's thread spent waiting, whoever makes the batches
  double first_wait = 0;   // of these, until the first batch of the run was there
  double own_seconds = 0;  // of `waited`, the loop's own thread spent in Python functions (collate)
  uint64_t samples = 0;
  uint64_t bytes = 0;          // delivered, in the form in which samples are kept
  uint64_t epoch_samples = 0;  // that a whole epoch of this rank has; 0: as many as `samples`
  std::array<StageFigures, kLimits> stages{};  // by Limit; that of the loop is not used
  unsigned cpus = 0;                           // that this process may use; 0: not known
  unsigned decode_threads = 0;                 // 0: threads copy, but nothing is decoded in C++
  unsigned transform_workers = 0;              // 0: there is no Python transform
  double transform_cpu_seconds = 0;            // CPU time of all of them together
  bool transform_in_threads = false;  // of this process, so that they share one interpreter
  uint64_t data_bytes = 0;            // of the whole data set; 0: it is not read from a source
  uint64_t made_from_bytes = 0;       // that the source has of it; 0: the same
  bool kept_decoded = false;          // so that only what the source gives is decoded
  uint64_t kept_bytes = 0;            // that all caches that count for this rank may hold together
  uint64_t disk_bytes = 0;            // of these, on disks
  double disk_rate = 0;               // bytes per second that these give; 0: not known
  uint32_t nodes = 1;                 // machines that keep the data set together
  uint64_t memory_bytes = 0;          // budget of this machine, as `memory` says
  uint64_t memory_left = 0;           // bytes that this machine could give beside it
  // What was lost: samples, retries and copies in this time; tiers and peers since the run began,
  // because it goes on without them.
  uint64_t skipped = 0;
  std::vector<std::string> skipped_names;  // some of them
  std::vector<std::string> lost_tiers;     // and why
  std::vector<uint32_t> dead_peers;
  uint64_t retries = 0;
  uint64_t corrupt_copies = 0;
};

// One change and what it would do to an epoch like this one.
struct Help {
  std::string what;    // "memory=\"12GiB\" (3.1 GiB more)"
  double seconds = 0;  // a whole epoch then
  double times = 1;    // as fast as this one
};

struct Verdict {
  Limit limit = Limit::loop;
  double waited = 0;                // share of the time, 0 to 1
  double seconds = 0;               // that was judged
  std::vector<Help> helps;          // the most useful first; empty: nothing would gain enough
  std::vector<std::string> losses;  // one line each; empty: nothing was lost
  // "waited 62 % for the source (61 MB/s); memory="1GiB" would make later epochs 2.4 times as
  // fast", "did not wait: the loop itself is the limit". Without losses.
  std::string text;
};

// Waiting less than this share of the time is not worth a change, nor is a gain below that.
inline constexpr double kLeastWaiting = 0.03;
inline constexpr double kLeastGain = 0.05;
// Fewer seconds than this are too few to judge: the verdict's text says so and `helps` is empty.
inline constexpr double kLeastSeconds = 0.5;

Verdict judge(const EpochFigures& figures);

// What was lost, one line for each kind, with its count; the verdict has the same lines.
std::vector<std::string> losses_of(const EpochFigures& figures);

// {"limit": "source", "waited": 0.62, "seconds": 21.7, "text": "...",
//  "helps": [{"what": "...", "seconds": 9.1, "times": 2.4}], "losses": ["..."]}
std::string to_json(const Verdict& verdict);

// Figures as JSON, for callers that count in another language; keys are the members' names, stages
// an object by name. Fails with `invalid`, naming the key.
Result<EpochFigures> figures_from_json(std::string_view json);
std::string to_json(const EpochFigures& figures);

}  // namespace foreload
