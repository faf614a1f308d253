// SPDX-License-Identifier: Apache-2.0
//
// What all orders promise is tested in order_test.cc; here is what weights are for.
#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "foreload/plan/plan.h"

namespace foreload {
namespace {

using Ids = std::vector<uint64_t>;

OrderSettings weighted(const std::vector<double>& weights, uint64_t draws = 0) {
  return {"weighted", {}, std::make_shared<const std::vector<double>>(weights), draws};
}

Ids ids_of(const Order& order, uint64_t epoch) {
  const auto list = *order.epoch(epoch);
  Ids ids(list->size());
  list->read(0, ids);
  return ids;
}

// The chance of drawing just these, one after another.
double chance_of(const Ids& ids, const std::vector<double>& weights) {
  double left = 0;
  for (const double weight : weights) left += weight;
  double chance = 1;
  for (const uint64_t id : ids) {
    chance *= weights[id] / left;
    left -= weights[id];
  }
  return chance;
}

// Chi-square of all ordered draws against their exact chances, over epochs and over seeds.
TEST(WeightedOrderStatistics, DrawsAsOftenAsTheWeightsSay) {
  constexpr uint64_t kTimes = 40'000;
  const std::vector<double> weights{1, 2, 0, 4, 0.5};
  for (const uint64_t draws : {1, 2, 4}) {
    for (const bool by_epoch : {true, false}) {
      std::map<Ids, double> times;
      for (uint64_t i = 0; i < kTimes; ++i) {
        const auto order = std::move(*make_order(weighted(weights, draws), 5, by_epoch ? 3 : i));
        ++times[ids_of(*order, by_epoch ? i : 3)];
      }
      double chi = 0;
      double together = 0;
      for (const auto& [ids, seen] : times) {
        const double expected = kTimes * chance_of(ids, weights);
        chi += (seen - expected) * (seen - expected) / expected;
        together += expected;
      }
      EXPECT_NEAR(together, kTimes, 1);  // nothing was missed
      const auto freedom = static_cast<double>(times.size() - 1);
      EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom)) << draws << " draws";
    }
  }
}

// Weights far apart: of two samples the heavier is first as often as its share is.
TEST(WeightedOrderStatistics, HoldsForWeightsFarApart) {
  for (const double heavy : {1e-300, 1e-3, 0.5, 1.0, 99.0}) {
    const auto order = std::move(*make_order(weighted({heavy, heavy / 3}), 2, 1));
    double first = 0;
    for (uint64_t epoch = 0; epoch < 20'000; ++epoch) first += ids_of(*order, epoch)[0] == 0;
    EXPECT_NEAR(first / 20'000, 0.75, 0.015) << heavy;
  }
}

// The same keys from another Philox and log.
TEST(WeightedOrder, IsTheSameOnEveryMachine) {
  const auto order = std::move(*make_order(weighted({1, 2, 3, 4, 5, 6, 7, 8}), 8, 42));
  EXPECT_EQ(ids_of(*order, 0), ids_of(*order, 0));
  EXPECT_NE(ids_of(*order, 0), ids_of(*order, 1));
  EXPECT_EQ(ids_of(*order, 0), (Ids{2, 4, 6, 5, 7, 1, 3, 0}));
}

TEST(WeightedOrder, DrawsTheFirstOfTheWholeOrder) {
  const std::vector<double> weights{3, 1, 4, 1, 5, 9, 2, 6};
  const Ids all = ids_of(**make_order(weighted(weights), 8, 1), 5);
  const auto some = std::move(*make_order(weighted(weights, 3), 8, 1));
  EXPECT_EQ(ids_of(*some, 5), Ids(all.begin(), all.begin() + 3));
  EXPECT_EQ(some->shape(5).entries, 3u);
}

TEST(WeightedOrder, KnowsItsWeights) {
  const auto digest = [](const std::vector<double>& weights, uint64_t draws) {
    return (*make_order(weighted(weights, draws), weights.size(), 1))->digest();
  };
  EXPECT_EQ(digest({1, 2}, 0), digest({1, 2}, 2));
  EXPECT_NE(digest({1, 2}, 0), digest({1, 2}, 1));
  EXPECT_NE(digest({1, 2}, 0), digest({2, 1}, 0));
}

TEST(WeightedOrder, RefusesWhatIsNoWeight) {
  for (const auto& settings :
       {OrderSettings{"weighted"}, weighted({1}), weighted({1, -1}), weighted({1, NAN}),
        weighted({1, INFINITY}), weighted({0, 0}), weighted({0, 1}, 2)}) {
    const auto order = make_order(settings, 2, 0);
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().kind, ErrorKind::invalid);
  }
}

// Epochs are shorter than the data set, and the plan counts what is drawn.
TEST(WeightedOrder, IsPlanned) {
  std::vector<double> weights(1000, 1.0);
  std::fill(weights.begin(), weights.begin() + 100, 0.0);
  Job job;
  job.order = weighted(weights, 300);
  job.ranks = 4;
  job.epochs = 5;
  const Plan plan = std::move(*Plan::make(job, *Sizes::uniform(1000, 100)));
  EXPECT_EQ(plan.sharding(0).per_rank(), 75u);
  EXPECT_EQ(plan.traffic().read.reads, 5u * 300);
  for (uint64_t sample = 0; sample < 100; ++sample)
    for (uint32_t epoch = 0; epoch < 5; ++epoch)
      EXPECT_EQ(plan.table()->reader(epoch, sample), 4u) << "drawn without a weight";
  job.start = 301;
  EXPECT_FALSE(Plan::make(job, *Sizes::uniform(1000, 100)));
}

}  // namespace
}  // namespace foreload
