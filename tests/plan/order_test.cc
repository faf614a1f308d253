// SPDX-License-Identifier: Apache-2.0
//
// Equality with torch itself is tested from Python; here are known values, and what orders promise
// besides.
#include "foreload/plan/order.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "foreload/plan/feistel.h"
#include "foreload/plan/given_order.h"
#include "foreload/plan/torch_shuffle.h"

namespace foreload {
namespace {

using Ids = std::vector<uint64_t>;

std::unique_ptr<const Order> order_of(const std::string& name, uint64_t samples,
                                      uint64_t seed = 0) {
  OrderSettings settings{name};
  if (name == "weighted") {
    std::vector<double> weights(samples);
    for (uint64_t i = 0; i < samples; ++i) weights[i] = 1 + static_cast<double>(i % 7);
    settings.weights = std::make_shared<const std::vector<double>>(weights);
  }
  return std::move(*make_order(settings, samples, seed));
}

Ids list_of(const Order& order, Sharding sharding, uint32_t rank, uint64_t epoch = 0) {
  const auto opened = std::move(*order.epoch(epoch));
  Ids ids(sharding.per_rank());
  read_list(*opened, sharding, rank, 0, ids);
  return ids;
}

Ids sorted(Ids ids) {
  std::sort(ids.begin(), ids.end());
  return ids;
}

Ids all_ids(uint64_t samples) {
  Ids ids(samples);
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

// torch.randperm(10, generator=torch.Generator().manual_seed(seed)).tolist()
TEST(TorchRandperm, GivesTorchsOwnValues) {
  std::vector<uint32_t> ids(10);
  torch_randperm(0, std::span(ids));
  EXPECT_EQ(ids, (std::vector<uint32_t>{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  torch_randperm(UINT64_MAX, std::span(ids));
  std::vector<uint32_t> low(10);
  torch_randperm(UINT32_MAX, std::span(low));
  EXPECT_EQ(ids, low);  // only the low 32 bits count
}

// The generator against the standard library's, through the shuffle that uses it.
TEST(TorchRandperm, DrawsFromMt19937) {
  std::mt19937 random(123);
  std::vector<uint32_t> expected(5000);
  std::iota(expected.begin(), expected.end(), 0);
  for (uint32_t i = 0; i + 1 < expected.size(); ++i)
    std::swap(expected[i], expected[i + random() % (expected.size() - i)]);
  std::vector<uint32_t> ids(5000);
  torch_randperm(123, std::span(ids));
  EXPECT_EQ(ids, expected);
}

class EveryOrder : public testing::TestWithParam<std::string> {};

TEST_P(EveryOrder, IsAPermutation) {
  for (const uint64_t samples : {1, 2, 3, 10, 97, 1000, 4097}) {
    const auto order = order_of(GetParam(), samples, 5);
    const auto epoch = std::move(*order->epoch(3));
    Ids ids(samples);
    epoch->read(0, ids);
    EXPECT_EQ(sorted(ids), all_ids(samples));
  }
}

TEST_P(EveryOrder, FindsWhereASampleStands) {
  const auto order = order_of(GetParam(), 1000, 5);
  const auto epoch = std::move(*order->epoch(3));
  Ids ids(1000);
  epoch->read(0, ids);
  for (const uint64_t position : {0, 1, 500, 999})
    EXPECT_EQ(epoch->next_use(ids[position]), position);
  EXPECT_EQ(epoch->next_use(ids[500], 500), 500u);
  EXPECT_EQ(epoch->next_use(ids[500], 501), std::nullopt);
  EXPECT_EQ(epoch->next_use(1000), std::nullopt);
}

TEST_P(EveryOrder, ReadsAnyPart) {
  const auto order = order_of(GetParam(), 1000, 5);
  const auto epoch = std::move(*order->epoch(0));
  Ids all(1000);
  epoch->read(0, all);
  Ids part(77);
  epoch->read(900, part);
  EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 900));
}

// Elastic restart: after n samples were consumed by 4 ranks, 3 ranks read exactly the others.
TEST_P(EveryOrder, LosesNothingWhenTheNumberOfRanksChanges) {
  const auto order = order_of(GetParam(), 1000, 5);
  const auto epoch = std::move(*order->epoch(1));
  for (const uint64_t consumed : {0, 4, 512, 996, 1000}) {
    Ids before(consumed);
    read_global_list(*epoch, {1000, 4}, 0, before);
    const Sharding rest{1000, 3, Pad::repeat, consumed};
    Ids after;
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const Ids list = list_of(*order, rest, rank, 1);
      after.insert(after.end(), list.begin(), list.end());
    }
    EXPECT_LE(after.size(), 1000 - consumed + 2);
    std::set<uint64_t> together(before.begin(), before.end());
    together.insert(after.begin(), after.end());
    EXPECT_EQ(together.size(), 1000u);
    Ids cut(rest.remaining());
    if (!cut.empty()) read_global_list(*epoch, rest, 0, cut);
    EXPECT_EQ(std::set<uint64_t>(cut.begin(), cut.end()).size(), 1000 - consumed);
  }
}

TEST_P(EveryOrder, ContinuesTheSameListsWithTheSameRanks) {
  const auto order = order_of(GetParam(), 1001, 5);
  for (const Pad pad : {Pad::repeat, Pad::truncate}) {
    for (uint32_t rank = 0; rank < 4; ++rank) {
      const Ids whole = list_of(*order, {1001, 4, pad}, rank);
      const Ids rest = list_of(*order, {1001, 4, pad, 4 * 100}, rank);
      EXPECT_EQ(rest, Ids(whole.begin() + 100, whole.end()));
    }
  }
}

TEST_P(EveryOrder, IsKnownForEverAndByAll) {
  const auto order = order_of(GetParam(), 10, 5);
  EXPECT_EQ(order->name(), GetParam());
  EXPECT_EQ(order->known_until(), Order::kForEver);
  EXPECT_EQ(order->shape(7).entries, 10u);
  EXPECT_TRUE(order->shared());
  EXPECT_EQ(order->expected(), order.get());
  EXPECT_EQ(order->digest(), order_of(GetParam(), 10, 5)->digest());
  EXPECT_NE(order->digest(), order_of(GetParam(), 10, 6)->digest());
  EXPECT_NE(order->digest(), order_of(GetParam(), 11, 5)->digest());
}

std::vector<std::string> every_order() {
  std::vector<std::string> names = order_names();
  names.push_back("weighted");
  return names;
}
INSTANTIATE_TEST_SUITE_P(Orders, EveryOrder, testing::ValuesIn(every_order()),
                         [](const auto& test) { return test.param; });

TEST(Sharding, PadsByStartingOver) {
  const auto order = order_of("sequential", 3);
  EXPECT_EQ(list_of(*order, {3, 8}, 7), (Ids{1}));
  EXPECT_EQ(list_of(*order, {3, 2}, 1), (Ids{1, 0}));
}

TEST(Sharding, CutsTheEnd) {
  const auto order = order_of("sequential", 3);
  EXPECT_EQ(list_of(*order, {3, 2, Pad::truncate}, 1), (Ids{1}));
  EXPECT_TRUE(list_of(*order, {3, 8, Pad::truncate}, 0).empty());
}

TEST(Sharding, SaysWhoReadsAPosition) {
  const Sharding sharding{10, 4, Pad::truncate, 1};
  EXPECT_EQ(sharding.reader(0), std::nullopt);  // consumed
  EXPECT_EQ(sharding.reader(6)->rank, 1u);
  EXPECT_EQ(sharding.reader(6)->step, 1u);
  EXPECT_EQ(sharding.reader(9), std::nullopt);  // cut
}

TEST(Batching, CutsAListIntoBatches) {
  const Batching keep{4, false};
  EXPECT_EQ(keep.batches(10), 3u);
  EXPECT_EQ(keep.length(10, 2), 2u);
  const Batching drop{4, true};
  EXPECT_EQ(drop.batches(10), 2u);
  EXPECT_EQ(keep.batches(0), 0u);
}

TEST(Feistel, InvertsItself) {
  for (const uint64_t n : {uint64_t{1}, uint64_t{2}, uint64_t{1000}, uint64_t{1'000'000'007},
                           uint64_t{1} << 62, uint64_t{1} << 63}) {
    const FeistelPermutation permutation(n, 42, 7);
    for (uint64_t x = 0; x < std::min<uint64_t>(n, 1000); ++x) {
      const uint64_t y = permutation(n - 1 - x);
      ASSERT_LT(y, n);
      ASSERT_EQ(permutation.inverse(y), n - 1 - x);
    }
  }
}

// Chi-square of where a sample lands, over many keys: every place must be about equally likely,
// for small and odd sizes too.
TEST(Feistel, PutsEverySampleEverywhereEquallyOften) {
  for (const uint64_t n : {2, 3, 5, 7, 16, 31}) {
    constexpr uint64_t kKeys = 20'000;
    for (const uint64_t sample : {uint64_t{0}, n - 1}) {
      std::vector<double> times(n);
      for (uint64_t key = 0; key < kKeys; ++key) ++times[FeistelPermutation(n, key, 0)(sample)];
      double chi = 0;
      const double expected = static_cast<double>(kKeys) / static_cast<double>(n);
      for (const double t : times) chi += (t - expected) * (t - expected) / expected;
      const auto freedom = static_cast<double>(n - 1);
      EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom) + 5) << "n = " << n;
    }
  }
}

// Neighbours must not stay neighbours: the mean distance of images of x and x + 1 is n / 3.
TEST(Feistel, SeparatesNeighbours) {
  constexpr uint64_t kSamples = 100'000;
  const FeistelPermutation permutation(kSamples, 1, 0);
  double sum = 0;
  for (uint64_t x = 0; x + 1 < kSamples; ++x) {
    const auto a = static_cast<double>(permutation(x));
    sum += std::abs(a - static_cast<double>(permutation(x + 1)));
  }
  EXPECT_NEAR(sum / kSamples, kSamples / 3.0, kSamples * 0.005);
}

TEST(GivenOrder, GrowsByListsWithRepeats) {
  GivenOrder order(5);
  EXPECT_EQ(order.known_until(), 0u);
  EXPECT_EQ(order.give({4, 4, 0})->epoch, 0u);
  EXPECT_EQ(order.give({1}, {1})->epoch, 1u);
  EXPECT_EQ(order.known_until(), 2u);
  EXPECT_EQ(list_of(order, {3, 1}, 0, 0), (Ids{4, 4, 0}));
  EXPECT_EQ(list_of(order, {1, 1}, 0, 1), (Ids{1}));
  EXPECT_EQ((*order.epoch(0))->next_use(4, 1), 1u);
  EXPECT_EQ(order.shape(0).entries, 3u);
  EXPECT_EQ(order.shape(0).batches, std::nullopt);
  EXPECT_EQ(order.shape(1).batches, 1u);
}

TEST(GivenOrder, ForgetsWhatIsOverAndBeginsAnewAfterASeek) {
  GivenOrder order(5);
  ASSERT_TRUE(order.give({1}));
  ASSERT_TRUE(order.give({2}));
  order.drop_before(1);
  EXPECT_FALSE(order.epoch(0));
  EXPECT_EQ(list_of(order, {1, 1}, 0, 1), (Ids{2}));
  order.drop_before(7);  // nobody gave the lists between
  EXPECT_EQ(order.give({3})->epoch, 7u);
  order.seek(3);
  EXPECT_EQ(order.known_until(), 0u);
  EXPECT_EQ(order.shape(7).entries, 0u);
  EXPECT_EQ(order.give({4})->epoch, 3u);
}

TEST(GivenOrder, RefusesWhatItCannotKnow) {
  GivenOrder order(5);
  EXPECT_EQ(order.give({5}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(order.give({1, 2}, {2, 1}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(order.give({1, 2}, {1}).error().kind, ErrorKind::invalid);
  EXPECT_EQ(order.epoch(0).error().kind, ErrorKind::invalid);
}

// Ranks have lists of their own and must agree on the plan all the same.
TEST(GivenOrder, IsPlannedAsWhatItIsLike) {
  const auto like = order_of("torch", 10, 3);
  const auto order = std::move(*make_order(OrderSettings{"torch"}.as_given(), 10, 3));
  const Digest before = order->digest();
  ASSERT_TRUE(order->given()->give({1, 1}));
  EXPECT_EQ(order->digest(), before);
  EXPECT_NE(order->digest(), like->digest());
  EXPECT_EQ(order->expected()->digest(), like->digest());
  EXPECT_FALSE(order->shared());
  EXPECT_EQ(GivenOrder(10).expected(), nullptr);
}

TEST(MakeOrder, FindsOrdersByName) {
  EXPECT_EQ(order_names(), (std::vector<std::string>{"torch", "sequential", "feistel"}));
  EXPECT_EQ(parse_order("feistel")->name, "feistel");
  EXPECT_EQ(parse_order("torhc").error().message,
            "unknown order 'torhc': use torch, sequential or feistel; did you mean torch?");
  EXPECT_FALSE(parse_order("given"));  // a name alone does not say which lists
  EXPECT_FALSE(make_order({"random"}, 10, 0));
}

TEST(MakeOrder, RefusesAnEmptyDataSet) {
  EXPECT_EQ(make_order({"torch"}, 0, 0).error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace foreload
