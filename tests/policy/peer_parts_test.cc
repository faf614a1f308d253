// SPDX-License-Identifier: Apache-2.0
//
// Lives, first reads, keepers, serving and pushes, each alone.
#include <gtest/gtest.h>

#include "alone.h"

namespace foreload {
namespace {

using std::chrono::seconds;

TEST(Lives, WhoWasPingedAndSaysNothingIsSilent) {
  Alone parts(plan_of_peers(3), among_peers());
  parts.desk.now = seconds(100);
  parts.lives.ping(1);
  parts.lives.ping(1);
  EXPECT_EQ(parts.take<action::Ping>().size(), 1u);
  EXPECT_FALSE(parts.lives.is_silent(1, seconds(1)));
  parts.desk.now = seconds(102);
  EXPECT_TRUE(parts.lives.is_silent(1, seconds(1)));
  parts.lives.heard(1);
  EXPECT_FALSE(parts.lives.is_silent(1, RunTime(0)));
}

TEST(Lives, DieOnce) {
  Alone parts(plan_of_peers(3), among_peers());
  EXPECT_TRUE(parts.lives.lose(2, true));
  EXPECT_FALSE(parts.lives.lose(2, true));
  EXPECT_FALSE(parts.lives.up(2));
  EXPECT_EQ(parts.take<action::DropPeer>().size(), 1u);
}

TEST(FirstReads, OwnersExpectWhatOthersReadFirst) {
  Alone parts(plan_of_peers(2), among_peers());
  uint64_t sample = 0;
  while (!parts.desk.is_owner(sample) || parts.first_reads.first_reader(sample) != 1) ++sample;
  EXPECT_FALSE(parts.first_reads.was_read(sample));
  EXPECT_TRUE(parts.first_reads.expect(sample));
  EXPECT_EQ(parts.copies.on_its_way(sample), OnItsWay::expected);
  parts.first_reads.give_up(sample);
  EXPECT_FALSE(parts.first_reads.expect(sample));
  EXPECT_TRUE(parts.first_reads.expected().empty());
}

TEST(FirstReads, NobodyKnowsAfterASeek) {
  Alone parts(plan_of_peers(2), among_peers());
  parts.first_reads.forget();
  EXPECT_TRUE(parts.first_reads.unsure());
  EXPECT_TRUE(parts.first_reads.was_read(0));
  for (uint64_t sample = 0; sample < 20; ++sample) EXPECT_FALSE(parts.first_reads.expect(sample));
}

TEST(FirstReads, KnowWhatAnEpochHasRead) {
  Alone parts(plan_of_peers(2), among_peers());
  const auto order = std::move(*parts.desk.plan->order().epoch(0));
  parts.first_reads.note_read(*order, 0, 19);
  uint64_t read = 0;
  for (uint64_t sample = 0; sample < 20; ++sample) read += parts.first_reads.was_read(sample);
  EXPECT_EQ(read, 19u);
}

TEST(Keepers, AreOwnersOrTheirLivingHeirs) {
  Alone parts(plan_of_peers(3), among_peers());
  const uint64_t sample = parts.sample_of(1);
  EXPECT_EQ(parts.keepers.keeper_of(sample), 1u);
  parts.lives.lose(1, false);
  const uint32_t heir = parts.keepers.keeper_of(sample);
  EXPECT_TRUE(heir == 0 || heir == 2);
  parts.keepers.refused(sample);
  EXPECT_EQ(parts.keepers.keeper_of(sample), kNoOwner);
}

TEST(Serving, AnswersWhoWaitsWhenTheSampleIsHere) {
  Alone parts(plan_of_peers(2), among_peers());
  parts.serving.park({1, 7, 3});
  parts.serving.park({1, 8, 4});
  parts.copies.add(3, 0);
  parts.serving.answer(3);
  parts.serving.answer(4);
  ASSERT_EQ(parts.actions.size(), 2u);
  EXPECT_EQ(std::get<action::Serve>(parts.actions[0]).request, 7u);
  EXPECT_EQ(std::get<action::Refuse>(parts.actions[1]).request, 8u);
}

TEST(Serving, EverybodyHasOneSampleUnderWay) {
  PolicySettings settings = among_peers();
  settings.serve_bytes = 0;
  Alone parts(plan_of_peers(3), settings);
  parts.copies.add(3, 0);
  for (uint64_t request = 0; request < 2; ++request)
    for (const uint32_t rank : {1u, 2u}) parts.serving.serve({rank, request, 3});
  EXPECT_EQ(parts.take<action::Serve>().size(), 2u);
  parts.serving.sent({1, 0, 3, 0, true});
  const auto next = parts.take<action::Serve>();
  ASSERT_EQ(next.size(), 1u);
  EXPECT_EQ(next[0].rank, 1u);
}

TEST(Serving, RefusesWhoHasWaitedTooLong) {
  Alone parts(plan_of_peers(2), among_peers());
  parts.serving.park({1, 7, 3, RunTime(0)});
  parts.desk.now = parts.desk.settings.push_patience;
  parts.serving.lose_patience();
  EXPECT_EQ(parts.take<action::Refuse>().size(), 1u);
  EXPECT_TRUE(parts.lives.late(0));
  EXPECT_TRUE(parts.serving.idle());
}

TEST(Pushes, GoOneByOneWhereThereIsNoRoom) {
  PolicySettings settings = among_peers();
  settings.push_bytes = 0;
  Alone parts(plan_of_peers(2), settings);
  const uint64_t sample = parts.sample_of(1);
  parts.pushes.push(1, sample, {0, 0});
  parts.pushes.push(2, sample, {0, 1});
  EXPECT_EQ(parts.pushes.bytes(), 200u);
  const auto sent = parts.take<action::SendPush>();
  ASSERT_EQ(sent.size(), 1u);
  parts.pushes.answered({sent[0].push, PushEnd::kept});
  EXPECT_EQ(parts.take<action::SendPush>().size(), 1u);
  parts.pushes.drop_peer(1);
  EXPECT_TRUE(parts.pushes.idle());
  EXPECT_EQ(parts.pushes.bytes(), 0u);
}

TEST(Pushes, WhatItsKeeperRefusesNobodyKeeps) {
  Alone parts(plan_of_peers(2), among_peers());
  const uint64_t sample = parts.sample_of(1);
  parts.pushes.push(1, sample, {0, 0});
  parts.pushes.answered({parts.take<action::SendPush>().at(0).push, PushEnd::refused});
  EXPECT_EQ(parts.keepers.keeper_of(sample), kNoOwner);
  parts.pushes.push(2, sample, {0, 0});
  EXPECT_TRUE(parts.pushes.idle());
}

TEST(Pushes, OfPeersAreAnsweredTogether) {
  Alone parts(plan_of_peers(3), among_peers());
  EXPECT_TRUE(parts.pushes.take_in({1, 3, 10}));
  EXPECT_FALSE(parts.pushes.take_in({2, 3, 11}));
  parts.pushes.answer_all(3, PushEnd::kept);
  EXPECT_EQ(parts.take<action::AnswerPush>().size(), 2u);
}

}  // namespace
}  // namespace foreload
