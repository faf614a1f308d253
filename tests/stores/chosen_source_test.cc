// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/chosen_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/stores/engine_choice.h"
#include "foreload/stores/shaped.h"

#include "answers.h"
#include "memory_source.h"

namespace foreload {
namespace {

using std::chrono::steady_clock;

class ChosenSourceTest : public testing::Test {
 protected:
  static constexpr uint32_t kObjects = 20;
  static constexpr size_t kSize = 200;

  ChosenSourceTest() {
    TestObjects objects;
    for (uint32_t i = 0; i < kObjects; ++i)
      objects.push_back({std::to_string(i), test_bytes(i, kSize)});
    catalog_ = std::make_shared<TestCatalog>(std::move(objects));
  }

  Candidates::Make memory() {
    return [this](Source::Answered heard) -> Result<std::unique_ptr<Source>> {
      return std::make_unique<MemorySource>(catalog_, 16, std::move(heard));
    };
  }
  Candidates::Make slow(std::chrono::milliseconds latency) {
    return [this, latency](Source::Answered heard) -> Result<std::unique_ptr<Source>> {
      Shape shape;
      shape.latency = latency;
      return shape_source(
          [this](Source::Answered inner) {
            return std::make_unique<MemorySource>(catalog_, 16, std::move(inner));
          },
          shape, std::move(heard));
    };
  }
  static Candidates::Make missing(const std::string& why) {
    return [why](const Source::Answered&) -> Result<std::unique_ptr<Source>> {
      return fail(ErrorKind::invalid, why);
    };
  }
  // Stands still while a test does not move it.
  std::function<SteadyTime()> clock() {
    return [this] { return SteadyTime(SteadyTime::duration(ticks_.load())); };
  }
  void pass(SteadyTime::duration time) { ticks_ += time.count(); }

  void read(Source& source, uint64_t first, size_t count) {
    std::vector<SourceRead> reads;
    for (size_t i = 0; i < count; ++i) {
      const auto object = static_cast<uint32_t>((first + i) % kObjects);
      reads.push_back({first + i, {object, 0, kSize}, buffers_.at(first + i).destination()});
    }
    source.submit(reads);
  }
  void make_buffers(size_t count) {
    for (size_t i = 0; i < count; ++i) buffers_.emplace_back(kSize);
  }
  void expect_all_read() {
    ASSERT_TRUE(answers_.wait_for_count(buffers_.size()));
    EXPECT_EQ(answers_.repeated(), 0);
    EXPECT_EQ(answers_.count_of(Fault::none), buffers_.size());
    for (size_t i = 0; i < buffers_.size(); ++i)
      EXPECT_EQ(buffers_[i].text(), catalog_->object(static_cast<uint32_t>(i % kObjects)).bytes)
          << i;
  }

  std::shared_ptr<TestCatalog> catalog_;
  std::vector<Buffer> buffers_;
  Answers answers_;
  std::atomic<SteadyTime::rep> ticks_ = SteadyTime::duration(std::chrono::hours(1)).count();
};

// The clock of the choice runs with the reads, a millisecond each, so that it falls among them.
TEST_F(ChosenSourceTest, NoReadIsLostWhenTheChoiceFalls) {
  make_buffers(3000);
  const auto heard = answers_.callback();
  auto source = start_chosen_source(
      {slow(std::chrono::milliseconds(2)), memory()},
      [this, heard](SourceAnswer answer) {
        pass(std::chrono::milliseconds(1));
        heard(std::move(answer));
      },
      clock());
  ASSERT_TRUE(source);
  {
    std::vector<std::jthread> readers;
    for (uint64_t reader = 0; reader < 3; ++reader)
      readers.emplace_back([&, reader] {
        for (uint64_t i = 0; i < 100; ++i) {
          read(**source, 1000 * reader + 10 * i, 10);
          if (i % 8 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      });
  }
  expect_all_read();
  EXPECT_EQ((*source)->describe().find("tried"), std::string::npos) << "the choice has fallen";
}

TEST_F(ChosenSourceTest, TheFasterOneGetsAllReadsAfterTheTrial) {
  make_buffers(201);
  // Slow in the time that the choice knows: it moves while the slow one works.
  std::atomic<size_t> of_other = 0;
  const Candidates::Make counted = [&](Source::Answered heard) {
    return memory()([&of_other, heard](SourceAnswer answer) {
      ++of_other;
      heard(std::move(answer));
    });
  };
  const Candidates::Make slower = [&](Source::Answered heard) {
    return memory()([this, heard](SourceAnswer answer) {
      pass(std::chrono::milliseconds(6));
      heard(std::move(answer));
    });
  };
  auto source = start_chosen_source({slower, counted}, answers_.callback(), clock());
  ASSERT_TRUE(source);
  for (uint64_t i = 0; i < 200; ++i) {
    read(**source, i, 1);
    ASSERT_TRUE(answers_.wait_for_count(i + 1));
  }
  const size_t before = of_other;
  read(**source, 200, 1);
  expect_all_read();
  EXPECT_EQ(of_other, before + 1);
}

TEST_F(ChosenSourceTest, ReadsInFlightAreAnsweredAtTheEnd) {
  make_buffers(40);
  auto source = start_chosen_source(
      {slow(std::chrono::milliseconds(60'000)), slow(std::chrono::milliseconds(60'000))},
      answers_.callback(), clock());
  ASSERT_TRUE(source);
  read(**source, 0, 40);
  (*source)->cancel(7);
  EXPECT_EQ(answers_.of(7).fault, Fault::cancelled);
  source->reset();
  EXPECT_EQ(answers_.count_of(Fault::cancelled), 40);
  EXPECT_EQ(answers_.repeated(), 0);
}

TEST_F(ChosenSourceTest, ReadsThatWaitForEachOtherEndTheTrial) {
  make_buffers(30);
  auto source = start_chosen_source({memory(), slow(std::chrono::milliseconds(50)), 16},
                                    answers_.callback(), clock());
  ASSERT_TRUE(source);
  read(**source, 0, 30);
  EXPECT_EQ((*source)->describe(), "memory");
  expect_all_read();
}

TEST_F(ChosenSourceTest, OneThatIsMissingIsNotNeeded) {
  make_buffers(1);
  auto source = start_chosen_source({missing("a"), memory()}, answers_.callback(), clock());
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->describe(), "memory");
  source = start_chosen_source({memory(), missing("b")}, answers_.callback(), clock());
  ASSERT_TRUE(source);
  EXPECT_EQ((*source)->describe(), "memory");
  read(**source, 0, 1);
  expect_all_read();
}

TEST_F(ChosenSourceTest, WhereBothAreMissingThePreferredSaysWhy) {
  const auto source =
      start_chosen_source({missing("a"), missing("b")}, answers_.callback(), clock());
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().message, "a");
}

}  // namespace
}  // namespace foreload
