// SPDX-License-Identifier: Apache-2.0
#include "in_process.h"

#include "rank_at_work.h"

namespace foreload {
namespace {

// Three ranks on one thread.
class InProcessByHand : public testing::Test {
 protected:
  void SetUp() override {
    for (uint32_t r = 0; r < 3; ++r) {
      ranks_[r] = std::make_unique<RankAtWork>(r, 3, [] { return true; });
      ranks_[r]->start(network_.join(r, ranks_[r]->calls()));
    }
  }
  uint64_t only_parcel() { return network_.under_way().at(0).number; }
  RankAtWork& at(uint32_t rank) { return *ranks_[rank]; }

  InProcessNetwork network_{3, InProcessNetwork::Delivery::by_hand};
  std::unique_ptr<RankAtWork> ranks_[3];
};

TEST_F(InProcessByHand, NothingHappensByItself) {
  at(0).send(1, "one", "payload");
  EXPECT_TRUE(at(1).arrivals().empty());
  ASSERT_EQ(network_.under_way().size(), 1);
  EXPECT_EQ(network_.under_way()[0].from, 0);
  EXPECT_EQ(network_.under_way()[0].to, 1);
  EXPECT_EQ(network_.under_way()[0].payload_bytes, 7);
  EXPECT_TRUE(network_.step());
  EXPECT_EQ(at(1).arrivals().at(0).payload, "payload");
  EXPECT_EQ(at(0).sent_ok(), 0);
  EXPECT_TRUE(network_.step());
  EXPECT_EQ(at(0).sent_ok(), 1);
  EXPECT_FALSE(network_.step());
}

TEST_F(InProcessByHand, DeliverChoosesBetweenPairsButNotWithin) {
  at(0).send(1, "a");
  at(0).send(1, "b");
  at(2).send(1, "c");
  const auto parcels = network_.under_way();
  EXPECT_FALSE(network_.deliver(parcels[1].number));
  EXPECT_TRUE(network_.deliver(parcels[2].number));
  EXPECT_FALSE(network_.deliver(parcels[2].number));
  network_.run();
  const auto arrivals = at(1).arrivals();
  ASSERT_EQ(arrivals.size(), 3);
  EXPECT_EQ(arrivals[0].header + arrivals[1].header + arrivals[2].header, "cab");
}

TEST_F(InProcessByHand, LostMessages) {
  at(0).send(1, "a");
  network_.lose(only_parcel(), true);
  at(0).send(1, "b");
  network_.lose(only_parcel(), false);
  network_.run();
  EXPECT_TRUE(at(1).arrivals().empty());
  EXPECT_EQ(at(0).sent_ok(), 1);
  EXPECT_EQ(at(0).sent_failed(), 1);
}

TEST_F(InProcessByHand, ChangedBytes) {
  const auto payload = std::make_shared<const std::string>("payload");
  at(0).send_shared(1, "abc", payload);
  network_.change_header(only_parcel(), 1, std::byte{'b' ^ 'X'});
  network_.change_payload(only_parcel(), 0, std::byte{'p' ^ 'Q'});
  network_.run();
  EXPECT_EQ(at(1).arrivals().at(0).header, "aXc");
  EXPECT_EQ(at(1).arrivals().at(0).payload, "Qayload");
  EXPECT_EQ(*payload, "payload");
  EXPECT_EQ(payload.use_count(), 1);
}

TEST_F(InProcessByHand, CutLinksHoldMessages) {
  network_.cut(1, 0);
  at(0).send(1, "there");
  at(1).send(0, "back");
  at(0).send(2, "other");
  network_.run();
  EXPECT_EQ(at(2).arrivals().size(), 1);
  EXPECT_EQ(network_.under_way().size(), 2);
  network_.mend(0, 1);
  network_.run();
  EXPECT_EQ(at(0).arrivals().size(), 1);
  EXPECT_EQ(at(1).arrivals().size(), 1);
}

TEST_F(InProcessByHand, KilledAndNoticed) {
  at(0).send(1, "to the dead");
  at(1).send(2, "from the dead");
  network_.kill(1, true);
  network_.run();
  EXPECT_EQ(at(0).sent_failed(), 1);
  EXPECT_EQ(at(0).lost(), std::vector<uint32_t>{1});
  EXPECT_EQ(at(2).lost(), std::vector<uint32_t>{1});
  EXPECT_TRUE(at(2).arrivals().empty());
  EXPECT_TRUE(at(1).arrivals().empty());
  at(0).send(1, "too late");
  network_.run();
  EXPECT_EQ(at(0).sent_failed(), 2);
}

TEST_F(InProcessByHand, KilledAndNotNoticed) {
  network_.kill(1, false);
  at(0).send(1, "to the dead");
  network_.run();
  EXPECT_EQ(at(0).sent_failed() + at(0).sent_ok(), 0);
  EXPECT_TRUE(at(0).lost().empty());
  at(0).transport().drop(1);
  network_.run();
  EXPECT_EQ(at(0).sent_failed(), 1);
}

TEST_F(InProcessByHand, DroppedByTheReceiverAlone) {
  at(1).transport().drop(0);
  at(0).send(1, "not heard", "payload");
  network_.run();
  EXPECT_TRUE(at(1).arrivals().empty());
  EXPECT_EQ(at(0).sent_ok(), 1);
}

TEST_F(InProcessByHand, LeavingAnswersEverything) {
  at(0).send(1, "a");
  at(1).send(0, "b");
  at(0).end();
  EXPECT_EQ(at(0).sent_failed(), 1);
  network_.run();
  EXPECT_EQ(at(1).sent_failed(), 1);
  EXPECT_EQ(at(1).lost(), std::vector<uint32_t>{0});
}

TEST(InProcess, MessagesWaitForARankThatHasNotJoined) {
  InProcessNetwork network(2, InProcessNetwork::Delivery::by_hand);
  RankAtWork first(0, 2, [] { return true; });
  RankAtWork second(1, 2, [] { return true; });
  first.start(network.join(0, first.calls()));
  first.send(1, "early");
  EXPECT_FALSE(network.step());
  second.start(network.join(1, second.calls()));
  network.run();
  EXPECT_EQ(second.arrivals().size(), 1);
}

}  // namespace
}  // namespace foreload
