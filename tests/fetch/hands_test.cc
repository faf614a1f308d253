// SPDX-License-Identifier: Apache-2.0
//
// How hands share their time between the own loop and peers, on a clock that only jobs move.
#include "foreload/fetch/hands.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <latch>
#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace foreload {
namespace {

using std::chrono::nanoseconds;

// One thread, held up until everything is queued; the order of jobs as letters: c copies, d
// decodes, p is for peers.
class HandsTest : public testing::Test {
 protected:
  Hands::Job job(char letter, int takes) {
    return [this, letter, takes] {
      order_ += letter;
      time_ += takes;
    };
  }
  void decode(uint64_t batch, int takes) {
    hands_.decode({batch, 0}, 0, [work = job('d', takes)](Scratch&) { work(); });
  }
  void hold_up() {
    hands_.copy([this] { go_.wait(); });
  }
  // All that was queued is done.
  std::string order() {
    go_.count_down();
    while (hands_.load().running + hands_.load().waiting > 0) std::this_thread::yield();
    return order_;
  }

  std::latch go_{1};
  std::string order_;
  std::atomic<int64_t> time_ = 0;
  Hands hands_{1, [this] { return nanoseconds(time_.load()); }};
};

TEST_F(HandsTest, CopiesGoBeforeDecodingAndDecodingByPlace) {
  hold_up();
  decode(2, 1);
  hands_.copy(job('c', 1));
  decode(1, 1);
  EXPECT_EQ(order(), "cdd");
}

// A seek leaves a making that has not begun, and its place gets another one; reads ahead have no
// place at all.
TEST_F(HandsTest, WhatHasNoPlaceComesLastAndNothingIsLost) {
  hold_up();
  const auto decode_as = [this](BatchPlace place, char letter) {
    hands_.decode(place, 0, [work = job(letter, 1)](Scratch&) { work(); });
  };
  decode_as({kNoBatch, 0}, 'a');
  decode_as({kNoBatch, 0}, 'a');
  decode_as({7, 3}, 'd');
  decode_as({7, 3}, 'd');
  decode_as({kFetches, 0}, 'f');
  EXPECT_EQ(order(), "fddaa");
}

// The last sample of a batch keeps the loop waiting as long as it takes alone.
TEST_F(HandsTest, OfABatchTheMostExpensiveIsDecodedFirst) {
  hold_up();
  const auto decode_as = [this](BatchPlace place, uint64_t cost, char letter) {
    hands_.decode(place, cost, [work = job(letter, 1)](Scratch&) { work(); });
  };
  decode_as({2, 0}, 100, 'e');
  decode_as({1, 0}, 5, 'c');
  decode_as({1, 1}, 5, 'd');
  decode_as({1, 2}, 7, 'b');
  decode_as({1, 3}, 90, 'a');
  EXPECT_EQ(order(), "abcde");
}

TEST_F(HandsTest, NeitherSideStarvesTheOther) {
  constexpr int kOwn = 30;
  constexpr int kPeers = 10;
  hold_up();
  for (uint64_t i = 0; i < 100; ++i) {
    hands_.serve(job('p', kPeers));
    decode(i, kOwn);
  }
  int own = 0;
  int peers = 0;
  int own_left = 100;
  int peers_left = 100;
  for (const char letter : order()) {
    (letter == 'p' ? peers : own) += letter == 'p' ? kPeers : kOwn;
    --(letter == 'p' ? peers_left : own_left);
    if (own_left == 0 || peers_left == 0) break;
    EXPECT_LE(std::abs(own - peers), kOwn);
  }
  EXPECT_EQ(peers_left, 0) << "the cheaper side is done first";
  EXPECT_EQ(own_left, 100 - 33 - 1);
}

TEST_F(HandsTest, OneSideAloneHasAllTheTime) {
  hold_up();
  for (int i = 0; i < 20; ++i) hands_.serve(job('p', 5));
  EXPECT_EQ(order(), std::string(20, 'p'));
}

// Peers that come late have not saved up the time before.
TEST_F(HandsTest, WhoHadNothingToDoSavesNothingUp) {
  hands_.copy(job('c', 1'000'000));
  while (hands_.load().running + hands_.load().waiting > 0) std::this_thread::yield();
  order_.clear();
  hold_up();
  for (int i = 0; i < 20; ++i) {
    hands_.serve(job('p', 10));
    hands_.copy(job('c', 10));
  }
  const std::string first = order().substr(0, 20);
  EXPECT_NEAR(static_cast<double>(std::count(first.begin(), first.end(), 'p')), 10, 1);
}

}  // namespace
}  // namespace foreload
