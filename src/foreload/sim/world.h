// SPDX-License-Identifier: Apache-2.0
//
// What happens around a simulated rank and no device decides: how reads end, which messages arrive,
// what its loop gets to see. Tests let things go wrong here.
#pragma once

#include <cstdint>
#include <vector>

#include "foreload/policy/actions.h"
#include "foreload/policy/events.h"

namespace foreload::sim {

// How a read will end.
struct Fate {
  ReadEnd end = ReadEnd::ok;
  double delay = 0;    // seconds before it begins
  bool hangs = false;  // it never ends; a source gives up at the deadline
  bool held = false;   // until PolicyRank::end()
};

// What becomes of a message between ranks. Its checksum says whether bytes were damaged on the way.
enum class Arrival : uint8_t { whole, damaged, never };

// Stands for "no sample", in a message that is about none.
inline constexpr uint64_t kNoSample = UINT64_MAX;

// This one lets everything succeed.
class World {
 public:
  virtual ~World() = default;
  virtual Fate fate(uint32_t /*rank*/, const action::Read&) { return {}; }
  virtual bool takes(uint32_t /*rank*/, uint64_t /*sample*/, uint32_t /*tier*/) { return true; }
  // Whether a copy can be read for a peer that asked for it.
  virtual bool serves(uint32_t /*rank*/, uint64_t /*sample*/, uint32_t /*tier*/) { return true; }
  virtual Fate makes(uint32_t /*rank*/, const action::Make&) { return {}; }
  virtual bool decodes(uint32_t /*rank*/, const action::Decode&) { return true; }
  virtual Arrival arrival(uint32_t /*from*/, uint32_t /*to*/, uint64_t /*sample*/) {
    return Arrival::whole;
  }
  // Seconds before a message is sent. Messages from one rank to another stay in order only if later
  // ones are held up as long.
  virtual double delay(uint32_t /*from*/, uint32_t /*to*/) { return 0; }
  // What the policy is about to be told, and what it wants done, which a test may spoil.
  virtual void heard(uint32_t /*rank*/, const Event&) {}
  virtual void pass_on(uint32_t /*rank*/, std::vector<Action>&) {}
  // Bytes of which samples a delivered batch has.
  virtual void delivered(uint32_t /*rank*/, const action::OpenBatch&,
                         const std::vector<uint64_t>& /*samples*/) {}
  // The same of a fetch; kNoSample: it could not be had.
  virtual void fetched(uint32_t /*rank*/, const action::OpenBatch&,
                       const std::vector<uint64_t>& /*samples*/) {}
  // The rank's loop can have another batch.
  virtual void ready(uint32_t /*rank*/) {}
  virtual void failed(uint32_t /*rank*/, const action::Fail&) {}
  virtual void skipped(uint32_t /*rank*/, const action::Skip&) {}
};

}  // namespace foreload::sim
