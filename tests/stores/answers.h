// SPDX-License-Identifier: Apache-2.0
//
// What tests of sources share: objects with known bytes, and a collector of answers that one can
// wait for.
#pragma once

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "foreload/base/random.h"
#include "foreload/stores/source.h"

namespace foreload {

// Far more than anything here takes, so that a slow machine does not fail a test.
inline constexpr std::chrono::seconds kPatience{60};

struct TestObject {
  std::string name;
  std::string bytes;
  bool hangs = false;    // reading it never ends
  bool missing = false;  // in the catalog only
  uint64_t version = 0;
};
using TestObjects = std::vector<TestObject>;

inline std::string test_bytes(uint64_t seed, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(mix64(seed << 32 | i));
  return bytes;
}

class TestCatalog final : public ObjectCatalog {
 public:
  explicit TestCatalog(TestObjects objects) : objects_(std::move(objects)) {}

  std::string_view name(uint32_t object) const override { return objects_.at(object).name; }
  uint64_t size(uint32_t object) const override { return objects_.at(object).bytes.size(); }
  uint64_t version(uint32_t object) const override { return objects_.at(object).version; }
  uint32_t count() const { return static_cast<uint32_t>(objects_.size()); }
  const TestObject& object(uint32_t object) const { return objects_.at(object); }

 private:
  const TestObjects objects_;
};

class Answers {
 public:
  Source::Answered callback() {
    return [this](SourceAnswer answer) {
      const std::scoped_lock lock(mutex_);
      if (!first_.emplace(answer.id, answer).second) ++repeated_;
      order_.push_back(answer.id);
      last_time_ = std::chrono::steady_clock::now();
      arrived_.notify_all();
    };
  }

  // Whether so many reads were answered in time.
  bool wait_for_count(size_t count) {
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, kPatience, [&] { return first_.size() >= count; });
  }
  // The answer to one read; a made-up one where none came.
  SourceAnswer of(uint64_t id) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kPatience, [&] { return first_.contains(id); })) {
      return {id, Fault::transient, -1, "the test got no answer"};
    }
    return first_.at(id);
  }
  // The id is about to be used again.
  void forget(uint64_t id) {
    const std::scoped_lock lock(mutex_);
    first_.erase(id);
  }
  size_t count() const {
    const std::scoped_lock lock(mutex_);
    return first_.size();
  }
  size_t repeated() const {
    const std::scoped_lock lock(mutex_);
    return repeated_;
  }
  std::vector<uint64_t> order() const {
    const std::scoped_lock lock(mutex_);
    return order_;
  }
  size_t count_of(Fault fault) const {
    const std::scoped_lock lock(mutex_);
    size_t count = 0;
    for (const auto& [id, answer] : first_) count += answer.fault == fault ? 1 : 0;
    return count;
  }
  SteadyTime last_time() const {
    const std::scoped_lock lock(mutex_);
    return last_time_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<uint64_t, SourceAnswer> first_;
  std::vector<uint64_t> order_;
  size_t repeated_ = 0;
  SteadyTime last_time_;
};

// Memory for one read, with its keeper.
class Buffer {
 public:
  explicit Buffer(size_t size) : bytes_(std::make_shared<std::string>(size, '#')) {}

  Destination destination() const { return {reinterpret_cast<std::byte*>(bytes_->data()), bytes_}; }
  const std::string& text() const { return *bytes_; }
  long holders() const { return bytes_.use_count(); }

 private:
  std::shared_ptr<std::string> bytes_;
};

}  // namespace foreload
