// SPDX-License-Identifier: Apache-2.0
//
// What the tests of every tier begin with. A kind of tier is an entry that makes one with a budget;
// a new kind is instantiated in conformance_test.cc and passes everything there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "borrower.h"

namespace foreload {

// What a tier lives in, and the tier. The last member goes first.
struct TierAtWork {
  std::shared_ptr<void> place;
  // While held, no request begins; whoever asks is not held.
  std::function<void(bool held)> hold;
  // Changes a byte of a copy that is there, behind the tier's back.
  std::function<void(const CopyKey& key, uint64_t offset)> damage;
  // Takes away what the tier lives on, behind its back. Null: that cannot happen to it.
  std::function<void()> lose;
  std::shared_ptr<Tier> tier;  // null: this system does not have this kind
};

struct TierKind {
  std::string name;
  // The budget may be rounded up. `at_once`: how many requests the device does at the same time.
  std::function<TierAtWork(uint64_t budget, unsigned at_once)> make;
};

class TierConformance : public testing::TestWithParam<TierKind> {
 protected:
  static constexpr uint64_t kBudget = uint64_t{8} << 20;

  void open(unsigned at_once = 4) {
    at_work_ = GetParam().make(kBudget, at_once);
    if (!at_work_.tier) GTEST_SKIP() << GetParam().name << " is not to be had here";
  }
  Tier& tier() { return *at_work_.tier; }
  TestBorrower& user() {
    if (users_.empty()) users_.push_back(std::make_unique<TestBorrower>(tier()));
    return *users_.front();
  }
  TestBorrower& one_more_user() {
    user();
    return *users_.emplace_back(std::make_unique<TestBorrower>(tier()));
  }
  // Copies first, first + 1, ... of this size until there is no room; how many there are.
  uint64_t fill_up(TestBorrower& user, size_t size, uint64_t first = 0) {
    uint64_t count = 0;
    while (user.put(key_of(first + count), size) == TierEnd::done) ++count;
    return count;
  }
  std::set<uint64_t> held(uint64_t count) {
    std::set<uint64_t> numbers;
    for (uint64_t i = 0; i < count; ++i)
      if (tier().holds(key_of(i))) numbers.insert(i);
    return numbers;
  }
  // Ends everything and looks whether something was answered twice.
  void TearDown() override {
    if (at_work_.hold) at_work_.hold(false);
    at_work_.tier.reset();
    for (const auto& user : users_) EXPECT_EQ(user->repeated(), 0u) << "answered twice";
  }

  TierAtWork at_work_;
  std::vector<std::unique_ptr<TestBorrower>> users_;
};

}  // namespace foreload
