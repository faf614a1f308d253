// SPDX-License-Identifier: Apache-2.0
//
// What this process keeps on its node: memory and disks with their budgets, as tiers. A cache
// outlives the loaders it is lent to and lends to several at a time. Each borrows room for what it
// plans to keep, so that all together stay within the budgets, and each finds what the others have
// put, since copies are keyed by content: training and validation over the same files read them
// once. Blobs, such as checkpoints, are kept beside samples.
//
// A tier is opened when it is first asked for, by somebody who knows what it will hold. Disks are
// closed when the last loan is given back, so that their folders are free for other processes; what
// is on them is found again. Any thread may call anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/cache/blobs.h"
#include "foreload/metrics/operations.h"
#include "foreload/stores/store.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/memory.h"

namespace foreload {

struct DiskBudget {
  std::filesystem::path folder;
  uint64_t bytes = 0;
  std::string why = {};  // it is so large, where not the user said so
  size_t number = 0;     // among the disks of its cache

  bool operator==(const DiskBudget&) const = default;
};

struct CacheBudgets {
  uint64_t memory = 0;
  std::vector<DiskBudget> disks;
  std::string memory_why = {};  // as DiskBudget::why
  uint32_t member = 0;          // as in DiskSettings
  uint32_t members = 1;
  std::string disk_kind = "segments";  // how copies lie on disks; see disk_kinds()
};

class Cache : public std::enable_shared_from_this<Cache> {
 public:
  // A smaller part of a disk holds nothing.
  static constexpr uint64_t kLeastDisk = 64 << 10;
  static constexpr size_t kMostLoans = 32;

  // Bytes of memory and of each disk that a borrower may fill; given back with its end. What it has
  // put stays until somebody else needs the room.
  class Loan {
   public:
    ~Loan();
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    uint64_t memory() const { return memory_; }
    uint64_t disk(size_t number) const { return disks_[number]; }

   private:
    friend class Cache;
    Loan(std::shared_ptr<Cache> of, uint64_t memory, std::vector<uint64_t> disks)
        : of_(std::move(of)), memory_(memory), disks_(std::move(disks)) {}

    const std::shared_ptr<Cache> of_;
    const uint64_t memory_;
    const std::vector<uint64_t> disks_;
  };

  static std::shared_ptr<Cache> make(CacheBudgets budgets);
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  CacheBudgets budgets() const;
  // Without what is borrowed and what blobs take.
  CacheBudgets left() const;
  // Lends as much of what is wanted as is left. Fails with `invalid` while kMostLoans are out.
  Result<std::unique_ptr<Loan>> borrow(const CacheBudgets& wanted);

  // The memory tier. `like`: what it is to hold; the budget is the cache's. Fails as
  // MemoryCopies::create() does.
  Result<std::shared_ptr<MemoryTier>> memory(MemoryCopies::Settings like);
  // Null before somebody has asked for it.
  std::shared_ptr<MemoryTier> opened_memory() const;
  // A disk's tier. `how`: what it is to hold and how; folder, budget and member are the cache's.
  // `sharing` says who else uses it if this call has opened it; what they take is the cache's no
  // more. Fails as DiskKind::open() does, and is null where that gives null.
  Result<std::shared_ptr<Tier>> disk(size_t number, DiskSettings how, DiskSharing* sharing);
  const std::shared_ptr<Operations>& disk_operations() const { return disk_operations_; }

  // Bytes under a name, replacing those that it had: all of them, once they are committed, on the
  // first disk that has room, otherwise in memory. What is on a disk is found again by the next
  // process. commit() fails with `unreadable` if there is no room.
  std::unique_ptr<Sink> open_blob(std::string name);
  // Nothing if there is none of that name.
  Result<std::optional<std::vector<std::byte>>> read_blob(std::string_view name);

 private:
  struct Room {           // taken of one tier
    uint64_t given = 0;   // bytes, by the user
    uint64_t budget = 0;  // what others who use the folder leave of that
    uint64_t lent = 0;
    uint64_t blobs() const { return keeper ? keeper->bytes() : 0; }
    uint64_t left() const { return budget - std::min(budget, lent + blobs()); }
    std::shared_ptr<Tier> tier = nullptr;     // null: not opened yet
    std::shared_ptr<Blobs> keeper = nullptr;  // null: no blob was asked for or found
  };
  class BlobSink;

  explicit Cache(CacheBudgets budgets);
  // For blobs: disks first, then memory; opens those that are not open.
  using BlobRoom = std::pair<const Room*, std::shared_ptr<Blobs>>;
  Result<std::vector<BlobRoom>> all_tiers();
  Result<void> put_blob(const std::string& name, std::span<const std::byte> bytes);
  // REQUIRES for the rest: mutex_ is held.
  Result<void> open_memory(MemoryCopies::Settings like);
  Result<void> open_disk(size_t number, DiskSettings how, DiskSharing* sharing);
  void close_disks();

  const std::shared_ptr<Operations> disk_operations_ = std::make_shared<Operations>();
  mutable std::mutex mutex_;  // guards the rest
  CacheBudgets budgets_;
  Room memory_;
  std::shared_ptr<MemoryTier> memory_tier_;
  std::vector<Room> disks_;  // by number
  size_t loans_ = 0;
};

}  // namespace foreload
