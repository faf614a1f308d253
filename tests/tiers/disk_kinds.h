// SPDX-License-Identifier: Apache-2.0
//
// The kinds of disk tier for the suite of all tiers.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "foreload/tiers/disk_kinds.h"
#include "foreload/tiers/segment_scan.h"
#include "foreload/tiers/slots.h"

#include "../temporary_folder.h"
#include "tier_conformance.h"

namespace foreload {

// Holds the threads of a tier by answers that do not return.
class HeldDisk {
 public:
  explicit HeldDisk(const std::shared_ptr<Tier>& tier, uint64_t budget)
      : tier_(tier), too_large_(budget) {}

  void hold(bool held) {
    const std::shared_ptr<Tier> tier = tier_.lock();
    if (!tier || held == (borrower_ != 0)) return;
    if (!held) {
      release();
      tier->give_back(std::exchange(borrower_, 0));
      return;
    }
    released_ = false;
    unsigned threads = 0;  // the readers and the writer
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm"), name);
      if (name == "foreload-disk") ++threads;
    }
    borrower_ = tier->lend([this](std::span<const TierAnswer>) {
      std::unique_lock lock(mutex_);
      ++stuck_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return released_; });
      --stuck_;
    });
    for (unsigned i = 0; i + 1 < threads; ++i) {
      Get get{i, key_of(UINT64_MAX / 2), 1, 0, std::span(too_large_).first(1), nullptr};
      tier->submit(borrower_, std::span(&get, 1), Traffic::training);
    }
    Put put{threads, key_of(UINT64_MAX / 2), too_large_, 0, nullptr};
    tier->submit(borrower_, std::span(&put, 1), Traffic::fill);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stuck_ == threads; });
  }

  // The tier ends whether or not it is held: then it has a moment to see that it must, and what
  // waits is let go.
  static void end(std::shared_ptr<Tier> tier, HeldDisk& disk) {
    std::thread later;
    if (disk.borrower_ != 0) {
      later = std::thread([&disk] {
        std::this_thread::sleep_for(std::chrono::milliseconds(500));
        disk.release();
      });
    }
    tier.reset();
    if (later.joinable()) later.join();
  }

 private:
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

  const std::weak_ptr<Tier> tier_;
  Bytes too_large_;  // to be put: as large as the budget
  Tier::Borrower borrower_ = 0;
  std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  unsigned stuck_ = 0;
  bool released_ = false;
};

// Empties all files, which may be open, and removes them and their folders.
inline void lose_files(const std::filesystem::path& folder) {
  std::error_code gone;  // somebody may be renaming
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, gone))
    if (entry.is_regular_file(gone)) std::filesystem::resize_file(entry.path(), 0, gone);
  while (std::filesystem::exists(folder)) std::filesystem::remove_all(folder, gone);
}

// Flips a bit of a copy in the file where it was written last.
inline void damage_on_disk(const std::filesystem::path& slot, const CopyKey& key, uint64_t offset) {
  using namespace disk_cache;
  const Descriptor folder(::open(slot.c_str(), O_RDONLY | O_DIRECTORY));
  std::tuple<uint64_t, uint64_t, uint64_t> last;  // born, place in the file, segment
  for (uint64_t number = 1; number < 1000; ++number) {
    ScannedSegment scanned;
    if (scan_segment(folder.get(), number, scanned) != 0) continue;
    for (const RecordEntry& record : scanned.records) {
      if (record.key != key) continue;
      const uint64_t piece = offset / kPieceBytes;
      const uint64_t checksum = pieces_of(record.size) > 1 ? sizeof(uint64_t) : 0;
      const uint64_t at = record.offset + sizeof(RecordHeader) + piece_offset(record.size, piece) +
                          checksum + offset % kPieceBytes;
      last = std::max(last, {scanned.header.born, at, number});
    }
  }
  const Descriptor file(::openat(folder.get(), segment_name(std::get<2>(last)).c_str(), O_RDWR));
  const auto at = static_cast<off_t>(std::get<1>(last));
  char byte = 0;
  ASSERT_EQ(::pread(file.get(), &byte, 1, at), 1);
  byte ^= 1;
  ASSERT_EQ(::pwrite(file.get(), &byte, 1, at), 1);
  ASSERT_EQ(::fsync(file.get()), 0);
}

// A tier below a folder of its own, opened by `open`; `damage(folder, key, offset)`.
inline TierAtWork disk_at_work(decltype(DiskKind::open) open, DiskSettings settings,
                               const auto& damage) {
  const auto folder = std::make_shared<TemporaryFolder>();
  settings.folder = folder->path();
  auto opened = open(settings, nullptr);
  EXPECT_TRUE(opened) << opened.error().message;
  if (!opened) return {};
  const auto held = std::make_shared<HeldDisk>(*opened, settings.budget);
  TierAtWork at_work;
  at_work.place = folder;
  at_work.hold = [held](bool yes) { held->hold(yes); };
  at_work.damage = [=](const CopyKey& key, uint64_t offset) {
    damage(folder->path(), key, offset);
  };
  at_work.lose = [folder] { lose_files(folder->path()); };
  Tier* tier = opened->get();
  at_work.tier = {tier, [held, own = std::move(*opened)](Tier*) mutable {
                    HeldDisk::end(std::move(own), *held);
                  }};
  return at_work;
}

inline TierKind disk_kind(bool ring, bool direct) {
  const auto make = [=](uint64_t budget, unsigned at_once) -> TierAtWork {
    DiskSettings settings;
    settings.budget = budget;
    settings.at_once = at_once;
    settings.io_uring = ring;
    settings.direct_io = direct;
    return disk_at_work(open_disk, settings,
                        [](const auto& folder, const CopyKey& key, uint64_t offset) {
                          damage_on_disk(folder / "foreload-1" / "0", key, offset);
                        });
  };
  return {std::string("Disk") + (ring ? "Ring" : "Threads") + (direct ? "Direct" : "Buffered"),
          make};
}

}  // namespace foreload
