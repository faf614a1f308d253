// SPDX-License-Identifier: Apache-2.0
//
// One rank put together: data set, plan, tiers, source and engine behind one object that gives
// batches in order, as bytes or decoded. This is the public C++ API; examples/cpp/read.cc shows its
// use.
//
// For one thread, except fetch() and stats().
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/cache/cache.h"
#include "foreload/fetch/engine.h"
#include "foreload/formats/file_list.h"
#include "foreload/formats/saved_index.h"
#include "foreload/loader/disk_order.h"
#include "foreload/loader/joining.h"
#include "foreload/loader/neighbours.h"
#include "foreload/metrics/histogram.h"
#include "foreload/metrics/operations.h"
#include "foreload/metrics/trace.h"
#include "foreload/plan/plan.h"
#include "foreload/stores/store.h"
#include "foreload/verdict/verdict.h"

namespace foreload {

struct LoaderSettings {
  std::filesystem::path dataset;        // a path or URI of any format (formats/format.h)
  std::vector<std::string> extensions;  // as ListingOptions; see image_extensions()
  // The files of the data set, instead of `dataset`, and what each sample is made of (none: each
  // file is one); see file_list_of().
  std::vector<std::string> files;
  std::vector<std::vector<FileRange>> ranges;
  std::vector<std::string> part_names;  // of each sample's ranges; none: their numbers
  // The listing: loaded if it is there, otherwise written. Empty: in the first disk's folder, if
  // there is one.
  std::filesystem::path index;
  bool revalidate = false;  // list again even if an index was saved

  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t ranks_per_node = 1;  // that share `memory` and `disks`
  // How ranks talk ("auto", ...), and how long they wait for each other, for whoever makes `join`.
  std::string transport = "auto";
  std::chrono::milliseconds join_timeout{60'000};
  // How this rank finds the others, so that together they are one cache; nothing: it is alone with
  // the source.
  std::optional<JoinSettings> join;
  // Name of this host, so that ranks on one host can count as ranks on several; empty: see
  // find_neighbours(). Ranks on the same host read each other's memory in place.
  std::string host;
  OrderSettings order;  // "given": lists come from give_list(), epoch by epoch
  uint64_t seed = 0;
  Pad pad = Pad::repeat;
  std::optional<uint64_t> epochs;  // unknown: goes on for as long as batches are asked for
  uint64_t first_epoch = 0;
  uint64_t start = 0;  // samples of the first epoch that all ranks have consumed already
  Batching batching{64, false};

  // Where samples are kept, shared with other loaders; takes what the data set can use of what is
  // left. Null: the loader has a cache of its own, with the budgets below.
  std::shared_ptr<Cache> cache;
  // Budgets are the node's, and shared by its ranks, unless they are `per_rank`.
  uint64_t memory = 0;                 // bytes of samples to keep in memory
  std::string memory_why;              // as DiskBudget::why; see automatic_memory()
  std::vector<DiskBudget> disks;       // in any order: the fastest is used first
  std::string disk_kind = "segments";  // how copies lie there; see disk_kinds()
  bool per_rank = false;
  // Budgets are cut to what the data set can use (of ranks that are one cache: to this rank's share
  // of that, as if all had the same budgets), so that another loader may have the rest;
  // LoaderStart::tiers says what is left of them.
  bool only_needed = false;
  // Processes that are no ranks of each other and share disk folders find their own leftovers
  // there: which of `lanes` this one is.
  uint32_t lane = 0;
  uint32_t lanes = 1;
  // Bytes of batches being filled and decoded, whatever it takes for one. 0: 128 MiB, or with a
  // transform three batches (six with decoded_memory), as files, as kept and decoded, if that is
  // more.
  uint64_t staging = 0;

  // Turns the bytes of a sample, or of its named parts, into their final form; none: batches of
  // bytes. A Transform alone is for samples without named parts.
  SampleTransform transform;
  std::string form = "encoded";  // in which samples are kept; see forms()
  // Where the memory of decoded batches comes from, and goes back to after each use; null: from the
  // system, and kept for the next ones.
  std::function<std::unique_ptr<SlotAllocator>()> decoded_memory;

  // What `foreload probe` saved, to begin with. Nothing: the default file, if it is there and good;
  // an empty path: none.
  std::optional<std::filesystem::path> profile;

  // What reading is to save: the loop's time, or reads of the source that a copy makes needless.
  Objective objective = Objective::time;
  bool skip_bad_samples = false;
  unsigned tries = 3;
  std::chrono::milliseconds read_deadline{30'000};
  std::chrono::milliseconds peer_timeout{10'000};  // of silence, until a rank is given up
  IoEngine io_engine = IoEngine::automatic;
  // Threads that copy and decode; 0: the CPUs this process may use, at most 4 if nothing is
  // decoded.
  unsigned hands = 0;
  std::shared_ptr<Trace> trace;
  Progress listing_progress;
  // A source that gives so many bytes per second (0: all it can) and takes so much longer for each
  // read: to see on a fast disk what slow storage would do.
  uint64_t source_bandwidth = 0;
  double source_latency_ms = 0;
  // Puts something in front of the source, for tests.
  std::function<std::unique_ptr<Source>(
      std::function<std::unique_ptr<Source>(Source::Answered)> make, Source::Answered answered)>
      wrap_source;
  std::filesystem::path system_root = "/";  // where /proc and /sys are, for tests
};

// A tier as it was at the start.
struct TierStart {
  std::filesystem::path folder;  // empty: memory
  uint64_t bytes = 0;            // its budget
  double rate = 0;               // bytes per second; 0: not known
  SpeedFrom speed_from = SpeedFrom::nobody;
  unsigned first = 0;                      // requests in flight to begin with
  std::string why;                         // its budget is so large, where not the user said so
  std::vector<DiskNeighbour> others = {};  // who use the folder now, and share nothing
};

// How a loader began.
struct LoaderStart {
  std::filesystem::path root;     // names of samples are relative to it
  std::vector<TierStart> tiers;   // the fastest first, as the plan numbers them
  unsigned source_first = 0;      // requests in flight to begin with
  std::filesystem::path profile;  // that was used; empty: none
  ListingStart listing;
  std::string transport;              // to the other ranks; empty: none
  std::string transport_why;          // it was chosen
  std::vector<std::string> warnings;  // one line each
};

// One epoch as the consumer saw it.
struct EpochStats {
  uint64_t epoch = 0;
  double seconds = 0;  // from the end of the epoch before (or the first next()) to the last batch
  uint64_t batches = 0;
  uint64_t samples = 0;
  uint64_t bytes = 0;
  std::array<uint64_t, kFroms> from_bytes{};
  std::array<uint64_t, kFroms> from_samples{};
  double wait_seconds = 0;
  DurationHistogram waits;             // of single batches
  EpochFigures figures;                // for judge(); the engine's counters are at most 0.1 s old
  std::vector<uint64_t> counted = {};  // as many as there are counters(), of the same age
};

struct LoaderStats {
  EngineStats engine;
  EpochFigures figures;  // of the whole run, for judge()
  LoaderStart start;
  double listing_seconds = 0;
  double plan_seconds = 0;
  bool listed = false;  // false: the index was loaded
  uint64_t index_bytes = 0;
  uint64_t memory_overhead = 0;  // beside the payload of the memory tier
  uint64_t held_samples = 0;     // found on disks at the start
  uint64_t held_bytes = 0;
  std::string source;  // in words
  std::shared_ptr<const Operations> source_operations;
  std::shared_ptr<const Operations> disk_operations;
};

class Loader {
 public:
  // Lists or loads the data set, opens tiers, plans, and starts to read.
  static Result<std::unique_ptr<Loader>> open(LoaderSettings settings);
  ~Loader();

  // The next batch; nothing at the end of an epoch (the call after that begins the next one) and
  // after the last one. The batch before counts as consumed from now on; its memory lives as long
  // as somebody holds it. Fails as Engine::next() does.
  Result<std::optional<Batch>> next(std::optional<SteadyTime> until = std::nullopt);
  // The next batch is the first one after `start` samples of `epoch`, which all ranks together have
  // consumed. Lists must be given again: the first one is of this epoch, without what was consumed.
  void seek(uint64_t epoch, uint64_t start);
  // This rank's samples of the next epoch that has none yet; see GivenOrder::give().
  // REQUIRES: the order is a given one.
  Result<void> give_list(std::vector<uint64_t> samples, std::vector<uint64_t> batch_ends = {});

  // Random access, for any thread, as Engine::fetch(). Fails with `invalid` for a sample that is
  // not there, and for bytes of files where something else is kept.
  Result<std::shared_ptr<Ticket>> fetch(std::vector<uint64_t> samples, bool as_bytes = false);

  const Plan& plan() const { return *plan_; }
  const DatasetIndex& index() const { return *index_; }
  std::shared_ptr<const DatasetIndex> shared_index() const { return index_; }
  uint64_t batches_in(uint64_t epoch) const;
  // Of the current epoch, as far as it has come; of the last one after its end.
  const EpochStats& epoch_stats() const { return epoch_stats_; }
  LoaderStats stats() const;

 private:
  Loader() = default;

  std::shared_ptr<const DatasetIndex> index_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Cache::Loan> loan_;    // given back when the engine has ended
  std::unique_ptr<SharedTiers> shared_;  // null without neighbours
  std::unique_ptr<Engine> engine_;
  LoaderStats stats_;  // what is known from the start
  bool endless_ = false;
  bool keeps_files_ = true;

  uint64_t epoch_ = 0;  // of the next batch
  uint64_t resumed_epoch_ = 0;
  uint64_t resumed_start_ = 0;
  uint64_t given_ = 0;  // batches of epoch_ given so far
  std::optional<SteadyTime> epoch_begin_;
  std::optional<SteadyTime> waiting_since_;  // the call of next() that is not answered yet
  EpochStats epoch_stats_;

  void count(const Batch& batch, SteadyTime asked, SteadyTime received);

  EngineStats at_epoch_begin_;
  SteadyTime counters_read_;
  mutable std::mutex run_mutex_;  // guards the next two
  EpochFigures run_;              // what the loop's thread counts
  std::optional<SteadyTime> run_begin_;
};

}  // namespace foreload
