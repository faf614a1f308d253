// SPDX-License-Identifier: Apache-2.0
//
// Whoever carries out what a policy decides: the engine with real devices, the simulator with
// modelled ones, also in tests. One function per action, so that a new action is missed by nobody.
//
// For one thread.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "foreload/policy/actions.h"

namespace foreload {

// What ranks do for each other.
class PeerDriver {
 public:
  virtual ~PeerDriver() = default;
  virtual void carry(action::Serve& a) = 0;
  virtual void carry(action::Refuse& a) = 0;
  virtual void carry(action::HoldPush& a) = 0;
  virtual void carry(action::SendPush& a) = 0;
  virtual void carry(action::EndPush& a) = 0;
  virtual void carry(action::TellUnread& a) = 0;
  virtual void carry(action::PlacePushed& a) = 0;
  virtual void carry(action::AnswerPush& a) = 0;
  virtual void carry(action::Ping& a) = 0;
  virtual void carry(action::DropPeer& a) = 0;
};

template <typename A>
concept ForPeers = requires(PeerDriver& driver, A& a) { driver.carry(a); };

class Driver {
 public:
  virtual ~Driver() = default;

 protected:
  // REQUIRES: `peers` outlives every carry_out(); without peers it is never called.
  explicit Driver(PeerDriver& peers) : peers_(peers) {}
  // Until nothing is left; carrying out may add more.
  void carry_out(std::vector<Action>& todo) {
    while (!todo.empty()) {
      std::vector<Action> actions = std::exchange(todo, {});
      look_over(actions);
      for (Action& action : actions) {
        std::visit(
            [this]<typename A>(A& a) {
              if constexpr (ForPeers<A>) {
                peers_.carry(a);
              } else {
                carry(a);
              }
            },
            action);
      }
    }
  }
  // Before they are carried out.
  virtual void look_over(std::vector<Action>&) {}

  virtual void carry(action::ComputeEpoch& a) = 0;
  virtual void carry(action::OpenBatch& a) = 0;
  virtual void carry(action::Read& a) = 0;
  virtual void carry(action::Cancel& a) = 0;
  virtual void carry(action::Make& a) = 0;
  virtual void carry(action::Decode& a) = 0;
  virtual void carry(action::Place& a) = 0;
  virtual void carry(action::Evict& a) = 0;
  virtual void carry(action::Copy& a) = 0;
  virtual void carry(action::Substitute& a) = 0;
  virtual void carry(action::LoseTier& a) = 0;
  virtual void carry(action::Deliver& a) = 0;
  virtual void carry(action::Fail& a) = 0;
  virtual void carry(action::Skip& a) = 0;
  virtual void carry(action::SetTimer& a) = 0;
  virtual void carry(action::CloseBatch& a) = 0;

 private:
  PeerDriver& peers_;
};

}  // namespace foreload
