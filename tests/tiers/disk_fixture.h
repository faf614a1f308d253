// SPDX-License-Identifier: Apache-2.0
//
// A temporary cache folder, and a disk tier whose answers can be waited for.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/hash.h"
#include "foreload/base/random.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/segment_format.h"

namespace foreload {

using Bytes = std::vector<std::byte>;

// The right bytes of a sample: a function of its number, version and size.
inline Bytes bytes_of(uint64_t sample, size_t size, uint64_t version = 1) {
  Bytes bytes(size);
  const uint64_t key = mix64(sample * 31 + version);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix64(key + i / 8) >> i % 8);
  return bytes;
}

inline std::vector<uint64_t> samples_of(const std::vector<DiskEntry>& entries) {
  std::vector<uint64_t> samples;
  for (const DiskEntry& entry : entries) samples.push_back(entry.sample);
  return samples;
}

// Counts every answer, and fails the test if one comes twice or after the end.
class TierUser {
 public:
  explicit TierUser(const DiskSettings& settings) {
    auto tier = DiskTier::open(settings, [this](uint64_t id, DiskAnswer answer) {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(over_);
      EXPECT_TRUE(answers_.emplace(id, answer).second) << "two answers to " << id;
      answered_.notify_all();
    });
    if (tier) {
      tier_ = std::move(*tier);
    } else {
      error_ = tier.error();
    }
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

  DiskTier* operator->() { return tier_.get(); }
  explicit operator bool() const { return tier_ != nullptr; }
  const Error& error() const { return error_; }

  uint64_t start_write(uint64_t sample, Bytes bytes, uint64_t version = 1) {
    const auto kept = std::make_shared<const Bytes>(std::move(bytes));
    DiskWrite write;
    write.id = next_id();
    write.sample = sample;
    write.version = version;
    write.from = kept->data();
    write.size = kept->size();
    write.checksum = checksum64(*kept);
    write.keeper = kept;
    const uint64_t id = write.id;
    tier_->write(std::move(write));
    return id;
  }
  uint64_t start_read(uint64_t sample, const std::shared_ptr<Bytes>& into, bool for_peer = false,
                      const std::shared_ptr<uint64_t>& checksum = nullptr) {
    DiskRead read;
    read.id = next_id();
    read.sample = sample;
    read.into = into->data();
    read.size = into->size();
    read.keeper = std::make_shared<std::pair<std::shared_ptr<Bytes>, std::shared_ptr<uint64_t>>>(
        into, checksum);
    read.for_peer = for_peer;
    read.checksum = checksum.get();
    const uint64_t id = read.id;
    tier_->read(std::move(read));
    return id;
  }
  DiskAnswer wait(uint64_t id) {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [&] { return answers_.contains(id); });
    return answers_.at(id);
  }

  DiskAnswer write(uint64_t sample, size_t size, uint64_t version = 1) {
    return wait(start_write(sample, bytes_of(sample, size, version), version));
  }
  DiskAnswer read(uint64_t sample, size_t size, uint64_t version = 1) {
    const auto into = std::make_shared<Bytes>(size);
    const auto checksum = std::make_shared<uint64_t>();
    const DiskAnswer answer = wait(start_read(sample, into, false, checksum));
    if (answer == DiskAnswer::done) {
      EXPECT_EQ(*checksum, checksum64(*into));
      EXPECT_EQ(*into, bytes_of(sample, size, version)) << "wrong bytes of sample " << sample;
    }
    return answer;
  }
  std::map<uint64_t, DiskAnswer> answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

 private:
  uint64_t next_id() {
    const std::lock_guard lock(mutex_);
    return asked_++;
  }

  std::mutex mutex_;  // guards the next four
  std::condition_variable answered_;
  std::map<uint64_t, DiskAnswer> answers_;
  uint64_t asked_ = 0;
  bool over_ = false;
  Error error_{};
  std::unique_ptr<DiskTier> tier_;
};

class DiskFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (parent_ / "foreload-disk-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    settings_.folder = folder_ / "cache";
    settings_.budget = uint64_t{16} << 20;
    settings_.fingerprint = {1, 2};
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

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

  std::filesystem::path parent_ = std::filesystem::temp_directory_path();
  std::filesystem::path folder_;
  DiskSettings settings_;
};

}  // namespace foreload
