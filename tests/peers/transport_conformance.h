// SPDX-License-Identifier: Apache-2.0
//
// What every transport must do. A kind of transport is an entry that runs a test's body on so many
// ranks, each with a transport; a new kind is instantiated in a test of its own and passes
// everything here.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "rank_at_work.h"

namespace foreload {

using RankBody = std::function<void(RankAtWork&)>;
using JoinRank = std::function<Result<std::unique_ptr<Transport>>(RankAtWork&)>;

struct TransportKind {
  std::string name;
  // Calls `before` and then, with its transport started, `body` for every rank that lives in this
  // process; ends the transport afterwards unless the body did.
  std::function<void(uint32_t ranks, RankBody before, RankBody body)> run;
  // Whether the end of a transport lets go all memory at once. MPI does not give back what it could
  // not deliver.
  bool lets_go = true;
};

inline void PrintTo(const TransportKind& kind, std::ostream* out) {
  *out << kind.name;
}

// Runs a rank from joining to the end.
inline void run_rank(RankAtWork& rank, const JoinRank& join, const RankBody& before,
                     const RankBody& body) {
  if (before) before(rank);
  auto transport = join(rank);
  ASSERT_TRUE(transport) << transport.error().message;
  rank.start(std::move(*transport));
  body(rank);
  rank.meet();
  rank.end();
  EXPECT_LE(rank.most_answers(), 1) << "a message was answered twice";
  EXPECT_EQ(rank.sent_ok() + rank.sent_failed(), rank.sends()) << "a message was not answered";
}

// For kinds whose ranks can live in one process.
inline void run_in_threads(uint32_t ranks, const JoinRank& join, const RankBody& before,
                           const RankBody& body) {
  MeetingPoint point(ranks);
  std::vector<std::jthread> threads;
  for (uint32_t r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      RankAtWork rank(r, ranks, [&] { return point.meet(); });
      run_rank(rank, join, before, body);
    });
  }
}

class TransportConformance : public testing::TestWithParam<TransportKind> {
 protected:
  using Clock = std::chrono::steady_clock;

  void run(uint32_t ranks, RankBody body) { GetParam().run(ranks, nullptr, std::move(body)); }
  void run(uint32_t ranks, RankBody before, RankBody body) {
    GetParam().run(ranks, std::move(before), std::move(body));
  }
};

TEST_P(TransportConformance, PayloadsOfAllSizesArriveInOrder) {
  // 17 MB, and sizes around those where transports change their way of sending.
  const std::vector<size_t> sizes{0,       1,         7,          1000,   1023,    1024,   4096,
                                  8191,    8192,      8193,       16'000, 65'535,  65'536, 65'537,
                                  102'400, 1'000'003, 17'000'000, 3,      102'400, 0};
  run(2, [&](RankAtWork& me) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      me.send(1 - me.rank, "message " + std::to_string(i), payload_bytes(i + me.rank, sizes[i]));
    }
    ASSERT_TRUE(me.wait_for_arrivals(sizes.size()));
    const auto arrivals = me.arrivals();
    for (size_t i = 0; i < sizes.size(); ++i) {
      EXPECT_EQ(arrivals[i].from, 1 - me.rank);
      EXPECT_EQ(arrivals[i].header, "message " + std::to_string(i));
      EXPECT_TRUE(arrivals[i].intact);
      EXPECT_EQ(arrivals[i].bytes, sizes[i]);
      EXPECT_TRUE(arrivals[i].payload == payload_bytes(i + 1 - me.rank, sizes[i])) << sizes[i];
    }
    ASSERT_TRUE(me.wait_for_all_sent());
    EXPECT_EQ(me.sent_failed(), 0);
  });
}

TEST_P(TransportConformance, HeadersOfAllLengths) {
  run(2, [&](RankAtWork& me) {
    for (size_t size = 1; size <= kMostHeaderBytes; ++size) {
      me.send(1 - me.rank, payload_bytes(size, size), size % 3 == 0 ? "payload" : "");
    }
    ASSERT_TRUE(me.wait_for_arrivals(kMostHeaderBytes));
    const auto arrivals = me.arrivals();
    for (size_t size = 1; size <= kMostHeaderBytes; ++size) {
      EXPECT_TRUE(arrivals[size - 1].header == payload_bytes(size, size)) << size;
    }
  });
}

TEST_P(TransportConformance, SmallAndLargeKeepTheirOrder) {
  constexpr size_t kMessages = 300;
  run(2, [&](RankAtWork& me) {
    const auto large = std::make_shared<const std::string>(payload_bytes(1, 300'000));
    const auto small = std::make_shared<const std::string>("x");
    if (me.rank == 0) {
      for (size_t i = 0; i < kMessages; ++i) {
        me.send_shared(1, std::to_string(i), i % 3 == 0 ? large : small);
      }
      ASSERT_TRUE(me.wait_for_all_sent());
    } else {
      ASSERT_TRUE(me.wait_for_arrivals(kMessages));
      const auto arrivals = me.arrivals();
      for (size_t i = 0; i < kMessages; ++i) ASSERT_EQ(arrivals[i].header, std::to_string(i));
    }
  });
}

TEST_P(TransportConformance, PayloadThatIsNotWanted) {
  run(
      2,
      [](RankAtWork& me) {
        me.wanted = [](const std::string& header) { return header == "wanted"; };
      },
      [](RankAtWork& me) {
        if (me.rank == 0) {
          for (const size_t size : {10, 102'400, 5'000'000}) {
            me.send(1, "spam", payload_bytes(1, size));
            me.send(1, "wanted", payload_bytes(2, size));
          }
          ASSERT_TRUE(me.wait_for_all_sent());
          return;
        }
        ASSERT_TRUE(me.wait_for_arrivals(6));
        for (const Arrival& arrival : me.arrivals()) {
          EXPECT_EQ(arrival.payload.empty(), arrival.header == "spam");
          if (arrival.header == "wanted") {
            EXPECT_TRUE(arrival.payload == payload_bytes(2, arrival.bytes));
          }
        }
      });
}

TEST_P(TransportConformance, AllToAll) {
  constexpr uint32_t kRounds = 20;
  run(4, [&](RankAtWork& me) {
    for (uint32_t round = 0; round < kRounds; ++round) {
      for (uint32_t to = 0; to < me.ranks; ++to) {
        if (to == me.rank) continue;
        me.send(to, std::to_string(round), payload_bytes(me.rank * 100 + round, 1000 * round));
      }
    }
    ASSERT_TRUE(me.wait_for_arrivals(kRounds * (me.ranks - 1)));
    std::vector<uint32_t> next(me.ranks);
    for (const Arrival& arrival : me.arrivals()) {
      const uint32_t round = next[arrival.from]++;
      EXPECT_EQ(arrival.header, std::to_string(round));
      EXPECT_TRUE(arrival.payload == payload_bytes(arrival.from * 100 + round, 1000 * round));
    }
    ASSERT_TRUE(me.wait_for_all_sent());
  });
}

TEST_P(TransportConformance, CallsMaySend) {
  constexpr int kTurns = 200;
  run(
      2,
      [](RankAtWork& me) {
        me.on_arrival = [&me](const Arrival& arrival) {
          const int turn = std::stoi(arrival.header);
          if (turn < kTurns) me.send(1 - me.rank, std::to_string(turn + 1), arrival.payload);
        };
      },
      [](RankAtWork& me) {
        if (me.rank == 0) me.send(1, "1", payload_bytes(3, 20'000));
        ASSERT_TRUE(me.wait_for_arrivals(kTurns / 2));
        EXPECT_TRUE(me.arrivals().back().payload == payload_bytes(3, 20'000));
        ASSERT_TRUE(me.wait_for_all_sent());
      });
}

// A request and its reply, as peers do: each of the ranks asks and serves at the same time.
TEST_P(TransportConformance, RequestsAndReplies) {
  constexpr size_t kRequests = 200;
  const auto sample = std::make_shared<const std::string>(payload_bytes(5, 102'400));
  run(
      3,
      [&](RankAtWork& me) {
        me.on_arrival = [&](const Arrival& arrival) {
          if (arrival.header == "please") me.send_shared(arrival.from, "here", sample);
        };
      },
      [&](RankAtWork& me) {
        for (uint32_t i = 0; i < kRequests; ++i) me.send((me.rank + 1 + i % 2) % 3, "please");
        const auto replies = [&] {
          const auto arrivals = me.arrivals();
          return std::count_if(arrivals.begin(), arrivals.end(), [&](const Arrival& arrival) {
            return arrival.header == "here" && arrival.payload == *sample;
          });
        };
        ASSERT_TRUE(me.wait_for_arrivals(2 * kRequests));
        EXPECT_EQ(replies(), kRequests);
        ASSERT_TRUE(me.wait_for_all_sent());
      });
}

TEST_P(TransportConformance, TenThousandSmallMessages) {
  constexpr size_t kMessages = 10'000;
  run(2, [&](RankAtWork& me) {
    if (me.rank == 0) {
      for (size_t i = 0; i < kMessages; ++i) me.send(1, std::to_string(i));
      ASSERT_TRUE(me.wait_for_all_sent());
      EXPECT_EQ(me.sent_ok(), kMessages);
      return;
    }
    ASSERT_TRUE(me.wait_for_arrivals(kMessages));
    const auto arrivals = me.arrivals();
    for (size_t i = 0; i < kMessages; ++i) ASSERT_EQ(arrivals[i].header, std::to_string(i));
  });
}

TEST_P(TransportConformance, SeveralThreadsSend) {
  constexpr size_t kThreads = 4, kEach = 200;
  run(2, [&](RankAtWork& me) {
    {
      std::vector<std::jthread> threads;
      for (size_t t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
          for (size_t i = 0; i < kEach; ++i) {
            me.send(1 - me.rank, std::string(1, static_cast<char>('a' + t)) + std::to_string(i),
                    payload_bytes(i, i * 40));
          }
        });
      }
    }
    ASSERT_TRUE(me.wait_for_arrivals(kThreads * kEach));
    std::vector<size_t> next(kThreads);
    for (const Arrival& arrival : me.arrivals()) {
      const auto thread = static_cast<size_t>(arrival.header[0] - 'a');
      ASSERT_EQ(arrival.header.substr(1), std::to_string(next.at(thread)++));
    }
    ASSERT_TRUE(me.wait_for_all_sent());
  });
}

// A sender that is faster than its receiver holds what was not sent; the receiver only what it gave
// places for, and lets them go one after the other.
TEST_P(TransportConformance, PlacesAreLetGo) {
  constexpr size_t kMessages = 100;
  run(2, [&](RankAtWork& me) {
    if (me.rank == 0) {
      const auto payload = std::make_shared<const std::string>(payload_bytes(1, 500'000));
      for (size_t i = 0; i < kMessages; ++i) me.send_shared(1, "m", payload);
      ASSERT_TRUE(me.wait_for_all_sent());
      EXPECT_EQ(payload.use_count(), 1) << "a payload is kept after `sent`";
    } else {
      ASSERT_TRUE(me.wait_for_arrivals(kMessages));
      EXPECT_LE(me.most_places(), kMessages);
    }
  });
}

TEST_P(TransportConformance, DroppedPeerIsSilent) {
  run(3, [](RankAtWork& me) {
    me.send((me.rank + 1) % 3, "before");
    ASSERT_TRUE(me.wait_for_arrivals(1));
    ASSERT_TRUE(me.wait_for_all_sent());
    me.meet();
    if (me.rank == 0) me.transport().drop(1);
    me.meet();
    if (me.rank == 0) {
      me.send(1, "into the void", payload_bytes(1, 1'000'000));
      ASSERT_TRUE(me.wait_for_all_sent());
      EXPECT_EQ(me.sent_failed(), 1);
      me.send(2, "still there");
    } else if (me.rank == 1) {
      me.send(0, "ignored", payload_bytes(1, 1000));
      me.send(2, "from 1");
    } else {
      ASSERT_TRUE(me.wait_for_arrivals(3));
      me.send(0, "from 2");
    }
    if (me.rank == 0) {
      ASSERT_TRUE(me.wait_for_arrivals(2));
      EXPECT_EQ(me.arrivals().back().header, "from 2");
      EXPECT_EQ(me.arrivals().size(), 2);
    }
  });
}

TEST_P(TransportConformance, DropWithMuchUnderWay) {
  run(2, [](RankAtWork& me) {
    const auto payload = std::make_shared<const std::string>(payload_bytes(1, 4'000'000));
    for (int i = 0; i < 30; ++i) me.send_shared(1 - me.rank, "large", payload);
    me.transport().drop(1 - me.rank);
    ASSERT_TRUE(me.wait_for_all_sent());
  });
}

TEST_P(TransportConformance, PeerThatLeavesIsLostOrSilent) {
  run(3, [](RankAtWork& me) {
    me.send((me.rank + 1) % 3, "hello");
    me.send((me.rank + 2) % 3, "hello");
    ASSERT_TRUE(me.wait_for_arrivals(2));
    ASSERT_TRUE(me.wait_for_all_sent());
    me.meet();
    if (me.rank == 2) me.end();
    me.meet();
    if (me.rank == 2) return;
    // Whatever becomes of these, the ranks that stay talk to each other.
    for (int i = 0; i < 10; ++i) me.send(2, "anybody?", payload_bytes(1, 200'000));
    me.send(1 - me.rank, "we stay", payload_bytes(2, 200'000));
    ASSERT_TRUE(me.wait_for_arrivals(3));
    EXPECT_EQ(me.arrivals().back().header, "we stay");
    me.transport().drop(2);
    ASSERT_TRUE(me.wait_for_all_sent());
    EXPECT_LE(me.lost().size(), 1);
  });
}

TEST_P(TransportConformance, EndWithEverythingInFlight) {
  run(3, [lets_go = GetParam().lets_go](RankAtWork& me) {
    const auto payload = std::make_shared<const std::string>(payload_bytes(1, 3'000'000));
    for (int i = 0; i < 40; ++i) {
      me.send_shared((me.rank + 1) % 3, "large", payload);
      me.send_shared((me.rank + 2) % 3, "large", payload);
      me.send((me.rank + 1) % 3, "small");
    }
    ASSERT_TRUE(me.wait_for_arrivals(1));
    me.meet();
    const auto start = Clock::now();
    me.end();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
    EXPECT_EQ(me.sent_ok() + me.sent_failed(), 120);
    if (lets_go) {
      EXPECT_EQ(payload.use_count(), 1);
    }
  });
}

TEST_P(TransportConformance, EndWithoutAnyTraffic) {
  run(4, [](RankAtWork&) {});
}

TEST_P(TransportConformance, DescribesItself) {
  run(2, [](RankAtWork& me) { EXPECT_FALSE(me.transport().describe().empty()); });
}

}  // namespace foreload
