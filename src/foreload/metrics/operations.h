// SPDX-License-Identifier: Apache-2.0
//
// What was asked of a file system: how often, how long it took, how many bytes, in the size bins
// that Darshan uses. Always on; counting takes a few relaxed atomic additions. Any thread may count
// and read at any time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace foreload {

enum class Operation : uint8_t { list, open, stat, read, write };
inline constexpr size_t kOperations = 5;
std::string_view name_of(Operation operation);

// Upper bounds (exclusive) of the size bins; the last bin has none.
inline constexpr std::array<uint64_t, 9> kSizeBins{
    100, 1'000, 10'000, 100'000, 1'000'000, 4'000'000, 10'000'000, 100'000'000, 1'000'000'000};

class Operations {
 public:
  void count(Operation operation, std::chrono::nanoseconds time, uint64_t bytes = 0,
             bool failed = false);

  struct Totals {
    uint64_t count = 0;
    uint64_t failed = 0;
    uint64_t nanoseconds = 0;  // summed over operations, which may overlap
    uint64_t bytes = 0;
    std::array<uint64_t, kSizeBins.size() + 1> size_bins{};  // operations by their bytes
  };
  Totals totals(Operation operation) const;
  // Calls visit once per operation that was counted at least once.
  void visit(const std::function<void(Operation, const Totals&)>& visit) const;

 private:
  struct Counters {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> failed{0};
    std::atomic<uint64_t> nanoseconds{0};
    std::atomic<uint64_t> bytes{0};
    std::array<std::atomic<uint64_t>, kSizeBins.size() + 1> size_bins{};
  };
  std::array<Counters, kOperations> counters_;
};

// One that began at `start` and is over now. Does nothing where nobody counts (null).
inline void count_operation(const std::shared_ptr<Operations>& operations, Operation operation,
                            std::chrono::steady_clock::time_point start, uint64_t bytes = 0,
                            bool failed = false) {
  if (operations)
    operations->count(operation, std::chrono::steady_clock::now() - start, bytes, failed);
}

}  // namespace foreload
