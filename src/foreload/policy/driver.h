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

class Driver {
 public:
  virtual ~Driver() = default;

 protected:
  // Until nothing is left; carrying out may add more.
  void carry_out(std::vector<Action>& todo) {
    while (!todo.empty()) {
      std::vector<Action> actions = std::exchange(todo, {});
      look_over(actions);
      for (Action& action : actions) std::visit([this](auto& a) { carry(a); }, action);
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

  // Without peers none of these comes.
  virtual void carry(action::Serve&) { not_alone(); }
  virtual void carry(action::Refuse&) { not_alone(); }
  virtual void carry(action::HoldPush&) { not_alone(); }
  virtual void carry(action::SendPush&) { not_alone(); }
  virtual void carry(action::EndPush&) { not_alone(); }
  virtual void carry(action::TellUnread&) { not_alone(); }
  virtual void carry(action::PlacePushed&) { not_alone(); }
  virtual void carry(action::AnswerPush&) { not_alone(); }
  virtual void carry(action::Ping&) { not_alone(); }
  virtual void carry(action::DropPeer&) { not_alone(); }
  virtual void not_alone() {}
};

}  // namespace foreload
