// SPDX-License-Identifier: Apache-2.0
//
// A temporary cache folder, and a disk tier whose answers can be waited for.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/hash.h"
#include "foreload/base/random.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/segment_format.h"

#include "../temporary_folder.h"

namespace foreload {

using Bytes = std::vector<std::byte>;

// The right bytes of a sample: a function of its number, version and size.
inline Bytes bytes_of(uint64_t sample, size_t size, uint64_t version = 1) {
  Bytes bytes(size);
  const uint64_t key = mix64(sample * 31 + version);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix64(key + i / 8) >> i % 8);
  return bytes;
}

// A copy of a test is a sample in a version.
struct FoundSample {
  uint64_t sample = 0;
  uint64_t version = 0;
  uint64_t size = 0;
};

inline std::vector<uint64_t> samples_of(const std::vector<FoundSample>& found) {
  std::vector<uint64_t> samples;
  for (const FoundSample& entry : found) samples.push_back(entry.sample);
  return samples;
}

// Counts every answer, and fails the test if one comes twice or after the end.
class TierUser {
 public:
  explicit TierUser(const DiskSettings& settings) {
    auto tier = open_disk(settings);
    if (!tier) {
      error_ = tier.error();
      return;
    }
    tier_ = std::move(*tier);
    borrower_ = tier_->lend([this](std::span<const TierAnswer> answers) {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(over_);
      for (const TierAnswer& answer : answers)
        EXPECT_TRUE(answers_.emplace(answer.id, answer).second) << "two answers to " << answer.id;
      answered_.notify_all();
    });
  }
  ~TierUser() { close(); }

  // Ends the tier; everything must have been answered.
  void close() {
    if (!tier_) return;
    tier_.reset();
    const std::lock_guard lock(mutex_);
    over_ = true;
    EXPECT_EQ(answers_.size(), asked_);
  }

  Tier* operator->() { return tier_.get(); }
  explicit operator bool() const { return tier_ != nullptr; }
  const Error& error() const { return error_; }

  static CopyKey key_of(uint64_t sample, uint64_t version) { return {{sample, version}, 0}; }
  // In ascending order.
  std::vector<FoundSample> found() {
    std::vector<FoundSample> found;
    for (const FoundCopy& copy : tier_->found())
      found.push_back({copy.key.content.high, copy.key.content.low, copy.size});
    std::ranges::sort(found, {},
                      [](const FoundSample& f) { return std::pair(f.sample, f.version); });
    return found;
  }
  void drop(uint64_t sample, uint64_t version = 1) { tier_->drop(key_of(sample, version)); }
  bool holds(uint64_t sample, uint64_t version = 1) {
    return tier_->holds(key_of(sample, version));
  }
  void keep(const std::function<bool(uint64_t sample)>& wanted) {
    tier_->keep(borrower_, [&](const CopyKey& key) { return wanted(key.content.high); });
  }
  uint64_t counter(std::string_view name) {
    uint64_t found = UINT64_MAX;
    tier_->visit([&](std::string_view its, uint64_t value) {
      if (its == name) found = value;
    });
    return found;
  }
  uint64_t used() { return counter("disk_bytes"); }

  uint64_t start_write(uint64_t sample, Bytes bytes, uint64_t version = 1) {
    const auto kept = std::make_shared<const Bytes>(std::move(bytes));
    Put put{next_id(), key_of(sample, version), *kept, checksum64(*kept), kept};
    const uint64_t id = put.id;
    tier_->submit(borrower_, std::span(&put, 1), Traffic::fill);
    return id;
  }
  uint64_t start_read(uint64_t sample, const std::shared_ptr<Bytes>& into, bool for_peer = false,
                      uint64_t version = 1) {
    Get get{next_id(), key_of(sample, version), into->size(), 0, *into, into};
    const uint64_t id = get.id;
    tier_->submit(borrower_, std::span(&get, 1), for_peer ? Traffic::peer : Traffic::training);
    return id;
  }
  TierEnd wait(uint64_t id) {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return answers_.contains(id); });
    return answers_.at(id).end;
  }

  TierEnd write(uint64_t sample, size_t size, uint64_t version = 1) {
    return wait(start_write(sample, bytes_of(sample, size, version), version));
  }
  TierEnd read(uint64_t sample, size_t size, uint64_t version = 1) {
    const auto into = std::make_shared<Bytes>(size);
    const uint64_t id = start_read(sample, into, false, version);
    const TierEnd end = wait(id);
    if (end == TierEnd::done) {
      EXPECT_EQ(*into, bytes_of(sample, size, version)) << "wrong bytes of sample " << sample;
      EXPECT_EQ(checksum_of(id), checksum64(*into));
    }
    return end;
  }
  std::map<uint64_t, TierAnswer> answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  uint64_t checksum_of(uint64_t id) {
    const std::lock_guard lock(mutex_);
    return answers_.at(id).checksum;
  }
  uint64_t next_id() {
    const std::lock_guard lock(mutex_);
    return asked_++;
  }

  std::mutex mutex_;  // guards the next four
  std::condition_variable answered_;
  std::map<uint64_t, TierAnswer> answers_;
  uint64_t asked_ = 0;
  bool over_ = false;
  Error error_{};
  Tier::Borrower borrower_ = 0;
  std::shared_ptr<Tier> tier_;
};

class DiskFixture : public testing::Test {
 protected:
  explicit DiskFixture(const std::filesystem::path& parent = std::filesystem::temp_directory_path())
      : temporary_(parent) {
    settings_.folder = folder_ / "cache";
    settings_.budget = uint64_t{16} << 20;
  }

  DiskSettings member(uint32_t which, uint32_t of) const {
    DiskSettings settings = settings_;
    settings.member = which;
    settings.members = of;
    return settings;
  }
  std::filesystem::path slot(uint32_t number = 0) const {
    return settings_.folder / "foreload-1" / std::to_string(number);
  }
  std::filesystem::path segment(uint64_t number = 1) const {
    return slot() / ("0000000" + std::to_string(number) + ".segment");
  }
  std::filesystem::path sidecar(uint64_t number = 1) const {
    return slot() / ("0000000" + std::to_string(number) + ".index");
  }
  // Files below the cache folder as the budget counts them.
  uint64_t bytes_on_disk() const {
    uint64_t bytes = 0;
    std::error_code gone;  // files come and go meanwhile
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(settings_.folder, gone)) {
      struct stat status{};
      if (::stat(entry.path().c_str(), &status) == 0 && S_ISREG(status.st_mode))
        bytes += disk_cache::allocated_bytes(static_cast<uint64_t>(status.st_size));
    }
    return bytes;
  }
  static std::string contents(const std::filesystem::path& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void replace(const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file, std::ios::binary | std::ios::trunc) << text;
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  DiskSettings settings_;
};

// With io_uring or threads, with direct I/O or through the page cache.
class DiskOfEveryKind : public DiskFixture,
                        public testing::WithParamInterface<std::tuple<bool, bool>> {
 protected:
  DiskOfEveryKind() { std::tie(settings_.io_uring, settings_.direct_io) = GetParam(); }
};
inline auto every_kind_of_disk() {
  return testing::Combine(testing::Bool(), testing::Bool());
}
inline std::string name_of_kind(const testing::TestParamInfo<std::tuple<bool, bool>>& kind) {
  return std::string(std::get<0>(kind.param) ? "Ring" : "Threads") +
         (std::get<1>(kind.param) ? "Direct" : "Buffered");
}

}  // namespace foreload
