// SPDX-License-Identifier: Apache-2.0
//
// The disk tier: samples in a few large append-only segment files below a cache folder. Every
// record carries its key and checksum, and nothing is trusted that was not verified, so the folder
// survives kill -9 and power loss; docs/formats.md describes it byte by byte. What an earlier run
// left is found again under any plan, because records are keyed by (data set, sample, version,
// form), never by rank or plan.
//
// Reads and writes are asynchronous; reads of the training loop go before reads for peers, and both
// before writes. Answers come from the tier's own threads, several at a time, and may ask the tier
// for more; any thread may use it. A full or failing disk turns the tier off (dead() says why), not
// the run. Several processes may use one folder: each locks a part of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/result.h"
#include "foreload/metrics/operations.h"

namespace foreload {

struct DiskSettings {
  std::filesystem::path folder;
  uint64_t budget = 0;  // bytes on disk, all files of this process below the folder together
  Digest fingerprint;   // of the data set
  // Bytes on disk that it will come to, where that is known: neighbours leave it so much.
  uint64_t reserve = 0;
  uint64_t form = 0;    // 0: raw bytes; else the hash of a deterministic transform
  uint32_t member = 0;  // which of the processes of this job on this node, and
  uint32_t members =
      1;  // how many there are: decides which leftovers of earlier runs it takes over
  uint64_t segment_bytes = 0;                  // 0: chosen from the budget
  uint64_t queue_bytes = uint64_t{256} << 20;  // writes that wait, together; see DiskAnswer::full
  bool direct_io = true;  // falls back by itself where the file system has none
  bool io_uring = true;   // falls back to threads where the system has none
  std::shared_ptr<Operations> operations;
};

// Another process, or another loader of this one, that uses the folder now and shares nothing.
struct DiskNeighbour {
  std::string host;       // empty: not known
  uint64_t process = 0;   // 0: not known
  uint64_t held = 0;      // bytes on disk
  uint64_t reserved = 0;  // bytes on disk that it will come to
  uint64_t bytes() const { return held > reserved ? held : reserved; }
};
struct DiskSharing {
  std::vector<DiskNeighbour> others;
  uint64_t budget = 0;  // what they leave of the one in the settings
};

// A sample that is on the disk already, as of opening.
struct DiskEntry {
  uint64_t sample = 0;
  uint64_t version = 0;
  uint64_t size = 0;
};

enum class DiskAnswer : uint8_t {
  done,
  miss,     // not here, or of another size
  corrupt,  // was here with other bytes; dropped
  failed,   // the disk said no; see dead()
  full,     // no room for the write within the budget, or in the queue: too many writes wait
};

struct DiskRead {
  uint64_t id = 0;
  uint64_t sample = 0;
  std::byte* into = nullptr;           // `size` bytes
  uint64_t size = 0;                   // must be the sample's
  std::shared_ptr<const void> keeper;  // keeps `into` and `checksum`
  bool for_peer = false;
  uint64_t* checksum = nullptr;  // takes that of the bytes, if they are wanted with it
};

struct DiskWrite {
  uint64_t id = 0;
  uint64_t sample = 0;
  uint64_t version = 0;
  const std::byte* from = nullptr;
  uint64_t size = 0;
  uint64_t checksum = 0;               // XXH3 of the bytes
  std::shared_ptr<const void> keeper;  // keeps `from` until the answer
};

// How many bytes of samples of this mean size fit a budget: what is left without the headers of
// records and segments and the blocks that files are rounded up to.
uint64_t disk_payload(uint64_t budget, uint64_t mean_size);
// The budget that so many bytes of samples need, and not much more.
uint64_t disk_budget_for(uint64_t payload, uint64_t mean_size);

class DiskTier {
 public:
  using Answered = std::function<void(uint64_t id, DiskAnswer answer)>;

  // Opens or makes the folder, finds what is there, and reclaims what is not wanted any more when
  // room is needed. Fails with `unreadable` if the folder cannot be used, `invalid` if the budget
  // is too small for anything or larger than the disk's free space plus what is held. The budget is
  // that of the folder: others who use it now, as far as they are the same member, come off it, and
  // the tier is null if they leave nothing; `sharing`, if given, says who they are.
  static Result<std::unique_ptr<DiskTier>> open(DiskSettings settings, Answered answered,
                                                DiskSharing* sharing = nullptr);
  // Writes what is queued for half a second, answers the rest (`failed`), finishes the record being
  // written, syncs the index; within a second or little more. What the system has not given back by
  // then is answered `failed` from this thread, and its memory and its slot are held until it comes
  // back.
  virtual ~DiskTier() = default;

  virtual const std::vector<DiskEntry>& found() const = 0;  // in ascending order of samples
  // Which of the samples held now are wanted: all others may be reclaimed, and are there until
  // then. Called once, after planning; before, all that are held are wanted.
  virtual void keep(const std::function<bool(uint64_t sample, uint64_t version)>& wanted) = 0;
  virtual void read(DiskRead read) = 0;
  virtual void write(DiskWrite write) = 0;
  // Forgets a sample, also one that is being written. The disk need not learn of it: a later run
  // may find the sample again, with its version.
  virtual void drop(uint64_t sample) = 0;
  virtual bool holds(uint64_t sample) const = 0;

  virtual uint64_t used() const = 0;                    // bytes on disk
  virtual uint64_t payload() const = 0;                 // bytes of samples held
  virtual std::optional<std::string> dead() const = 0;  // why the tier is off, if it is
};

}  // namespace foreload
