// SPDX-License-Identifier: Apache-2.0
//
// The policy's clock: when to look again, which reads are late, and what is done about them. A read
// that the next batch waits for is hedged; a tier that does not answer is given up.
//
// For one thread.
#pragma once

#include <cstdint>

#include "foreload/policy/peering.h"

namespace foreload {

class Lateness {
 public:
  Lateness(PolicyParts& parts, Reads& reads, Peering& peering)
      : parts_(parts), reads_(reads), peering_(peering) {}

  // Asks to be woken when something may be late or is to be tried again.
  void set_timer();
  void rang();

 private:
  void look();
  void give_up_tier_read(uint32_t slot);

  PolicyParts& parts_;
  Reads& reads_;
  Peering& peering_;
  RunTime next_look_ = kNever;
  RunTime timer_ = kNever;  // set, not rung yet
};

}  // namespace foreload
