// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/cluster.h"

#include <gtest/gtest.h>

namespace foreload::sim {
namespace {

ClusterSettings two_nodes() {
  ClusterSettings settings;
  settings.ranks = 4;
  settings.ranks_per_node = 2;
  settings.network = 100;
  settings.source.curve = *Curve::create({{1, 10}, {2, 16}});
  TierSettings memory;
  memory.name = "memory";
  memory.read.curve = Curve::flat(40);
  settings.tiers = {memory};
  return settings;
}

// Runs until the transfer ends; gives the time.
Time end_of(Cluster& cluster, uint64_t token) {
  while (!cluster.agenda().empty()) {
    if (cluster.woken(cluster.agenda().next()) == token) return cluster.now();
  }
  return kNever;
}

TEST(Cluster, ReadsTheSourceAtItsRate) {
  Cluster cluster(two_nodes(), 0, 8);
  cluster.read(0, {}, 50, 1);
  EXPECT_DOUBLE_EQ(end_of(cluster, 1), 5);
}

TEST(Cluster, ReadersOfDifferentRanksShareTheSource) {
  Cluster cluster(two_nodes(), 0, 8);
  cluster.read(0, {}, 40, 1);
  cluster.read(3, {}, 40, 2);
  EXPECT_DOUBLE_EQ(end_of(cluster, 2), 5);
}

TEST(Cluster, RanksOfANodeShareItsMemoryAndOthersDoNot) {
  Cluster cluster(two_nodes(), 0, 8);
  cluster.read(0, {Place::Kind::own, false, false, 0, 0}, 40, 1);
  cluster.read(1, {Place::Kind::own, false, false, 0, 1}, 40, 2);
  cluster.read(2, {Place::Kind::own, false, false, 0, 2}, 40, 3);
  EXPECT_DOUBLE_EQ(end_of(cluster, 3), 1);
  EXPECT_DOUBLE_EQ(end_of(cluster, 2), 2);
}

TEST(Cluster, ACopyElsewhereComesAtTheSlowerOfMemoryAndNetwork) {
  ClusterSettings settings = two_nodes();
  const Place far{Place::Kind::peer, false, false, 0, 3};
  Cluster fast(settings, 0, 8);
  fast.read(0, far, 40, 1);
  EXPECT_DOUBLE_EQ(end_of(fast, 1), 1);
  settings.network = 20;
  Cluster slow(settings, 0, 8);
  slow.read(0, far, 40, 1);
  EXPECT_DOUBLE_EQ(end_of(slow, 1), 2);
}

TEST(Cluster, ACopyOfARankOnTheSameNodeNeedsNoNetwork) {
  ClusterSettings settings = two_nodes();
  settings.network = 1;
  settings.network_latency = 100;
  Cluster cluster(settings, 0, 8);
  cluster.read(0, {Place::Kind::peer, false, false, 0, 1}, 40, 1);
  EXPECT_DOUBLE_EQ(end_of(cluster, 1), 1);
}

TEST(Cluster, LatencyComesBeforeTheFirstByte) {
  ClusterSettings settings = two_nodes();
  settings.source.latency = {0.5, 0};
  settings.network_latency = 0.25;
  Cluster cluster(settings, 0, 8);
  cluster.read(0, {}, 50, 1);
  EXPECT_DOUBLE_EQ(end_of(cluster, 1), 5.5);
  cluster.read(0, {.detour = true}, 50, 2);
  EXPECT_DOUBLE_EQ(end_of(cluster, 2), 5.5 + 5.75);
}

TEST(Cluster, DrawnLatenciesHaveTheMeanAskedFor) {
  ClusterSettings settings = two_nodes();
  settings.source.latency = {0.5, 0.8};
  Cluster cluster(settings, 3, 8);
  for (uint64_t i = 0; i < 4000; ++i) {
    cluster.read(0, {}, 0, i);
    end_of(cluster, i);
  }
  EXPECT_NEAR(cluster.now() / 4000, 0.5, 0.03);
}

TEST(Cluster, ALinkToTheSourceLimitsItsNode) {
  ClusterSettings settings = two_nodes();
  settings.source_link = 5;
  Cluster cluster(settings, 0, 8);
  cluster.read(0, {}, 50, 1);
  EXPECT_DOUBLE_EQ(end_of(cluster, 1), 10);
}

TEST(Cluster, FillingATierTakesAsLongAsTheSlowerOfSourceAndWriting) {
  ClusterSettings settings = two_nodes();
  Cluster free(settings, 0, 8);
  free.fill(0, 0, 50, 1);
  EXPECT_DOUBLE_EQ(end_of(free, 1), 5);
  settings.tiers[0].write = Curve::flat(4);
  Cluster slow(settings, 0, 8);
  slow.fill(0, 0, 50, 1);
  EXPECT_DOUBLE_EQ(end_of(slow, 1), 12.5);
  slow.write(0, 0, 4, 2);
  EXPECT_DOUBLE_EQ(end_of(slow, 2), 13.5);
}

// Each of two CPUs preprocesses 10 bytes a second.
ClusterSettings with_cpus() {
  ClusterSettings settings = two_nodes();
  settings.preprocess = 10;
  settings.preprocess_cpus = 2;
  return settings;
}

TEST(Cluster, ReadingAndWritingTakeCpusWhereThatIsKnown) {
  ClusterSettings settings = with_cpus();
  Cluster free(settings, 0, 8);
  free.write(0, 0, 50, 1);
  EXPECT_DOUBLE_EQ(end_of(free, 1), 0);
  settings.source.cpu = 0.2;
  settings.tiers[0].write_cpu = 0.1;
  Cluster cluster(settings, 0, 8);
  cluster.read(0, {}, 50, 1);  // 5 s at the source
  EXPECT_DOUBLE_EQ(end_of(cluster, 1), 10);
  cluster.write(0, 0, 50, 2);
  EXPECT_DOUBLE_EQ(end_of(cluster, 2), 15);
  cluster.fill(0, 0, 50, 3);
  EXPECT_DOUBLE_EQ(end_of(cluster, 3), 30);
}

TEST(Cluster, WhoPreprocessesAndWhoReadsShareTheCpusOfTheirNode) {
  ClusterSettings settings = with_cpus();
  settings.source.cpu = 0.2;
  Cluster cluster(settings, 0, 8);
  cluster.preprocess(0, 100, 0, 1);
  cluster.preprocess(1, 100, 0, 2);
  cluster.read(0, {}, 50, 3);  // 10 s of a CPU; three share two
  cluster.preprocess(2, 100, 0, 4);
  EXPECT_DOUBLE_EQ(end_of(cluster, 4), 10);
  EXPECT_DOUBLE_EQ(end_of(cluster, 2), 15);
}

TEST(Cluster, MemoryThatWasNotUsedBeforeTakesTimeToPreprocessInto) {
  ClusterSettings settings = with_cpus();
  settings.fresh_cpu = 0.01;
  Cluster cluster(settings, 0, 8);
  cluster.preprocess(0, 100, 300, 1);
  EXPECT_DOUBLE_EQ(end_of(cluster, 1), 13);
}

TEST(Cluster, MessagesTakeTheNetwork) {
  ClusterSettings settings = two_nodes();
  settings.network_latency = 0.5;
  Cluster cluster(settings, 0, 8);
  cluster.send(0, 3, 200, 1);
  EXPECT_DOUBLE_EQ(end_of(cluster, 1), 2.5);
  cluster.wait(1, 2);
  EXPECT_DOUBLE_EQ(end_of(cluster, 2), 3.5);
}

}  // namespace
}  // namespace foreload::sim
