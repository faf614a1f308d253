// SPDX-License-Identifier: Apache-2.0
//
// What every source must do. A kind of source is an entry that makes one with the given objects; a
// new kind is instantiated in conformance_test.cc and passes everything here.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "answers.h"

namespace foreload {

// Where the objects of a source live, and the source. The last member goes first.
struct SourceAtWork {
  std::shared_ptr<void> place;
  std::unique_ptr<Source> source;  // null: this system does not have this kind
};

struct SourceKind {
  std::string name;
  std::function<SourceAtWork(std::shared_ptr<const TestCatalog> objects, unsigned most_in_flight,
                             Source::Answered answered)>
      make;
};

class SourceConformance : public testing::TestWithParam<SourceKind> {
 protected:
  using Clock = std::chrono::steady_clock;

  void open(TestObjects objects, unsigned most_in_flight = 64) {
    objects_ = std::make_shared<TestCatalog>(std::move(objects));
    at_work_ = GetParam().make(objects_, most_in_flight, answers_.callback());
    if (!at_work_.source) GTEST_SKIP() << GetParam().name << " is not to be had here";
  }
  void TearDown() override {
    at_work_.source.reset();
    EXPECT_EQ(answers_.repeated(), 0) << "a read was answered twice";
  }

  static TestObjects some_objects(size_t count, size_t size) {
    TestObjects objects;
    for (size_t i = 0; i < count; ++i) {
      // Different sizes, so that a mix-up shows.
      objects.push_back({"object " + std::to_string(i), test_bytes(i, size + i % 7)});
    }
    return objects;
  }
  static SourceRead read_of(uint64_t id, const Extent& extent, const Buffer& buffer,
                            SteadyTime deadline = SteadyTime::max()) {
    return {id, extent, buffer.destination(), deadline};
  }
  Extent whole(uint32_t object) const { return {object, 0, objects_->size(object)}; }
  void submit(const SourceRead& read) { source().submit({&read, 1}); }
  Source& source() { return *at_work_.source; }

  Answers answers_;
  std::shared_ptr<const TestCatalog> objects_;
  SourceAtWork at_work_;
};

#define FORELOAD_OPEN(...) \
  open(__VA_ARGS__);       \
  if (IsSkipped()) return

TEST_P(SourceConformance, ManyReadsAtOnceEachIntoItsPlace) {
  FORELOAD_OPEN(some_objects(200, 3000));
  std::vector<Buffer> buffers;
  std::vector<SourceRead> reads;
  for (uint32_t i = 0; i < 200; ++i) {
    buffers.emplace_back(objects_->size(i));
    reads.push_back(read_of(1000 + i, whole(i), buffers.back()));
  }
  source().submit(reads);
  ASSERT_TRUE(answers_.wait_for_count(200));
  EXPECT_EQ(answers_.count_of(Fault::none), 200);
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(buffers[i].text(), objects_->object(i).bytes) << i;
}

TEST_P(SourceConformance, RangesOfAnObject) {
  FORELOAD_OPEN({{"one", test_bytes(1, 100'000)}});
  const std::vector<Extent> extents{
      {0, 0, 1}, {0, 1, 4095}, {0, 4096, 8192}, {0, 99'999, 1}, {0, 50'001, 49'999}};
  std::vector<Buffer> buffers;
  for (uint64_t i = 0; i < extents.size(); ++i) {
    buffers.emplace_back(extents[i].length);
    submit(read_of(i, extents[i], buffers.back()));
  }
  for (uint64_t i = 0; i < extents.size(); ++i) {
    EXPECT_EQ(answers_.of(i).fault, Fault::none);
    EXPECT_EQ(buffers[i].text(),
              objects_->object(0).bytes.substr(extents[i].offset, extents[i].length));
  }
}

// More of them than the system takes at once, and one that wants nothing.
TEST_P(SourceConformance, SeveralReceiversOfOneExtent) {
  FORELOAD_OPEN({{"one", test_bytes(1, 20'000)}});
  const std::vector<size_t> lengths{1, 4095, 0, 5000};
  std::vector<Buffer> buffers;
  for (const size_t length : lengths) buffers.emplace_back(length);
  for (size_t i = 0; i < 1500; ++i) buffers.emplace_back(7);
  std::vector<Destination> several;
  uint64_t all = 0;
  for (const Buffer& buffer : buffers) {
    several.push_back(buffer.destination());
    several.back().length = buffer.text().size();
    all += buffer.text().size();
  }
  submit({1, {0, 100, all}, Destinations(std::move(several))});
  EXPECT_EQ(answers_.of(1).fault, Fault::none);
  std::string got;
  for (const Buffer& buffer : buffers) got += buffer.text();
  EXPECT_EQ(got, objects_->object(0).bytes.substr(100, all));
  EXPECT_EQ(buffers[0].holders(), 1);
}

TEST_P(SourceConformance, NothingOfAnObject) {
  FORELOAD_OPEN({{"full", "abc"}, {"empty", ""}});
  submit({1, {0, 1, 0}});
  submit({2, {0, 3, 0}});
  submit({3, {1, 0, 0}});
  for (const uint64_t id : {1, 2, 3}) EXPECT_EQ(answers_.of(id).fault, Fault::none) << id;
}

TEST_P(SourceConformance, PastTheEndIsPermanent) {
  FORELOAD_OPEN({{"short", test_bytes(1, 100)}});
  const Buffer buffer(200);
  submit(read_of(1, {0, 0, 101}, buffer));
  submit(read_of(2, {0, 100, 1}, buffer));
  submit(read_of(3, {0, 1000, 1}, buffer));
  submit(read_of(4, {0, UINT64_MAX, 2}, buffer));
  for (const uint64_t id : {1, 2, 3, 4}) {
    const SourceAnswer answer = answers_.of(id);
    EXPECT_EQ(answer.fault, Fault::permanent) << id;
    EXPECT_FALSE(answer.what.empty());
  }
}

TEST_P(SourceConformance, NoSuchObjectIsPermanent) {
  FORELOAD_OPEN({{"gone", "x", false, true}, {"here", "x"}});
  const Buffer buffer(1);
  submit(read_of(1, {0, 0, 1}, buffer));
  submit(read_of(2, {1, 0, 1}, buffer));
  EXPECT_EQ(answers_.of(1).fault, Fault::permanent);
  EXPECT_EQ(answers_.of(2).fault, Fault::none);
}

TEST_P(SourceConformance, CancelledWhileItHangs) {
  FORELOAD_OPEN({{"hangs", "x", true}});
  const Buffer buffer(1);
  submit(read_of(7, {0, 0, 1}, buffer));
  source().cancel(7);
  EXPECT_EQ(answers_.of(7).fault, Fault::cancelled);
  EXPECT_EQ(buffer.text(), "#");
}

TEST_P(SourceConformance, CancelledWhileItWaits) {
  FORELOAD_OPEN({{"hangs", "x", true}, {"good", "x"}}, 1);
  const Buffer buffer(1);
  submit(read_of(1, {0, 0, 1}, buffer));
  submit(read_of(2, {1, 0, 1}, buffer));
  source().cancel(2);
  EXPECT_EQ(answers_.of(2).fault, Fault::cancelled);
}

TEST_P(SourceConformance, CancelAfterTheAnswerDoesNothing) {
  FORELOAD_OPEN({{"good", "x"}});
  const Buffer buffer(1);
  submit(read_of(1, {0, 0, 1}, buffer));
  EXPECT_EQ(answers_.of(1).fault, Fault::none);
  source().cancel(1);
  source().cancel(99);
  submit(read_of(2, {0, 0, 1}, buffer));
  EXPECT_EQ(answers_.of(2).fault, Fault::none);
}

TEST_P(SourceConformance, DeadlineIsKept) {
  FORELOAD_OPEN({{"hangs", "x", true}, {"good", "x"}});
  const Buffer hanging(1);
  const Buffer good(1);
  const SteadyTime deadline = Clock::now() + std::chrono::milliseconds(100);
  submit(read_of(1, {0, 0, 1}, hanging, deadline));
  submit(read_of(2, {1, 0, 1}, good, deadline + kPatience));
  EXPECT_EQ(answers_.of(2).fault, Fault::none);
  EXPECT_EQ(answers_.of(1).fault, Fault::deadline);
  EXPECT_GE(answers_.last_time(), deadline);
  // About a millisecond late where the machine is idle.
  EXPECT_LT(answers_.last_time(), deadline + std::chrono::seconds(2));
  EXPECT_EQ(hanging.text(), "#");
}

TEST_P(SourceConformance, DeadlineOfAReadThatWaits) {
  FORELOAD_OPEN({{"hangs", "x", true}, {"good", "x"}}, 1);
  const Buffer buffer(1);
  submit(read_of(1, {0, 0, 1}, buffer));
  submit(read_of(2, {1, 0, 1}, buffer, Clock::now()));
  // Or read, by a source that had a hand free.
  const Fault fault = answers_.of(2).fault;
  EXPECT_TRUE(fault == Fault::deadline || fault == Fault::none) << name_of(fault);
}

// Even while the system still has the read that was given up.
TEST_P(SourceConformance, IdsMayBeUsedAgainAfterTheAnswer) {
  FORELOAD_OPEN({{"hangs", "x", true}, {"good", "x"}});
  for (int round = 0; round < 5; ++round) {
    submit(read_of(1, {0, 0, 1}, Buffer(1)));
    source().cancel(1);
    EXPECT_EQ(answers_.of(1).fault, Fault::cancelled);
    answers_.forget(1);
  }
  submit(read_of(1, {1, 0, 1}, Buffer(1)));
  EXPECT_EQ(answers_.of(1).fault, Fault::none);
}

TEST_P(SourceConformance, EndAnswersWhatIsInFlight) {
  TestObjects objects = some_objects(300, 10'000);
  for (uint32_t i = 0; i < 8; ++i) {
    objects.push_back({"hangs" + std::to_string(i), "x", true});
  }
  FORELOAD_OPEN(std::move(objects));
  std::vector<Buffer> buffers;
  std::vector<SourceRead> reads;
  for (uint32_t i = 308; i-- > 0;) {
    buffers.emplace_back(objects_->size(i));
    reads.push_back(read_of(i, whole(i), buffers.back()));
  }
  source().submit(reads);
  const SteadyTime start = Clock::now();
  at_work_.source.reset();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(answers_.count(), 308);
  EXPECT_EQ(answers_.count_of(Fault::none) + answers_.count_of(Fault::cancelled), 308);
  EXPECT_GE(answers_.count_of(Fault::cancelled), 8);
}

TEST_P(SourceConformance, MemoryIsLetGoBeforeAGoodAnswer) {
  FORELOAD_OPEN({{"good", "x"}});
  const Buffer buffer(1);
  submit(read_of(1, {0, 0, 1}, buffer));
  EXPECT_EQ(answers_.of(1).fault, Fault::none);
  EXPECT_EQ(buffer.holders(), 1);
}

TEST_P(SourceConformance, TenThousandSmallReads) {
  constexpr uint64_t kReads = 10'000;
  FORELOAD_OPEN(some_objects(50, 64));
  std::vector<Buffer> buffers;
  std::vector<SourceRead> reads;
  for (uint64_t i = 0; i < kReads; ++i) {
    const auto object = static_cast<uint32_t>(i % 50);
    buffers.emplace_back(objects_->size(object));
    reads.push_back(read_of(i, whole(object), buffers.back()));
  }
  source().submit(reads);
  ASSERT_TRUE(answers_.wait_for_count(kReads));
  EXPECT_EQ(answers_.count_of(Fault::none), kReads);
  for (uint64_t i = 0; i < kReads; ++i) {
    ASSERT_EQ(buffers[i].text(), objects_->object(static_cast<uint32_t>(i % 50)).bytes) << i;
  }
}

TEST_P(SourceConformance, ReadsStartInTheOrderGiven) {
  FORELOAD_OPEN(some_objects(100, 100), 1);
  std::vector<Buffer> buffers;
  std::vector<SourceRead> reads;
  for (uint32_t i = 0; i < 100; ++i) {
    buffers.emplace_back(objects_->size(i));
    reads.push_back(read_of(i, whole(i), buffers.back()));
  }
  source().submit(std::span(reads).first(60));
  source().submit(std::span(reads).subspan(60));
  ASSERT_TRUE(answers_.wait_for_count(100));
  // One at a time, so the order of answers is that of the starts.
  const std::vector<uint64_t> order = answers_.order();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(SourceConformance, SeveralThreadsSubmitAndCancel) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 500;
  FORELOAD_OPEN(some_objects(20, 500));
  std::vector<Buffer> buffers(kThreads * kEach, Buffer(0));
  std::latch all_there(kThreads);
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        all_there.arrive_and_wait();
        for (uint64_t id = t * kEach; id < (t + 1) * kEach; ++id) {
          const auto object = static_cast<uint32_t>(id % 20);
          buffers[id] = Buffer(objects_->size(object));
          submit(read_of(id, whole(object), buffers[id]));
          if (id % 10 == 0) source().cancel(id);
        }
      });
    }
  }
  ASSERT_TRUE(answers_.wait_for_count(kThreads * kEach));
  for (uint64_t id = 0; id < kThreads * kEach; ++id) {
    const Fault fault = answers_.of(id).fault;
    if (id % 10 == 0 && fault == Fault::cancelled) continue;
    ASSERT_EQ(fault, Fault::none) << id;
    EXPECT_EQ(buffers[id].text(), objects_->object(static_cast<uint32_t>(id % 20)).bytes);
  }
}

TEST_P(SourceConformance, DescribesItself) {
  FORELOAD_OPEN({{"good", "x"}});
  EXPECT_FALSE(source().describe().empty());
  EXPECT_EQ(source().abandoned(), 0);
}

}  // namespace foreload
