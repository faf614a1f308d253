// SPDX-License-Identifier: Apache-2.0
//
// Several loaders on one cache: what one has read the others find.
#include <thread>

#include <gtest/gtest.h>

#include "loader_fixture.h"

namespace foreload {
namespace {

class SharedCache : public LoaderTest {
 protected:
  LoaderSettings on(const std::shared_ptr<Cache>& cache, uint64_t epochs = 2) const {
    LoaderSettings with = settings(epochs);
    with.cache = cache;
    return with;
  }
  // Reads nothing before it is asked.
  LoaderSettings asked_only(const std::shared_ptr<Cache>& cache) const {
    LoaderSettings with = on(cache);
    with.epochs.reset();
    with.order = with.order.as_given();
    return with;
  }
  void fetch_all(Loader& loader) const {
    std::vector<uint64_t> all(contents_.size());
    for (uint64_t sample = 0; sample < all.size(); ++sample) all[sample] = sample;
    const auto ticket = *loader.fetch(all);
    ticket->wait();
    ASSERT_TRUE(ticket->answer()) << ticket->answer().error().message;
    expect_bytes(ticket->answer()->batch);
  }
};

TEST_F(SharedCache, WhatOneHasReadTheOtherFinds) {
  for (const bool on_disk : {false, true}) {
    const std::shared_ptr<Cache> cache =
        on_disk ? Cache::make({0, {{root_ / "cache", 2 * total() + (1 << 20)}}})
                : Cache::make({total(), {}});
    const auto first = open(on(cache));
    const auto second = open(asked_only(cache));
    run_all(*first, 2);
    // What it has read is on its way to the disk until it was written.
    while (first->stats().engine.kept_bytes.back() < total()) std::this_thread::yield();
    fetch_all(*second);
    EXPECT_EQ(first->stats().engine.source_bytes, total());
    EXPECT_EQ(second->stats().engine.source_bytes, 0u);
    EXPECT_EQ(second->stats().engine.others_bytes, total());
    EXPECT_EQ(first->stats().engine.others_bytes, 0u);
  }
}

TEST_F(SharedCache, TheNextLoaderFindsWhatTheLastOneRead) {
  const auto cache = Cache::make({total(), {}});
  run_all(*open(on(cache)), 2);
  EXPECT_EQ(cache->left().memory, total());
  const auto next = open(on(cache));
  EXPECT_EQ(next->stats().held_samples, 100u);
  run_all(*next, 2);
  EXPECT_EQ(next->stats().engine.source_bytes, 0u);
  EXPECT_EQ(next->stats().engine.others_bytes, 2 * total());
}

// A copy that a loader found and wants stays when whoever has put it is gone and others need room.
TEST_F(SharedCache, WhatWasFoundStays) {
  const auto cache = Cache::make({2 * total(), {}});
  auto first = open(on(cache));
  const auto second = open(asked_only(cache));
  run_all(*first, 2);
  fetch_all(*second);
  first.reset();
  for (uint64_t sample = 0; sample < 100; ++sample)
    std::filesystem::remove(file(sample));  // and copies are all there is
  for (const char* name : {"others", "more"}) {
    std::filesystem::create_directories(root_ / name);
    for (int i = 0; i < 60; ++i)
      std::ofstream(root_ / name / (std::to_string(i) + ".jpg"))
          << std::string(total() / 60, name[0]) << i;
    LoaderSettings with = on(cache, 1);
    with.dataset = root_ / name;
    const auto third = open(with);
    while (*third->next()) {
    }
  }
  fetch_all(*second);
  EXPECT_EQ(second->stats().engine.source_bytes, 0u);
}

TEST_F(SharedCache, AllStayWithinTheBudget) {
  const auto cache = Cache::make({total(), {}});
  const auto first = open(on(cache));
  const auto second = open(on(cache));
  EXPECT_EQ(first->stats().start.tiers[0].bytes, total());
  EXPECT_EQ(second->stats().start.tiers[0].bytes, 0u);
  run_all(*first, 2);
  run_all(*second, 2);
  EXPECT_EQ(cache->left().memory, 0u);
}

TEST_F(SharedCache, LoadersRunAtOnceAndComeAndGo) {
  const auto cache = Cache::make({total() / 2, {{root_ / "cache", total() + (1 << 20)}}});
  std::vector<std::thread> threads;
  for (int number = 0; number < 3; ++number)
    threads.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        const auto loader = open(on(cache));
        run_all(*loader, 2);
        fetch_all(*loader);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->left().memory, total() / 2);
}

}  // namespace
}  // namespace foreload
