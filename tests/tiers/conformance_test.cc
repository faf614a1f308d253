// SPDX-License-Identifier: Apache-2.0
//
// Every kind of tier against what all of them promise.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <latch>
#include <map>
#include <thread>

#include "disk_kinds.h"
#include "memory_kinds.h"
#include "plain_files_kind.h"
#include "tier_conformance.h"

namespace foreload {

#define FORELOAD_OPEN_TIER(...) \
  open(__VA_ARGS__);            \
  if (IsSkipped()) return

TEST_P(TierConformance, GivesBackWhatWasPut) {
  FORELOAD_OPEN_TIER();
  const std::vector<size_t> sizes{0, 1, 100, 4096, 65'536, 65'537, 500'001};
  uint64_t payload = 0;
  for (const size_t size : sizes) {
    const CopyKey key = key_of(size);
    EXPECT_EQ(user().get(key, size), TierEnd::miss);
    EXPECT_FALSE(tier().holds(key));
    ASSERT_EQ(user().put(key, size), TierEnd::done) << size;
    payload += size;
    EXPECT_TRUE(tier().holds(key));
    EXPECT_EQ(tier().payload(), payload);
  }
  for (const size_t size : sizes) EXPECT_EQ(user().get(key_of(size), size), TierEnd::done) << size;
}

TEST_P(TierConformance, GivesRangesOfACopy) {
  FORELOAD_OPEN_TIER();
  for (const uint64_t size : {1000u, 70'000u, 400'000u}) {
    const CopyKey key = key_of(size);
    ASSERT_EQ(user().put(key, size), TierEnd::done);
    for (const auto& [offset, length] : std::vector<std::pair<uint64_t, uint64_t>>{
             {0, 1}, {0, 999}, {1, 999}, {500, 0}, {size - 1, 1}, {size, 0}, {size / 2, size / 3}})
      EXPECT_EQ(user().get(key, size, offset, length), TierEnd::done) << offset << "+" << length;
    for (uint64_t i = 0; i < 50; ++i) {
      const uint64_t offset = mix64(i + size) % size;
      const uint64_t length = mix64(i + size + 1000) % (size - offset);
      EXPECT_EQ(user().get(key, size, offset, length), TierEnd::done) << offset << "+" << length;
    }
    EXPECT_EQ(user().get(key, size, 1, size), TierEnd::miss) << "past the end";
    EXPECT_EQ(user().get(key, size, UINT64_MAX, 2), TierEnd::miss) << "past the end";
    EXPECT_EQ(user().get(key, size), TierEnd::done);
  }
}

TEST_P(TierConformance, AnotherSizeIsAMiss) {
  FORELOAD_OPEN_TIER();
  ASSERT_EQ(user().put(key_of(1), 5000), TierEnd::done);
  EXPECT_EQ(user().get(key_of(1), 4999), TierEnd::miss);
  EXPECT_EQ(user().get(key_of(1), 5001), TierEnd::miss);
  EXPECT_EQ(user().get(key_of(1), 5001, 0, 10), TierEnd::miss);
  EXPECT_EQ(user().get(key_of(1), 5000), TierEnd::done) << "the copy stays";
}

TEST_P(TierConformance, ThePutOfWhatIsThereIsFull) {
  FORELOAD_OPEN_TIER();
  ASSERT_EQ(user().put(key_of(1), 5000), TierEnd::done);
  EXPECT_EQ(user().put(key_of(1), 5000), TierEnd::full);
  EXPECT_EQ(user().put(key_of(1), 100), TierEnd::full) << "of another size, too";
  EXPECT_EQ(user().get(key_of(1), 5000), TierEnd::done);
  EXPECT_EQ(tier().payload(), 5000u);
}

TEST_P(TierConformance, FormsAreCopiesOfTheirOwn) {
  FORELOAD_OPEN_TIER();
  for (const FormId form : {0u, 1u, 77u})
    ASSERT_EQ(user().put(key_of(1, form), 1000 + form), TierEnd::done);
  tier().drop(key_of(1, 1));
  EXPECT_EQ(user().get(key_of(1, 0), 1000), TierEnd::done);
  EXPECT_EQ(user().get(key_of(1, 1), 1001), TierEnd::miss);
  EXPECT_EQ(user().get(key_of(1, 77), 1077), TierEnd::done);
}

TEST_P(TierConformance, WhatIsDroppedIsGoneAndItsRoomIsFree) {
  FORELOAD_OPEN_TIER();
  constexpr size_t kSize = 100'000;
  const uint64_t count = fill_up(user(), kSize);
  ASSERT_GT(count, 10u);
  for (uint64_t i = 0; i < count; ++i) tier().drop(key_of(i));
  tier().drop(key_of(0));
  tier().drop(key_of(count + 5));
  EXPECT_EQ(tier().payload(), 0u);
  EXPECT_TRUE(tier().found().empty());
  EXPECT_EQ(user().get(key_of(0), kSize), TierEnd::miss);
  EXPECT_EQ(fill_up(user(), kSize), count);
}

TEST_P(TierConformance, SaysWhatIsThere) {
  FORELOAD_OPEN_TIER();
  std::map<uint64_t, uint64_t> sizes;
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(user().put(key_of(i, i % 2), 100 * i), TierEnd::done);
    if (i % 5 != 0) sizes[key_of(i).content.low] = 100 * i;
  }
  for (uint64_t i = 0; i < 20; i += 5) tier().drop(key_of(i, i % 2));
  std::map<uint64_t, uint64_t> found;
  for (const FoundCopy& copy : tier().found()) {
    EXPECT_TRUE(tier().holds(copy.key));
    EXPECT_TRUE(found.emplace(copy.key.content.low, copy.size).second) << "named twice";
  }
  EXPECT_EQ(found, sizes);
}

TEST_P(TierConformance, ADropForgetsWhatIsBeingPut) {
  FORELOAD_OPEN_TIER();
  ASSERT_EQ(user().put(key_of(0), 100), TierEnd::done);
  at_work_.hold(true);
  const uint64_t put = user().start_put(key_of(1), 5000);
  tier().drop(key_of(1));
  at_work_.hold(false);
  user().end_of(put);
  EXPECT_FALSE(tier().holds(key_of(1)));
  EXPECT_EQ(user().get(key_of(1), 5000), TierEnd::miss);
  EXPECT_EQ(tier().payload(), 100u);
  EXPECT_EQ(user().put(key_of(1), 5000), TierEnd::done) << "one that comes afterwards counts";
}

TEST_P(TierConformance, TooLargeIsFullAndCostsNobodyHisCopy) {
  FORELOAD_OPEN_TIER();
  ASSERT_EQ(user().put(key_of(0), 1000), TierEnd::done);
  const size_t too_large = std::max(tier().capacity(1 << 20) * 2, kBudget * 2);
  EXPECT_EQ(user().put(key_of(1), too_large), TierEnd::full);
  EXPECT_EQ(user().get(key_of(0), 1000), TierEnd::done);
}

// Several borrowers.

TEST_P(TierConformance, WhatNobodyWantsIsThereUntilRoomIsNeeded) {
  FORELOAD_OPEN_TIER();
  constexpr size_t kSize = 100'000;
  const uint64_t count = fill_up(user(), kSize);
  ASSERT_EQ(held(count).size(), count) << "before it says anything it wants all";
  user().keep([](const CopyKey& key) {
    for (uint64_t i = 0; i < 1000; i += 2)
      if (key == key_of(i)) return true;
    return false;
  });
  EXPECT_EQ(held(count).size(), count);
  EXPECT_EQ(user().get(key_of(1), kSize), TierEnd::done);
  const uint64_t more = fill_up(user(), kSize, 1000);
  EXPECT_EQ(more, count / 2) << "as much as was not wanted";
  for (uint64_t i = 0; i < count; ++i)
    EXPECT_EQ(user().get(key_of(i), kSize), i % 2 == 0 ? TierEnd::done : TierEnd::miss) << i;
  for (uint64_t i = 0; i < more; ++i)
    EXPECT_EQ(user().get(key_of(1000 + i), kSize), TierEnd::done) << "what it puts it wants";
}

TEST_P(TierConformance, WhatOneBorrowerWantsIsKeptForHim) {
  FORELOAD_OPEN_TIER();
  constexpr size_t kSize = 200'000;
  TestBorrower& first = user();
  TestBorrower& second = one_more_user();
  const uint64_t count = fill_up(first, kSize);
  ASSERT_GE(count, 8u);
  const auto only = [](uint64_t number) {
    return [number](const CopyKey& key) { return key == key_of(number); };
  };
  first.keep(only(0));
  EXPECT_EQ(first.put(key_of(100), kSize), TierEnd::full) << "the second wants all";
  second.keep(only(1));
  EXPECT_EQ(fill_up(first, kSize, 100), count - 2);
  EXPECT_TRUE(tier().holds(key_of(0)));
  EXPECT_TRUE(tier().holds(key_of(1)));
  second.give_back();
  EXPECT_TRUE(tier().holds(key_of(1))) << "until its room is needed";
  EXPECT_EQ(fill_up(first, kSize, 200), 1u);
  EXPECT_TRUE(tier().holds(key_of(0)));
  EXPECT_FALSE(tier().holds(key_of(1)));
  TestBorrower& third = one_more_user();
  first.keep([](const CopyKey&) { return false; });
  EXPECT_EQ(third.put(key_of(300), kSize), TierEnd::full) << "who is new wants all";
  third.keep([](const CopyKey&) { return false; });
  EXPECT_EQ(fill_up(third, kSize, 300), count);
}

TEST_P(TierConformance, WhatSomebodyElseHasPutCanBeWanted) {
  FORELOAD_OPEN_TIER();
  constexpr size_t kSize = 200'000;
  TestBorrower& other = one_more_user();
  for (TestBorrower* each : {&user(), &other}) each->keep([](const CopyKey&) { return false; });
  const uint64_t count = fill_up(other, kSize);
  ASSERT_GE(count, 8u);
  user().want(key_of(3));
  EXPECT_EQ(user().put(key_of(4), kSize), TierEnd::full) << "it is there";
  user().want(key_of(1000));  // is not here
  other.give_back();
  EXPECT_EQ(fill_up(user(), kSize, 100), count - 2);
  EXPECT_EQ(user().get(key_of(3), kSize), TierEnd::done);
  EXPECT_EQ(user().get(key_of(4), kSize), TierEnd::done);
}

TEST_P(TierConformance, ABorrowerMayChangeItsMind) {
  FORELOAD_OPEN_TIER();
  constexpr size_t kSize = 200'000;
  const uint64_t count = fill_up(user(), kSize);
  user().keep([](const CopyKey&) { return false; });
  user().keep([](const CopyKey&) { return true; });
  EXPECT_EQ(user().put(key_of(500), kSize), TierEnd::full);
  EXPECT_EQ(held(count).size(), count);
}

TEST_P(TierConformance, APinnedCopyIsNotReclaimed) {
  FORELOAD_OPEN_TIER();
  constexpr size_t kSize = 200'000;
  EXPECT_EQ(tier().pin(key_of(0)), nullptr);
  const uint64_t count = fill_up(user(), kSize);
  auto pin = tier().pin(key_of(3));
  auto same = tier().pin(key_of(3));
  ASSERT_NE(pin, nullptr);
  user().keep([](const CopyKey&) { return false; });
  EXPECT_EQ(fill_up(user(), kSize, 100), count - 1);
  EXPECT_EQ(user().get(key_of(3), kSize), TierEnd::done);
  pin.reset();
  EXPECT_EQ(user().put(key_of(99), kSize), TierEnd::full) << "there is another pin";
  same.reset();
  EXPECT_TRUE(tier().holds(key_of(3)));
  EXPECT_EQ(user().put(key_of(99), kSize), TierEnd::done);
  EXPECT_FALSE(tier().holds(key_of(3)));
}

TEST_P(TierConformance, APinnedCopyIsDroppedWithItsLastPin) {
  FORELOAD_OPEN_TIER();
  ASSERT_EQ(user().put(key_of(3), 1000), TierEnd::done);
  auto pin = tier().pin(key_of(3));
  auto same = tier().pin(key_of(3));
  tier().drop(key_of(3));
  pin.reset();
  EXPECT_EQ(user().get(key_of(3), 1000), TierEnd::done);
  same.reset();
  EXPECT_FALSE(tier().holds(key_of(3)));
  EXPECT_EQ(tier().payload(), 0u);
  EXPECT_EQ(user().put(key_of(3), 1000), TierEnd::done);
}

TEST_P(TierConformance, APinMayOutliveTheTier) {
  FORELOAD_OPEN_TIER();
  ASSERT_EQ(user().put(key_of(3), 1000), TierEnd::done);
  const auto pin = tier().pin(key_of(3));
  at_work_.tier.reset();
  EXPECT_NE(pin, nullptr);
}

// Answers.

TEST_P(TierConformance, CancelledBeforeItBegins) {
  FORELOAD_OPEN_TIER();
  for (uint64_t i = 0; i < 40; ++i) ASSERT_EQ(user().put(key_of(i), 3000), TierEnd::done);
  at_work_.hold(true);
  std::vector<Get> gets;
  for (uint64_t i = 0; i < 40; ++i) gets.push_back(user().get_of(key_of(i), 3000, 0, 3000));
  std::vector<uint64_t> ids;
  for (const Get& get : gets) ids.push_back(get.id);
  user().submit(gets, Traffic::training);
  const uint64_t put = user().start_put(key_of(100), 3000);
  for (size_t i = 0; i < 40; i += 3) user().cancel(ids[i]);
  user().cancel(put);
  user().cancel(999'999);
  at_work_.hold(false);
  EXPECT_EQ(user().end_of(put), TierEnd::cancelled);
  EXPECT_FALSE(tier().holds(key_of(100)));
  for (uint64_t i = 0; i < 40; ++i)
    EXPECT_EQ(user().checked(ids[i], key_of(i), 3000),
              i % 3 == 0 ? TierEnd::cancelled : TierEnd::done);
  user().cancel(ids[1]);  // after its answer: nothing
  EXPECT_EQ(user().put(key_of(100), 3000), TierEnd::done);
}

// Ids are a borrower's own.
TEST_P(TierConformance, CancelIsForOneBorrower) {
  FORELOAD_OPEN_TIER();
  TestBorrower& first = user();
  TestBorrower& second = one_more_user();
  at_work_.hold(true);
  const uint64_t one = first.start_put(key_of(1), 3000);
  const uint64_t two = second.start_put(key_of(2), 3000);
  ASSERT_EQ(one, two);
  first.cancel(one);
  at_work_.hold(false);
  EXPECT_EQ(first.end_of(one), TierEnd::cancelled);
  EXPECT_EQ(second.end_of(two), TierEnd::done);
}

TEST_P(TierConformance, WhoGaveItselfBackGetsNoAnswers) {
  FORELOAD_OPEN_TIER();
  TestBorrower& leaver = user();
  TestBorrower& stayer = one_more_user();
  ASSERT_EQ(stayer.put(key_of(0), 3000), TierEnd::done);
  at_work_.hold(true);
  for (int i = 0; i < 50; ++i) leaver.start_get(key_of(0), 3000);
  const uint64_t put = leaver.start_put(key_of(1), 3000);
  const uint64_t other = stayer.start_get(key_of(0), 3000);
  std::thread release;
  // Requests that have begun may have to end first.
  release = std::thread([&] { at_work_.hold(false); });
  leaver.give_back();
  const size_t answers = leaver.count();
  EXPECT_EQ(answers, 51u) << "what it asked for is answered before";
  release.join();
  EXPECT_EQ(stayer.checked(other, key_of(0), 3000), TierEnd::done);
  EXPECT_EQ(stayer.get(key_of(0), 3000), TierEnd::done);
  EXPECT_EQ(leaver.count(), answers);
  EXPECT_EQ(tier().holds(key_of(1)), leaver.end_of(put) == TierEnd::done);
}

TEST_P(TierConformance, ManyAtOnceEachIntoItsPlace) {
  FORELOAD_OPEN_TIER();
  for (uint64_t i = 0; i < 100; ++i) ASSERT_EQ(user().put(key_of(i), 3000 + i), TierEnd::done);
  std::vector<Get> gets;
  for (uint64_t i = 0; i < 1000; ++i)
    gets.push_back(user().get_of(key_of(i % 100), 3000 + i % 100, 0, 3000 + i % 100));
  const uint64_t first = gets.front().id;
  user().submit(gets, Traffic::training);
  for (uint64_t i = 0; i < 1000; ++i)
    ASSERT_EQ(user().checked(first + i, key_of(i % 100), 3000 + i % 100), TierEnd::done) << i;
}

// Of one class, with a device that does one thing at a time.
TEST_P(TierConformance, BeginsInTheOrderAsked) {
  FORELOAD_OPEN_TIER(1);
  ASSERT_EQ(user().put(key_of(0), 3000), TierEnd::done);
  at_work_.hold(true);
  for (int i = 0; i < 100; ++i) user().start_get(key_of(0), 3000);
  at_work_.hold(false);
  ASSERT_TRUE(user().wait_for_count(101));
  const std::vector<uint64_t> order = user().order();
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST_P(TierConformance, AnAnswerMayAskForMore) {
  FORELOAD_OPEN_TIER();
  constexpr uint64_t kRounds = 100;
  ASSERT_EQ(user().put(key_of(0), 3000), TierEnd::done);
  const auto memory = std::make_shared<Bytes>(3000);
  std::atomic<uint64_t> answers{0};
  std::atomic<bool> wrong{false};
  std::latch over(1);
  Tier& asked = tier();
  std::atomic<Tier::Borrower> me{0};
  me = asked.lend([&](std::span<const TierAnswer> given) {
    for (const TierAnswer& answer : given) {
      ++answers;
      if (answer.end != TierEnd::done) wrong = true;
      if (answer.id == kRounds) return over.count_down();
      asked.cancel(me, 12'345);
      asked.drop(key_of(7));
      asked.pin(key_of(0));
      Get get{answer.id + 1, key_of(0), 3000, 0, *memory, memory};
      asked.submit(me, std::span(&get, 1), Traffic::training);
    }
  });
  Get get{1, key_of(0), 3000, 0, *memory, memory};
  asked.submit(me, std::span(&get, 1), Traffic::training);
  over.wait();
  asked.give_back(me);
  EXPECT_EQ(answers, kRounds);
  EXPECT_FALSE(wrong);
}

TEST_P(TierConformance, MemoryIsLetGo) {
  FORELOAD_OPEN_TIER();
  const auto memory = std::make_shared<Bytes>(bytes_of(key_of(0), 3000));
  std::latch over(2);
  const Tier::Borrower me = tier().lend([&](std::span<const TierAnswer> given) {
    over.count_down(static_cast<std::ptrdiff_t>(given.size()));
  });
  Put put{1, key_of(0), *memory, checksum64(*memory), memory};
  Get get{2, key_of(1), 3000, 0, *memory, memory};
  tier().submit(me, std::span(&put, 1), Traffic::fill);
  tier().submit(me, std::span(&get, 1), Traffic::training);
  put.keeper.reset();
  get.keeper.reset();
  over.wait();
  tier().give_back(me);
  EXPECT_EQ(memory.use_count(), 1);
}

TEST_P(TierConformance, EndAnswersWhatIsUnderWay) {
  FORELOAD_OPEN_TIER();
  for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(user().put(key_of(i), 3000), TierEnd::done);
  at_work_.hold(true);
  for (uint64_t i = 0; i < 50; ++i) user().start_get(key_of(i), 3000);
  for (uint64_t i = 0; i < 10; ++i) user().start_put(key_of(100 + i), 3000);
  at_work_.tier.reset();
  EXPECT_EQ(user().count(), 110u);
  at_work_.hold(false);
  at_work_ = {};
  EXPECT_EQ(user().count(), 110u) << "no answer comes after the end";
  EXPECT_GE(user().count_of(TierEnd::cancelled), 1u);
}

TEST_P(TierConformance, MayEndWhileItWorks) {
  for (uint64_t round = 0; round < 5; ++round) {
    FORELOAD_OPEN_TIER();
    TestBorrower user(tier());
    for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(user.put(key_of(i), 30'000), TierEnd::done);
    for (uint64_t i = 0; i < 200; ++i) user.start_get(key_of(i % 20), 30'000);
    at_work_.tier.reset();
    EXPECT_EQ(user.count(), 220u);
    EXPECT_EQ(user.repeated(), 0u);
    at_work_ = {};
  }
}

// Traffic. Everything waits before anything begins, so the order of answers is that of the shares.

class TierTraffic : public TierConformance {
 protected:
  static constexpr uint64_t kEach = 320;
  void ask(uint64_t count, Traffic traffic) {
    for (uint64_t i = 0; i < count; ++i)
      class_of_[user().start_get(key_of(i % 64), 4000, traffic)] = traffic;
  }
  void start() {
    for (uint64_t i = 0; i < 64; ++i) ASSERT_EQ(user().put(key_of(i), 4000), TierEnd::done);
    before_ = user().order().size();
    at_work_.hold(true);
  }
  // The classes of all answers, in order.
  std::vector<Traffic> finish() {
    at_work_.hold(false);
    EXPECT_TRUE(user().wait_for_count(before_ + class_of_.size()));
    std::vector<Traffic> classes;
    const std::vector<uint64_t> order = user().order();
    for (size_t i = before_; i < order.size(); ++i) classes.push_back(class_of_.at(order[i]));
    return classes;
  }

  std::map<uint64_t, Traffic> class_of_;
  size_t before_ = 0;
};

TEST_P(TierTraffic, AFloodOfFillDoesNotStarveTraining) {
  FORELOAD_OPEN_TIER(1);
  start();
  ask(kEach, Traffic::fill);
  ask(kEach / 4, Traffic::training);
  const std::vector<Traffic> order = finish();
  const auto last = std::find(order.rbegin(), order.rend(), Traffic::training).base();
  EXPECT_LE(std::count(order.begin(), last, Traffic::fill), static_cast<int64_t>(kEach / 4));
}

TEST_P(TierTraffic, TrainingStarvesNobody) {
  FORELOAD_OPEN_TIER(1);
  start();
  ask(kEach, Traffic::training);
  for (const Traffic traffic : {Traffic::peer, Traffic::fill, Traffic::drain, Traffic::checkpoint})
    ask(kEach / 8, traffic);
  const std::vector<Traffic> order = finish();
  for (const Traffic traffic :
       {Traffic::peer, Traffic::fill, Traffic::drain, Traffic::checkpoint}) {
    const auto first = std::find(order.begin(), order.end(), traffic);
    EXPECT_LE(std::count(order.begin(), first, Traffic::training), static_cast<int64_t>(kEach / 2))
        << static_cast<int>(traffic);
  }
}

TEST_P(TierTraffic, AClassAloneHasItAll) {
  FORELOAD_OPEN_TIER(1);
  start();
  ask(kEach, Traffic::checkpoint);
  EXPECT_EQ(finish().size(), kEach);
}

// Room.

// Whatever was there before, and however sizes change: as much as was promised fits.
TEST_P(TierConformance, CapacityFitsAndSurvivesChurn) {
  for (const uint64_t mean : {4096u, 16'384u, 100'000u}) {
    FORELOAD_OPEN_TIER();
    TestBorrower user(tier());
    const uint64_t capacity = tier().capacity(mean);
    ASSERT_GE(capacity, kBudget / 2);
    const uint64_t most = capacity / mean;
    std::map<uint64_t, uint64_t> sizes;  // by number
    uint64_t total = 0;
    uint64_t next = 0;
    const auto put_some = [&] {
      while (true) {
        const uint64_t size = mean / 2 + mix64(next + mean) % mean;
        if (total + size > capacity || sizes.size() == most) break;
        ASSERT_EQ(user.put(key_of(next), size), TierEnd::done)
            << "copy " << next << " of " << size << " bytes, " << total << " of " << capacity;
        sizes[next++] = size;
        total += size;
      }
    };
    put_some();
    EXPECT_GE(total, capacity - capacity / 8);
    for (uint64_t round = 0; round < 10; ++round) {
      const uint64_t drops = 1 + mix64(round) % (most / 2);
      for (uint64_t i = 0; i < drops && !sizes.empty(); ++i) {
        auto victim = sizes.lower_bound(mix64(round * 10'000 + i) % next);
        if (victim == sizes.end()) victim = sizes.begin();
        tier().drop(key_of(victim->first));
        total -= victim->second;
        sizes.erase(victim);
      }
      put_some();
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(tier().payload(), total);
    for (const auto& [number, size] : sizes)
      ASSERT_EQ(user.get(key_of(number), size), TierEnd::done) << number;
    at_work_ = {};
  }
}

// The same with room made by reclaiming instead of dropping.
TEST_P(TierConformance, ReclaimsUnderChurn) {
  FORELOAD_OPEN_TIER();
  constexpr uint64_t kMean = 16'384;
  std::set<uint64_t> wanted;
  std::map<uint64_t, uint64_t> numbers;  // by content
  const uint64_t most = tier().capacity(kMean) / kMean;
  const auto size_of = [](uint64_t number) { return kMean / 2 + mix64(number) % kMean; };
  for (uint64_t next = 0; next < most * 3; ++next) {
    numbers[key_of(next).content.low] = next;
    // The latest quarter is wanted.
    if (next % 64 == 0) {
      while (!wanted.empty() && *wanted.begin() + most / 4 < next) wanted.erase(wanted.begin());
      user().keep([&](const CopyKey& key) { return wanted.contains(numbers[key.content.low]); });
    }
    ASSERT_EQ(user().put(key_of(next), size_of(next)), TierEnd::done) << next;
    wanted.insert(next);
  }
  for (const uint64_t number : wanted)
    EXPECT_EQ(user().get(key_of(number), size_of(number)), TierEnd::done) << number;
}

// Damage.

TEST_P(TierConformance, ADamagedCopyIsCorruptThenAMiss) {
  FORELOAD_OPEN_TIER();
  for (const uint64_t size : {100u, 10'000u, 300'000u}) {
    const CopyKey key = key_of(size);
    ASSERT_EQ(user().put(key, size), TierEnd::done);
    at_work_.damage(key, size - 7);
    EXPECT_EQ(user().get(key, size), TierEnd::corrupt);
    EXPECT_FALSE(tier().holds(key));
    EXPECT_EQ(user().get(key, size), TierEnd::miss);
    EXPECT_EQ(tier().payload(), 0u);
    ASSERT_EQ(user().put(key, size), TierEnd::done);
    EXPECT_EQ(user().get(key, size), TierEnd::done);
    tier().drop(key);
  }
}

TEST_P(TierConformance, ADamagedRangeIsCorruptThenAMiss) {
  FORELOAD_OPEN_TIER();
  for (const uint64_t size : {10'000u, 300'000u}) {
    const CopyKey key = key_of(size);
    ASSERT_EQ(user().put(key, size), TierEnd::done);
    ASSERT_EQ(user().get(key, size, size / 2, 100), TierEnd::done);
    at_work_.damage(key, size / 2 + 50);
    EXPECT_EQ(user().get(key, size, size / 2, 100), TierEnd::corrupt);
    EXPECT_EQ(user().get(key, size, size / 2, 100), TierEnd::miss);
    EXPECT_FALSE(tier().holds(key));
  }
}

// No wrong byte, nothing without an answer, and a word about it where puts fail.
TEST_P(TierConformance, GoesOnWithoutItsDevice) {
  FORELOAD_OPEN_TIER();
  if (!at_work_.lose) return;
  constexpr size_t kSize = 100'000;
  for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(user().put(key_of(i), kSize), TierEnd::done);
  at_work_.lose();
  const auto get = [&](uint64_t number) {
    const uint64_t id = user().start_get(key_of(number), kSize);
    const TierEnd right = user().checked(id, key_of(number), kSize);
    EXPECT_EQ(user().end_of(id), right) << "wrong bytes of copy " << number;
    return right;
  };
  for (uint64_t i = 0; i < 20; ++i) EXPECT_NE(get(i), TierEnd::done) << i;
  const uint64_t put = fill_up(user(), kSize, 100);
  for (uint64_t i = 100; i < 100 + put; ++i) get(i);
  EXPECT_TRUE(tier().dead());
  EXPECT_EQ(user().put(key_of(500), kSize), TierEnd::failed);
  EXPECT_NE(get(500), TierEnd::done);
  for (uint64_t i = 0; i < 20; ++i) tier().drop(key_of(i));
  EXPECT_EQ(tier().pin(key_of(0)), nullptr);
}

// Random worlds.

// One thread that waits for every answer, beside a model that knows them all.
TEST_P(TierConformance, AgreesWithAModel) {
  FORELOAD_OPEN_TIER();
  constexpr uint64_t kKeys = 30;
  std::map<uint64_t, uint64_t> model;  // number -> size
  std::map<uint64_t, std::shared_ptr<const void>> pins;
  std::set<uint64_t> doomed;  // dropped while pinned
  for (uint64_t step = 0; step < 3000; ++step) {
    const uint64_t random = mix64(step + 1);
    const uint64_t number = random % kKeys;
    const CopyKey key = key_of(number, number % 3);
    const uint64_t size = random / 64 % 9 * random / 1024 % 40'000;
    const auto known = model.find(number);
    switch (random / 32 % 8) {
      case 0:
      case 1:
        ASSERT_EQ(user().put(key, size), known == model.end() ? TierEnd::done : TierEnd::full);
        if (known == model.end()) model[number] = size;
        break;
      case 2:
        tier().drop(key);
        if (pins.contains(number))
          doomed.insert(number);
        else
          model.erase(number);
        break;
      case 3:
        if (auto pin = tier().pin(key)) pins[number] = pin;
        ASSERT_EQ(pins.contains(number), known != model.end() && pins[number] != nullptr) << step;
        if (known == model.end()) pins.erase(number);
        break;
      case 4:
        if (pins.erase(number) > 0 && doomed.erase(number) > 0) model.erase(number);
        break;
      case 5: {
        if (known == model.end() || known->second == 0) break;
        const uint64_t offset = random / 7 % known->second;
        const uint64_t length = random / 11 % (known->second - offset);
        ASSERT_EQ(user().get(key, known->second, offset, length), TierEnd::done) << step;
        break;
      }
      default:
        ASSERT_EQ(user().get(key, known == model.end() ? size : known->second),
                  known == model.end() ? TierEnd::miss : TierEnd::done)
            << step;
    }
    ASSERT_EQ(tier().holds(key), model.contains(number)) << step;
  }
  uint64_t payload = 0;
  for (const auto& [number, size] : model) payload += size;
  EXPECT_EQ(tier().payload(), payload);
  EXPECT_EQ(tier().found().size(), model.size());
}

// Threads with keys of their own, of which each knows the right answer, and with keys that all of
// them put, drop and get, of which only right bytes are certain.
TEST_P(TierConformance, ManyThreadsAtRandom) {
  FORELOAD_OPEN_TIER();
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kOwn = 8;
  constexpr uint64_t kSteps = 600;
  std::atomic<uint64_t> wrong{0};
  std::latch all_there(kThreads);
  std::vector<TestBorrower*> users;
  for (uint64_t t = 0; t < kThreads; ++t) users.push_back(&one_more_user());
  const auto live = [&](uint64_t t) {
    TestBorrower& me = *users[t];
    std::set<uint64_t> mine;
    all_there.arrive_and_wait();
    for (uint64_t step = 0; step < kSteps; ++step) {
      const uint64_t random = mix64(t << 32 | (step + 1));
      const uint64_t own = 1000 + t * kOwn + random % kOwn;
      const uint64_t shared = random / 64 % 4;
      const auto size_of = [](uint64_t number) { return 200 + mix64(number) % 20'000; };
      switch (random / 1024 % 8) {
        case 0:
        case 1: {
          const TierEnd end = me.put(key_of(own), size_of(own));
          if ((end == TierEnd::done) != mine.insert(own).second) ++wrong;
          break;
        }
        case 2:
          tier().drop(key_of(own));
          mine.erase(own);
          break;
        case 3:
          tier().drop(key_of(shared));
          break;
        case 4:
          me.start_put(key_of(shared), size_of(shared));
          break;
        case 5: {
          const auto pin = tier().pin(key_of(shared));
          const TierEnd end = me.get(key_of(shared), size_of(shared));
          if (end != TierEnd::done && (end != TierEnd::miss || pin)) ++wrong;
          break;
        }
        case 6: {
          const uint64_t id = me.start_get(key_of(shared), size_of(shared));
          if (random % 2 == 0) me.cancel(id);
          const TierEnd end = me.checked(id, key_of(shared), size_of(shared));
          if (end == TierEnd::failed || end == TierEnd::corrupt) ++wrong;
          break;
        }
        default: {
          const TierEnd end = me.get(key_of(own), size_of(own));
          if (end != (mine.contains(own) ? TierEnd::done : TierEnd::miss)) ++wrong;
        }
      }
    }
    for (uint64_t number = 1000 + t * kOwn; number < 1000 + (t + 1) * kOwn; ++number)
      if (tier().holds(key_of(number)) != mine.contains(number)) ++wrong;
  };
  {
    std::vector<std::jthread> threads;
    for (uint64_t t = 0; t < kThreads; ++t) threads.emplace_back(live, t);
  }
  for (TestBorrower* user : users) user->give_back();
  EXPECT_EQ(wrong, 0u);
  uint64_t payload = 0;
  for (const FoundCopy& copy : tier().found()) payload += copy.size;
  EXPECT_EQ(tier().payload(), payload);
}

TEST_P(TierConformance, DescribesItself) {
  FORELOAD_OPEN_TIER();
  EXPECT_FALSE(tier().kind().empty());
  EXPECT_EQ(tier().dead(), std::nullopt);
  std::set<std::string> names;
  tier().visit([&](std::string_view name, uint64_t) {
    EXPECT_TRUE(names.emplace(name).second) << name << " twice";
  });
  EXPECT_FALSE(names.empty());
}

namespace {

const auto kKinds = testing::Values(
    memory_kind("OwnMemory", false), memory_kind("SharedMemory", true), disk_kind(true, true),
    disk_kind(true, false), disk_kind(false, true), disk_kind(false, false), plain_files_kind());
const auto kName = [](const auto& kind) { return kind.param.name; };
INSTANTIATE_TEST_SUITE_P(, TierConformance, kKinds, kName);
INSTANTIATE_TEST_SUITE_P(, TierTraffic, kKinds, kName);

}  // namespace
}  // namespace foreload
