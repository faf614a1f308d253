// SPDX-License-Identifier: Apache-2.0
//
// What is left after crashes and bad disks: whatever happened to the files, a cache opens and gives
// right bytes or none.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "disk_fixture.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using Samples = std::vector<uint64_t>;

class DiskDamageTest : public DiskFixture {
 protected:
  // A cache is opened thousands of times here, and syncs whenever it mends something.
  DiskDamageTest()
      : DiskFixture(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : fs::temp_directory_path()) {}
  void SetUp() override {
    settings_.io_uring = false;  // cheaper to set up, and these tests do it often
    TierUser tier(settings_);
    for (uint64_t sample = 0; sample < kRecords; ++sample) {
      ASSERT_EQ(tier.write(sample, size_of(sample)), TierEnd::done);
    }
    tier.close();
    segment_ = contents(segment());
    sidecar_ = contents(sidecar());
    ASSERT_GT(segment_.size(), 0u);
    ASSERT_GT(sidecar_.size(), 0u);
  }

  static size_t size_of(uint64_t sample) { return 50 + sample * 17; }
  static uint64_t end_of(uint64_t sample) {
    uint64_t end = sizeof(disk_cache::SegmentHeader);
    for (uint64_t i = 0; i <= sample; ++i) end += disk_cache::record_bytes(size_of(i));
    return end;
  }

  // Puts one file (an empty text: none) in place of each, and nothing else.
  void restore(const std::string& segment_text, const std::string& sidecar_text) {
    fs::remove_all(settings_.folder);
    fs::create_directories(slot());
    replace(segment(), segment_text);
    if (!sidecar_text.empty()) replace(sidecar(), sidecar_text);
  }

  // How many of what is found can be read; nothing must ever be wrong, which read() checks.
  uint64_t readable() {
    TierUser tier(settings_);
    EXPECT_TRUE(tier) << tier.error().message;
    uint64_t right = 0;
    for (const FoundSample& entry : tier.found()) {
      EXPECT_LT(entry.sample, kRecords);
      EXPECT_EQ(entry.size, size_of(entry.sample));
      const TierEnd answer = tier.read(entry.sample, entry.size);
      EXPECT_TRUE(answer == TierEnd::done || answer == TierEnd::corrupt);
      EXPECT_EQ(tier.holds(entry.sample), answer == TierEnd::done);
      if (answer == TierEnd::done) ++right;
    }
    return right;
  }

  static constexpr uint64_t kRecords = 4;
  std::string segment_;
  std::string sidecar_;
};

TEST_F(DiskDamageTest, WithoutASidecarTheSegmentIsWalked) {
  fs::remove(sidecar());
  EXPECT_EQ(readable(), kRecords);
  EXPECT_TRUE(fs::exists(sidecar()));  // for the next time
  EXPECT_EQ(readable(), kRecords);
}

TEST_F(DiskDamageTest, WithASidecarTheSegmentIsNotWalked) {
  std::string damaged = segment_;
  damaged[end_of(0) + 3] ^= 1;  // the header of sample 1
  restore(damaged, sidecar_);
  TierUser tier(settings_);
  EXPECT_EQ(tier.found().size(), kRecords);
  EXPECT_EQ(tier.read(1, size_of(1)), TierEnd::corrupt);
  EXPECT_EQ(tier.read(1, size_of(1)), TierEnd::miss);
  EXPECT_EQ(tier.read(2, size_of(2)), TierEnd::done);
}

TEST_F(DiskDamageTest, ATornSidecarIsNotBelieved) {
  for (size_t length = 1; length < sidecar_.size(); ++length) {
    restore(segment_, sidecar_.substr(0, length));
    ASSERT_EQ(readable(), kRecords) << "cut at " << length;
  }
}

TEST_F(DiskDamageTest, AFlippedSidecarIsNotBelieved) {
  for (size_t at = 0; at < sidecar_.size(); ++at) {
    std::string damaged = sidecar_;
    damaged[at] ^= 4;
    restore(segment_, damaged);
    ASSERT_EQ(readable(), kRecords) << "flipped at " << at;
  }
}

TEST_F(DiskDamageTest, GarbageAsASidecarIsNotBelieved) {
  std::string garbage(5000, 'x');
  restore(segment_, garbage);
  EXPECT_EQ(readable(), kRecords);
  restore(segment_, segment_);
  EXPECT_EQ(readable(), kRecords);
}

TEST_F(DiskDamageTest, ASidecarOfAnotherSegmentIsNotBelieved) {
  {
    DiskSettings another = settings_;
    another.segment_bytes = 1;  // the one that is there is full then
    TierUser tier(another);
    ASSERT_EQ(tier.write(3, size_of(3), 2), TierEnd::done);
  }
  const std::string other = contents(sidecar(2));
  ASSERT_FALSE(other.empty());
  restore(segment_, other);
  EXPECT_EQ(readable(), kRecords);
}

TEST_F(DiskDamageTest, EveryTruncationKeepsWhatIsWhole) {
  for (const bool with_sidecar : {false, true}) {
    for (size_t length = 0; length < end_of(kRecords - 1) + 20; ++length) {
      restore(segment_.substr(0, length), with_sidecar ? sidecar_ : "");
      uint64_t whole = 0;
      // Padding behind a payload is not missed.
      while (whole < kRecords && end_of(whole) - disk_cache::record_bytes(size_of(whole)) +
                                         sizeof(disk_cache::RecordHeader) + size_of(whole) <=
                                     length)
        ++whole;
      if (length < sizeof(disk_cache::SegmentHeader)) whole = 0;
      ASSERT_EQ(readable(), whole) << "cut at " << length;
    }
  }
}

TEST_F(DiskDamageTest, AFlippedByteCostsAtMostItsRecord) {
  for (const bool with_sidecar : {false, true}) {
    for (size_t at = 0; at < end_of(kRecords - 1); ++at) {
      std::string damaged = segment_;
      damaged[at] ^= 16;
      restore(damaged, with_sidecar ? sidecar_ : "");
      const uint64_t right = readable();
      if (at >= sizeof(disk_cache::SegmentHeader)) {
        ASSERT_GE(right, kRecords - 1) << "flipped at " << at;
      }
    }
  }
}

TEST_F(DiskDamageTest, LostBlocksInTheMiddleCostOnlyWhatWasThere) {
  fs::remove_all(settings_.folder);
  {
    TierUser tier(settings_);
    for (uint64_t sample = 100; sample < 140; ++sample) {
      ASSERT_EQ(tier.write(sample, 3000), TierEnd::done);
    }
  }
  std::string damaged = contents(segment());
  std::fill(damaged.begin() + 4096 * 5, damaged.begin() + 4096 * 9, '\0');
  replace(segment(), damaged);
  fs::remove(sidecar());
  TierUser tier(settings_);
  uint64_t right = 0;
  for (uint64_t sample = 100; sample < 140; ++sample) {
    if (tier.read(sample, 3000) == TierEnd::done) ++right;
  }
  EXPECT_GE(right, 40u - 8);
  EXPECT_LT(right, 40u);
}

TEST_F(DiskDamageTest, ACorruptRecordCanBeWrittenAgain) {
  std::string damaged = segment_;
  damaged[end_of(0) - 20] ^= 1;  // the payload of sample 0
  restore(damaged, sidecar_);
  {
    TierUser tier(settings_);
    EXPECT_EQ(tier.read(0, size_of(0)), TierEnd::corrupt);
    EXPECT_EQ(tier.write(0, size_of(0)), TierEnd::done);
    EXPECT_EQ(tier.read(0, size_of(0)), TierEnd::done);
  }
  EXPECT_EQ(readable(), kRecords);
}

TEST_F(DiskDamageTest, ARecordInsideAPayloadIsNoRecord) {
  // Segments may hold segments: a data set of cache files, for instance.
  fs::remove_all(settings_.folder);
  {
    TierUser tier(settings_);
    const auto* first = reinterpret_cast<const std::byte*>(segment_.data());
    const uint64_t id = tier.start_write(9, Bytes(first, first + segment_.size()));
    ASSERT_EQ(tier.wait(id), TierEnd::done);
  }
  std::string damaged = contents(segment());
  damaged[sizeof(disk_cache::SegmentHeader)] ^= 1;  // the walk has to search from here
  replace(segment(), damaged);
  fs::remove(sidecar());
  TierUser tier(settings_);
  EXPECT_TRUE(tier.found().empty());
}

TEST_F(DiskDamageTest, LitterOfACrashIsRemoved) {
  replace(slot() / "00000001.index.tmp", "half a side");
  replace(slot() / "00000007.index", sidecar_);
  replace(slot() / "00000008.segment", "");
  replace(slot() / "00000009.segment", std::string(8192, '\0'));
  EXPECT_EQ(readable(), kRecords);
  EXPECT_FALSE(fs::exists(slot() / "00000001.index.tmp"));
  EXPECT_FALSE(fs::exists(slot() / "00000007.index"));
  EXPECT_FALSE(fs::exists(slot() / "00000008.segment"));
  EXPECT_FALSE(fs::exists(slot() / "00000009.segment"));
}

TEST_F(DiskDamageTest, FilesOfOthersStay) {
  replace(slot() / "notes.txt", "mine");
  replace(slot() / "1.segment", "mine too");
  EXPECT_EQ(readable(), kRecords);
  EXPECT_EQ(contents(slot() / "notes.txt"), "mine");
  EXPECT_EQ(contents(slot() / "1.segment"), "mine too");
}

TEST_F(DiskDamageTest, ASlotOfANewerFormatIsLeftAlone) {
  std::string newer = segment_;
  newer[8] = 3;
  restore(newer, "");
  {
    TierUser tier(settings_);
    ASSERT_TRUE(tier) << tier.error().message;
    EXPECT_TRUE(tier.found().empty());
    EXPECT_EQ(tier.write(1, 100), TierEnd::done);
  }
  EXPECT_EQ(contents(segment()), newer);
  EXPECT_TRUE(fs::exists(slot(1) / "00000001.segment"));
}

TEST_F(DiskDamageTest, WhatTheFirstFormatLeftIsRemovedAndItsRoomUsed) {
  disk_cache::SegmentHeader header;
  std::memcpy(&header, segment_.data(), sizeof header);
  header.version = 1;
  header.checksum = checksum64(std::as_bytes(std::span(&header, 1)).first(56));
  std::string first = segment_;
  std::memcpy(first.data(), &header, sizeof header);
  restore(first, sidecar_);
  replace(slot() / "lock", "foreload disk cache, format 1\nhost 1 0\n");
  replace(slot() / "notes.txt", "mine");
  {
    // In use: left alone.
    const int lock = ::open((slot() / "lock").c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(::flock(lock, LOCK_EX), 0);
    DiskSharing sharing;
    ASSERT_TRUE(open_disk(settings_, &sharing));
    EXPECT_EQ(sharing.others.size(), 1u);
    EXPECT_EQ(sharing.outdated, 0u);
    EXPECT_EQ(contents(segment()), first);
    ::close(lock);
  }
  DiskSharing sharing;
  const auto tier = open_disk(settings_, &sharing);
  ASSERT_TRUE(tier) << tier.error().message;
  EXPECT_TRUE((*tier)->found().empty());
  EXPECT_EQ(sharing.outdated, first.size());
  EXPECT_FALSE(fs::exists(segment()));
  EXPECT_FALSE(fs::exists(sidecar()));
  EXPECT_EQ(contents(slot() / "notes.txt"), "mine");
  EXPECT_TRUE(contents(slot() / "lock").starts_with("foreload disk cache, format 2\n"));
}

TEST_F(DiskDamageTest, ASlotWithAnotherLockIsLeftAlone) {
  replace(slot() / "lock", "foreload disk cache, format 3\n");
  TierUser tier(settings_);
  EXPECT_TRUE(tier.found().empty());
  EXPECT_EQ(tier.write(1, 100), TierEnd::done);
  EXPECT_EQ(contents(segment()), segment_);
}

}  // namespace
}  // namespace foreload
