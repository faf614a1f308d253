// SPDX-License-Identifier: Apache-2.0
#include "foreload/cache/cache.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/tiers/disk_kinds.h"

namespace foreload {

// Nobody sees the blob before it is whole: until then it is in this process's memory.
class Cache::BlobSink final : public Sink {
 public:
  BlobSink(std::shared_ptr<Cache> into, std::string name)
      : into_(std::move(into)), name_(std::move(name)) {}

  Result<void> write(std::span<const std::byte> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<void> commit() override {
    auto done = into_->put_blob(name_, bytes_);
    abort();
    return done;
  }
  void abort() override { std::vector<std::byte>().swap(bytes_); }

 private:
  const std::shared_ptr<Cache> into_;
  const std::string name_;
  std::vector<std::byte> bytes_;
};

std::shared_ptr<Cache> Cache::make(CacheBudgets budgets) {
  return std::shared_ptr<Cache>(new Cache(std::move(budgets)));
}

Cache::Cache(CacheBudgets budgets) : budgets_(std::move(budgets)) {
  memory_.budget = budgets_.memory;
  for (DiskBudget& disk : budgets_.disks) {
    disk.number = disks_.size();
    Room& room = disks_.emplace_back();
    room.given = room.budget = disk.bytes;
  }
}

Cache::~Cache() = default;

CacheBudgets Cache::budgets() const {
  const std::lock_guard lock(mutex_);
  return budgets_;
}

CacheBudgets Cache::left() const {
  const std::lock_guard lock(mutex_);
  CacheBudgets left = budgets_;
  left.memory = memory_.left();
  for (DiskBudget& disk : left.disks) disk.bytes = disks_[disk.number].left();
  return left;
}

Result<std::unique_ptr<Cache::Loan>> Cache::borrow(const CacheBudgets& wanted) {
  const std::lock_guard lock(mutex_);
  if (loans_ == kMostLoans)
    return fail(ErrorKind::invalid,
                fmt::format("{} loaders share this cache already: close() one of them, or give "
                            "this one a cache of its own",
                            kMostLoans));
  ++loans_;
  const uint64_t memory = std::min(wanted.memory, memory_.left());
  memory_.lent += memory;
  std::vector<uint64_t> disks(disks_.size());
  for (const DiskBudget& disk : wanted.disks) {
    const uint64_t left = std::min(disk.bytes, disks_[disk.number].left());
    disks[disk.number] = left < kLeastDisk ? 0 : left;
    disks_[disk.number].lent += disks[disk.number];
  }
  return std::unique_ptr<Loan>(new Loan(shared_from_this(), memory, std::move(disks)));
}

Cache::Loan::~Loan() {
  const std::lock_guard lock(of_->mutex_);
  of_->memory_.lent -= memory_;
  for (size_t i = 0; i < disks_.size(); ++i) of_->disks_[i].lent -= disks_[i];
  if (--of_->loans_ == 0) of_->close_disks();
}

void Cache::close_disks() {
  for (size_t i = 0; i < disks_.size(); ++i) {
    disks_[i].keeper.reset();
    disks_[i].tier.reset();
    disks_[i].budget = budgets_.disks[i].bytes = disks_[i].given;
  }
}

Result<void> Cache::open_memory(MemoryCopies::Settings like) {
  if (memory_.tier) return {};
  like.budget = budgets_.memory;
  FORELOAD_TRY(memory_tier_, foreload::open_memory({like, {}}));
  memory_.tier = memory_tier_;
  return {};
}

Result<std::shared_ptr<MemoryTier>> Cache::memory(MemoryCopies::Settings like) {
  const std::lock_guard lock(mutex_);
  FORELOAD_CHECK(open_memory(like));
  return memory_tier_;
}

std::shared_ptr<MemoryTier> Cache::opened_memory() const {
  const std::lock_guard lock(mutex_);
  return memory_tier_;
}

Result<void> Cache::open_disk(size_t number, DiskSettings how, DiskSharing* sharing) {
  Room& room = disks_[number];
  DiskBudget& budget = budgets_.disks[number];
  if (room.tier) return {};
  DiskSharing found;
  how.folder = budget.folder;
  how.budget = budget.bytes;
  how.member = budgets_.member;
  how.members = budgets_.members;
  how.operations = disk_operations_;
  FORELOAD_TRY(const DiskKind* const kind, find_disk_kind(budgets_.disk_kind));
  FORELOAD_TRY(room.tier, kind->open(std::move(how), &found));
  if (room.tier) {
    budget.bytes = room.budget = found.budget;
    if (Blobs::any_on(*room.tier)) room.keeper = std::make_shared<Blobs>(room.tier);
  }
  if (sharing != nullptr) *sharing = std::move(found);
  return {};
}

Result<std::shared_ptr<Tier>> Cache::disk(size_t number, DiskSettings how, DiskSharing* sharing) {
  const std::lock_guard lock(mutex_);
  FORELOAD_CHECK(open_disk(number, std::move(how), sharing));
  return disks_[number].tier;
}

Result<std::vector<Cache::BlobRoom>> Cache::all_tiers() {
  const std::lock_guard lock(mutex_);
  std::vector<BlobRoom> all;
  const auto add = [&all](Room& room) {
    if (!room.keeper) room.keeper = std::make_shared<Blobs>(room.tier);
    all.emplace_back(&room, room.keeper);
  };
  for (size_t i = 0; i < disks_.size(); ++i) {
    FORELOAD_CHECK(open_disk(i, {}, nullptr));
    if (disks_[i].tier) add(disks_[i]);
  }
  FORELOAD_CHECK(open_memory({}));
  add(memory_);
  return all;
}

std::unique_ptr<Sink> Cache::open_blob(std::string name) {
  return std::make_unique<BlobSink>(shared_from_this(), std::move(name));
}

Result<void> Cache::put_blob(const std::string& name, std::span<const std::byte> bytes) {
  FORELOAD_TRY(const std::vector<BlobRoom> tiers, all_tiers());
  // What it replaces makes room for it, and stays if it fits nowhere.
  const auto fits = [&](const BlobRoom& tier) {
    const std::lock_guard lock(mutex_);
    return bytes.size() <= tier.first->left() + tier.second->bytes_of(name);
  };
  for (const BlobRoom& tier : tiers) {
    if (!fits(tier) || !tier.second->put(name, bytes)) continue;
    for (const BlobRoom& other : tiers)
      if (&other != &tier) other.second->drop(name);
    return {};
  }
  return fail(ErrorKind::unreadable,
              fmt::format("cannot keep the blob {}: no disk or memory of the cache has {} left; "
                          "give the cache more, or close a loader that uses it",
                          name, format_bytes(bytes.size())));
}

Result<std::optional<std::vector<std::byte>>> Cache::read_blob(std::string_view name) {
  FORELOAD_TRY(const std::vector<BlobRoom> tiers, all_tiers());
  for (const auto& [room, keeper] : tiers)
    if (auto bytes = keeper->get(name)) return bytes;
  return std::nullopt;
}

}  // namespace foreload
