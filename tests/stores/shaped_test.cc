// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/shaped.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/stores/fair_share.h"

#include "memory_source.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::unique_ptr<Source> shaped_memory(const Shape& shape, size_t objects, size_t size,
                                      Source::Answered answered) {
  TestObjects all(objects, TestObject{"object", std::string(size, 'x')});
  auto catalog = std::make_shared<TestCatalog>(std::move(all));
  return shape_source(
      [&](Source::Answered heard) {
        return std::make_unique<MemorySource>(catalog, 64, std::move(heard));
      },
      shape, std::move(answered));
}

// Reads each object once and returns how long that took.
Clock::duration time_reads(const Shape& shape, uint32_t objects, size_t size) {
  Answers answers;
  const auto source = shaped_memory(shape, objects, size, answers.callback());
  const Buffer buffer(size);
  std::vector<SourceRead> reads;
  for (uint32_t i = 0; i < objects; ++i) reads.push_back({i, {i, 0, size}, buffer.destination()});
  const SteadyTime start = Clock::now();
  source->submit(reads);
  EXPECT_TRUE(answers.wait_for_count(objects));
  EXPECT_EQ(answers.count_of(Fault::none), objects);
  return answers.last_time() - start;
}

// Lower bounds are exact because the model never answers early; upper ones leave room for a machine
// that is busy with something else.
TEST(Shaped, BandwidthIsShared) {
  Shape shape;
  shape.bytes_per_second = 1e6;
  const auto took = time_reads(shape, 20, 10'000);  // 0.2 s of transfer
  EXPECT_GE(took, milliseconds(199));
  EXPECT_LT(took, milliseconds(2000));
}

TEST(Shaped, HalfTheBandwidthTakesTwiceTheTime) {
  Shape fast;
  fast.bytes_per_second = 2e6;
  Shape slow;
  slow.bytes_per_second = 1e6;
  const double ratio = std::chrono::duration<double>(time_reads(slow, 20, 10'000)) /
                       std::chrono::duration<double>(time_reads(fast, 20, 10'000));
  EXPECT_GT(ratio, 1.2);
  EXPECT_LT(ratio, 3.0);
}

TEST(Shaped, OneAtATimeLosesNoTimeBetweenReads) {
  Shape shape;
  shape.bytes_per_second = 1e6;
  shape.most_in_flight = 1;
  shape.latency = std::chrono::microseconds(100);
  const auto took = time_reads(shape, 100, 1000);  // 0.1 s of transfer, 0.01 s of latency
  EXPECT_GE(took, milliseconds(109));
  EXPECT_LT(took, milliseconds(1100));
}

TEST(Shaped, CurveGivesTheBandwidth) {
  Shape shape;
  shape.curve = [](unsigned in_flight) { return 1e6 * std::min(in_flight, 4u); };
  shape.most_in_flight = 1;
  const auto alone = time_reads(shape, 20, 10'000);
  shape.most_in_flight = 4;
  const auto four = time_reads(shape, 20, 10'000);
  EXPECT_GT(alone, four);
  EXPECT_GE(alone, milliseconds(199));
  EXPECT_GE(four, milliseconds(49));
}

TEST(Shaped, LatencyIsAddedOnceToReadsInParallel) {
  Shape shape;
  shape.latency = milliseconds(50);
  const auto took = time_reads(shape, 50, 10);
  EXPECT_GE(took, milliseconds(50));
  EXPECT_LT(took, milliseconds(1500));
}

// Which of 200 objects, each read `times`, get a fault.
std::vector<bool> faults(const Shape& shape, unsigned times) {
  Answers answers;
  const auto source = shaped_memory(shape, 200, 10, answers.callback());
  const Buffer buffer(10);
  std::vector<bool> faulty;
  uint64_t id = 0;
  for (unsigned time = 0; time < times; ++time) {
    std::vector<SourceRead> reads;
    for (uint32_t i = 0; i < 200; ++i) reads.push_back({id++, {i, 0, 10}, buffer.destination()});
    source->submit(reads);
    EXPECT_TRUE(answers.wait_for_count(id));
  }
  for (uint64_t i = 0; i < id; ++i) faulty.push_back(answers.of(i).fault == shape.fault);
  return faulty;
}

TEST(Shaped, FaultsDependOnTheSeedAlone) {
  Shape shape;
  shape.fault_share = 0.3;
  shape.fault = Fault::throttled;
  shape.seed = 5;
  const std::vector<bool> first = faults(shape, 2);
  EXPECT_EQ(faults(shape, 2), first);
  shape.latency = std::chrono::microseconds(200);
  shape.most_in_flight = 3;
  EXPECT_EQ(faults(shape, 2), first);
  shape.seed = 6;
  EXPECT_NE(faults(shape, 2), first);
  const auto count = std::count(first.begin(), first.end(), true);
  EXPECT_GT(count, 80);
  EXPECT_LT(count, 160);
}

TEST(Shaped, AnotherTryMayFareDifferently) {
  Shape shape;
  shape.fault_share = 0.5;
  const std::vector<bool> both = faults(shape, 2);
  EXPECT_FALSE(std::equal(both.begin(), both.begin() + 200, both.begin() + 200));
}

TEST(Shaped, StalledReadsTakeLonger) {
  Shape shape;
  shape.stall_share = 1;
  shape.stall = milliseconds(60);
  EXPECT_GE(time_reads(shape, 3, 10), milliseconds(60));
}

TEST(Shaped, HungReadCountsAsAbandonedAndHoldsItsMemory) {
  Shape shape;
  std::atomic<bool> hangs = true;
  shape.hangs = [&hangs](uint32_t, unsigned) { return hangs.load(); };
  Answers answers;
  auto source = shaped_memory(shape, 1, 10, answers.callback());
  const Buffer buffer(10);
  // On a busy machine the deadline may pass before the read has begun.
  uint64_t id = 0;
  for (milliseconds wait(10); source->abandoned() == 0 && wait < kPatience; wait *= 2) {
    const SourceRead hung{++id, {0, 0, 10}, buffer.destination(), Clock::now() + wait};
    source->submit({&hung, 1});
    EXPECT_EQ(answers.of(id).fault, Fault::deadline);
  }
  EXPECT_EQ(source->abandoned(), 1);
  EXPECT_EQ(buffer.holders(), 2);  // this one and the hung read
  hangs = false;
  const Buffer other(10);
  const SourceRead second{++id, {0, 0, 10}, other.destination()};
  source->submit({&second, 1});
  EXPECT_EQ(answers.of(id).fault, Fault::none);
  source.reset();
  EXPECT_EQ(buffer.holders(), 1);
}

TEST(Shaped, NoInnerSourceNoSource) {
  EXPECT_EQ(shape_source([](Source::Answered) { return nullptr; }, {}, [](const SourceAnswer&) {}),
            nullptr);
}

TEST(FairShare, TransfersGetTheSameBandwidth) {
  FairShare share;
  const SteadyTime start = Clock::now();
  share.advance(start);
  share.set_bandwidth(1000);
  share.add(1, 1000);
  EXPECT_EQ(share.next_end(), start + std::chrono::seconds(1));
  // Half-way through, a second one takes half of what there is.
  share.advance(start + milliseconds(500));
  share.add(2, 100);
  EXPECT_EQ(share.next(), 2);
  EXPECT_EQ(share.next_end(), start + milliseconds(700));
  share.advance(start + milliseconds(700));
  share.remove(2);
  EXPECT_EQ(share.next(), 1);
  // 500 bytes until then, 100 while two shared, 400 after.
  EXPECT_NEAR(std::chrono::duration<double>(share.next_end() - start).count(), 1.1, 1e-6);
}

}  // namespace
}  // namespace foreload
