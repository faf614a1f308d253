// SPDX-License-Identifier: Apache-2.0
#include "foreload/rows/gatherer.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using Words = std::vector<uint64_t>;

// Columns of words, each of which says where it is from.
class Table {
 public:
  Table(uint64_t rows, std::vector<uint64_t> words_per_row) : words_(std::move(words_per_row)) {
    for (size_t c = 0; c < words_.size(); ++c) {
      Words& memory = memory_.emplace_back(rows * words_[c]);
      for (uint64_t i = 0; i < memory.size(); ++i)
        memory[i] = word(c, i / words_[c], i % words_[c]);
      auto made = RowColumn::of({{0, reinterpret_cast<const std::byte*>(memory.data()),
                                  static_cast<int64_t>(8 * words_[c])}},
                                rows, {8, {{words_[c], 8}}});
      columns_.push_back(std::move(made).value());
    }
  }
  static uint64_t word(uint64_t column, uint64_t row, uint64_t at) {
    return (column << 56) + (row << 16) + at;
  }
  const std::vector<RowColumn>& columns() const { return columns_; }
  // Memory for a batch, and what it must hold in the end.
  std::vector<Words> batch(size_t rows) const {
    std::vector<Words> made;
    for (const uint64_t words : words_) made.emplace_back(rows * words, ~uint64_t{0});
    return made;
  }
  std::vector<Words> expected(const std::vector<int64_t>& numbers) const {
    std::vector<Words> made = batch(numbers.size());
    for (size_t c = 0; c < words_.size(); ++c)
      for (uint64_t i = 0; i < made[c].size(); ++i)
        made[c][i] = word(c, static_cast<uint64_t>(numbers[i / words_[c]]), i % words_[c]);
    return made;
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<Words> memory_;
  std::vector<RowColumn> columns_;
};

std::vector<std::byte*> places(std::vector<Words>& batch) {
  std::vector<std::byte*> to;
  for (Words& words : batch) to.push_back(reinterpret_cast<std::byte*>(words.data()));
  return to;
}

std::vector<int64_t> some_numbers(size_t count, uint64_t rows, uint64_t seed) {
  std::vector<int64_t> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<int64_t>(mix64(seed + i) % rows);
  return numbers;
}

TEST(RowGatherer, BatchesOfAllSizesAreWhatALoopWouldMake) {
  const Table table(1000, {1, 700, 3});
  RowGatherer gatherer(table.columns(), 3);
  struct Asked {
    std::vector<int64_t> numbers;
    std::vector<Words> batch;
    std::shared_ptr<RowGatherer::Job> job;
  };
  std::vector<std::unique_ptr<Asked>> all;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const size_t count = seed % 3 == 0 ? mix64(seed) % 6 : mix64(seed) % 400;
    auto asked = std::make_unique<Asked>();
    asked->numbers = some_numbers(count, 1000, seed * 1000);
    asked->batch = table.batch(count);
    asked->job = gatherer.submit(asked->numbers, places(asked->batch)).value();
    all.push_back(std::move(asked));
  }
  for (const auto& asked : all) {
    EXPECT_TRUE(gatherer.wait(*asked->job));
    EXPECT_EQ(asked->batch, table.expected(asked->numbers));
  }
}

TEST(RowGatherer, ABatchWithoutRowsIsDoneAtOnce) {
  const Table table(10, {2});
  RowGatherer gatherer(table.columns(), 1);
  std::vector<Words> batch = table.batch(0);
  const auto job = gatherer.submit({}, places(batch)).value();
  EXPECT_TRUE(RowGatherer::done(*job));
}

TEST(RowGatherer, NamesTheRowThatIsNotThere) {
  const Table table(10, {2});
  RowGatherer gatherer(table.columns(), 1);
  std::vector<Words> batch = table.batch(2);
  for (const int64_t wrong : {int64_t{10}, int64_t{-1}, INT64_MIN}) {
    const auto job = gatherer.submit({3, wrong}, places(batch));
    ASSERT_FALSE(job);
    EXPECT_EQ(job.error().message, "cannot gather row " + std::to_string(wrong) +
                                       ": the data set has rows 0 to 9; check the sampler");
  }
  EXPECT_EQ(batch, table.batch(2));  // untouched
}

TEST(RowGatherer, TheShortestColumnSaysHowManyRowsThereAre) {
  const Table longer(10, {1});
  const Table shorter(9, {1});
  RowGatherer gatherer({longer.columns()[0], shorter.columns()[0]}, 1);
  std::vector<Words> batch{Words(1), Words(1)};
  EXPECT_FALSE(gatherer.submit({9}, places(batch)));
}

TEST(RowGatherer, NothingIsWrittenAfterDrop) {
  const Table table(1000, {700});
  RowGatherer gatherer(table.columns(), 2);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    std::vector<Words> batch = table.batch(500);
    const auto job = gatherer.submit(some_numbers(500, 1000, seed), places(batch)).value();
    gatherer.drop(*job);
    const std::vector<Words> then = batch;
    // A later batch is finished, so that whatever was queued before would have been copied.
    std::vector<Words> next = table.batch(300);
    EXPECT_TRUE(gatherer.wait(*gatherer.submit(some_numbers(300, 1000, 1), places(next)).value()));
    EXPECT_EQ(batch, then);
  }
}

TEST(RowGatherer, EndsWithBatchesOnTheirWay) {
  const Table table(1000, {700});
  const auto numbers = some_numbers(500, 1000, 5);
  const Words expected = table.expected(numbers)[0];
  std::vector<std::vector<Words>> batches(20, table.batch(500));
  {
    RowGatherer gatherer(table.columns(), 2);
    for (auto& batch : batches) ASSERT_TRUE(gatherer.submit(numbers, places(batch)));
  }
  for (const auto& batch : batches) {
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_TRUE(batch[0][i] == expected[i] || batch[0][i] == ~uint64_t{0}) << i;
  }
}

TEST(RowGatherer, AWaitWithoutTimeSaysWhetherTheBatchIsDone) {
  const Table table(1000, {700});
  RowGatherer gatherer(table.columns(), 1);
  std::vector<Words> batch = table.batch(1000);
  const auto job = gatherer.submit(some_numbers(1000, 1000, 5), places(batch)).value();
  while (!gatherer.wait(*job, RowGatherer::Clock::time_point{})) std::this_thread::yield();
  EXPECT_TRUE(RowGatherer::done(*job));
}

TEST(RowGatherer, SeveralThreadsMayAsk) {
  const Table table(1000, {700, 1});
  RowGatherer gatherer(table.columns(), 2);
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t round = 0; round < 20; ++round) {
        const size_t count = round % 2 == 0 ? 2 : 200;
        const auto numbers = some_numbers(count, 1000, thread * 100 + round);
        std::vector<Words> batch = table.batch(count);
        const auto job = gatherer.submit(numbers, places(batch)).value();
        EXPECT_TRUE(gatherer.wait(*job));
        EXPECT_EQ(batch, table.expected(numbers));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(RowGatherer, CountsWhatItTook) {
  const Table table(1000, {700});
  RowGatherer gatherer(table.columns(), 2);
  std::vector<Words> batch = table.batch(1000);
  EXPECT_TRUE(gatherer.wait(*gatherer.submit(some_numbers(1000, 1000, 5), places(batch)).value()));
  const GatherTimes times = gatherer.times();
  EXPECT_GT(times.seconds, 0);
  EXPECT_GT(times.cpu_seconds, 0);
}

// Rows of a mapped file whose pages are not in memory, as far as the system lets them go.
TEST(RowGatherer, ReadsAMappedFileThatIsNotInMemory) {
  constexpr uint64_t kRows = 2000;
  constexpr uint64_t kWords = 512;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("foreload-rows-" + std::to_string(::getpid()));
  {
    Words words(kRows * kWords);
    for (uint64_t i = 0; i < words.size(); ++i) words[i] = Table::word(0, i / kWords, i % kWords);
    std::ofstream(file, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()),
               static_cast<std::streamsize>(words.size() * 8));
  }
  const int handle = ::open(file.c_str(), O_RDONLY);
  ASSERT_GE(handle, 0);
  ::fdatasync(handle);
  ::posix_fadvise(handle, 0, 0, POSIX_FADV_DONTNEED);
  void* const memory = ::mmap(nullptr, kRows * kWords * 8, PROT_READ, MAP_SHARED, handle, 0);
  ASSERT_NE(memory, MAP_FAILED);
  {
    auto column = RowColumn::of({{0, static_cast<std::byte*>(memory), kWords * 8}}, kRows,
                                {8, {{kWords, 8}}});
    RowGatherer gatherer({column.value()}, 2);
    for (uint64_t round = 0; round < 40; ++round) {
      const auto numbers = some_numbers(64, kRows, round * 64);
      std::vector<Words> batch{Words(64 * kWords)};
      EXPECT_TRUE(gatherer.wait(*gatherer.submit(numbers, places(batch)).value()));
      for (uint64_t i = 0; i < 64; ++i)
        ASSERT_EQ(batch[0][i * kWords], Table::word(0, static_cast<uint64_t>(numbers[i]), 0));
    }
  }
  ::munmap(memory, kRows * kWords * 8);
  ::close(handle);
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace foreload
