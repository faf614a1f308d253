// SPDX-License-Identifier: Apache-2.0
//
// Ways to be wrong, put between a policy and its driver. Whoever checks policies under faults must
// find all of them out.
#pragma once

#include <random>
#include <utility>
#include <vector>

#include "foreload/policy/actions.h"

namespace foreload::sim {

enum class Sabotage {
  none,
  lose_read,        // a read is forgotten
  repeat_deliver,   // a batch is delivered twice
  swap_deliveries,  // two batches change places
  wrong_sample,     // another sample is read into a place
  forget_copy,      // the source is read although a copy is at hand
  crowd_tier,       // what belongs onto the disk goes into memory
  lose_make,        // what was read is never made into what is kept
  lose_decode,      // a sample is never decoded, its batch never complete
  // For several ranks.
  ask_nobody,       // the source is read although a peer keeps the sample
  refuse_peers,     // peers are told that what they ask for is not here
  lose_serve,       // or are told nothing
  lose_push,        // a push is not sent
  lose_answer,      // a push is not answered
  drop_the_living,  // a peer is given up without a reason
};

class Saboteur {
 public:
  Saboteur(Sabotage sabotage, uint64_t seed, uint64_t samples, uint32_t ranks)
      : sabotage_(sabotage), random_(seed), samples_(samples), ranks_(ranks) {}

  void spoil(std::vector<Action>& actions) {
    switch (sabotage_) {
      case Sabotage::none:
        return;
      case Sabotage::lose_read:
        return forget<action::Read>(actions, 0.05);
      case Sabotage::lose_make:
        return forget<action::Make>(actions, 0.05);
      case Sabotage::lose_decode:
        return forget<action::Decode>(actions, 0.05);
      case Sabotage::lose_serve:
        return forget<action::Serve>(actions, 0.5);
      case Sabotage::lose_push:
        return forget<action::SendPush>(actions, 0.5);
      case Sabotage::lose_answer:
        return forget<action::AnswerPush>(actions, 1);
      case Sabotage::swap_deliveries:
        return swap_deliveries(actions);
      case Sabotage::drop_the_living:
        if (chance(0.01))
          actions.push_back(action::DropPeer{static_cast<uint32_t>(random_() % ranks_)});
        return;
      default:
        for (Action& action : actions) spoil(action);
    }
  }

 private:
  bool chance(double share) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < share;
  }

  void spoil(Action& action) {
    if (auto* read = std::get_if<action::Read>(&action)) {
      if (sabotage_ == Sabotage::wrong_sample && chance(0.1))
        read->sample = (read->sample + 1) % samples_;
      if (sabotage_ == Sabotage::forget_copy && read->from.kind == Origin::Kind::tier &&
          chance(0.1))
        read->from = {};
      if (sabotage_ == Sabotage::ask_nobody && read->from.kind == Origin::Kind::peer && chance(0.2))
        read->from = {};
    } else if (auto* place = std::get_if<action::Place>(&action)) {
      if (sabotage_ == Sabotage::crowd_tier) place->tier = 0;
    } else if (auto* pushed = std::get_if<action::PlacePushed>(&action)) {
      if (sabotage_ == Sabotage::crowd_tier) pushed->tier = 0;
    } else if (const auto* deliver = std::get_if<action::Deliver>(&action)) {
      // The driver knows a batch once; a second delivery shows as one too many of the next.
      if (sabotage_ == Sabotage::repeat_deliver && chance(0.2))
        action = action::Deliver{deliver->batch + 1};
    } else if (const auto* serve = std::get_if<action::Serve>(&action)) {
      if (sabotage_ == Sabotage::refuse_peers && chance(0.2))
        action = action::Refuse{serve->rank, serve->request};
    }
  }
  template <class Forgotten>
  void forget(std::vector<Action>& actions, double share) {
    std::erase_if(actions, [&](const Action& action) {
      return std::holds_alternative<Forgotten>(action) && chance(share);
    });
  }
  void swap_deliveries(std::vector<Action>& actions) {
    action::Deliver* first = nullptr;
    for (Action& action : actions) {
      auto* deliver = std::get_if<action::Deliver>(&action);
      if (deliver == nullptr) continue;
      if (first != nullptr) return std::swap(*first, *deliver);
      first = deliver;
    }
  }

  Sabotage sabotage_;
  std::mt19937_64 random_;
  uint64_t samples_;
  uint32_t ranks_;
};

}  // namespace foreload::sim
