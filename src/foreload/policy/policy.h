// SPDX-License-Identifier: Apache-2.0
//
// All decisions of a rank: what to read next and from where, what to keep, when to retry, what to
// deliver. One deterministic state machine, on(event, now) -> actions. No thread, no clock, no I/O,
// no global state: `fetch` drives it with real devices, `sim` with modelled ones, the same object
// code.
//
// The rank's reading list, across epochs, is cut into batches; a window of batches, bounded in
// bytes, is open at a time. Each sample of an open batch is read once: from the tier that holds it,
// otherwise from the source, in reading order as far as the limiter of that path allows. A sample
// that this rank owns is kept in its tier when it arrives. While the source has room and the window
// is full, owned samples further ahead are read into their tiers. Batches are delivered in order.
//
// Samples may be kept in another form than the source has. Then what a read of the source brings is
// made into that form first, and has arrived when it is made: tiers, peers and places of batches
// know no other.
//
// With peers, ranks act as one cache. A sample's first reader in the run reads it from the source
// and pushes it to the sample's owner; everybody else asks the owner, who makes them wait as long
// as the push is still to come. Memory of ranks on the same host is read in place, before anybody
// is asked. A peer that was silent for the peer timeout while something was owed is dead for the
// rest of the run: what it owned is adopted by survivors, those that have a replica first, then
// those that have room. Replicas are kept as they come by and give way to what is adopted.
//
// A read that the next batch waits for and that takes far longer than reads on its path usually do
// is hedged: the sample is read a second time, from another copy or the source, and the first to
// arrive is taken. Hedged reads stay below a small share of all bytes.
//
// Fetches are batches beside the reading list: read over the same paths, in turn with the ordered
// ones, kept where the plan wants it, and delivered as soon as they are complete.
//
// This class only says who deals with what: parts.h lists what is remembered and where.
//
// For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "foreload/policy/lateness.h"
#include "foreload/policy/parts.h"
#include "foreload/policy/peering.h"
#include "foreload/policy/reads.h"

namespace foreload {

class Policy {
 public:
  // `held`: what tiers of this rank hold at the start. The plan is shared and const.
  // REQUIRES: at most 16 tiers.
  Policy(std::shared_ptr<const Plan> plan, PolicySettings settings,
         std::span<const Held> held = {});

  // The first actions of a run that begins where the plan does.
  void begin(RunTime now, std::vector<Action>& actions);
  // Appends to `actions`. Time never goes back.
  void on(const Event& event, RunTime now, std::vector<Action>& actions);

  const Limiter& source_limiter() const { return parts_.paths.limiter(kSource); }
  const Limiter& tier_limiter(uint32_t tier) const {
    return parts_.paths.limiter(tier_origin(tier));
  }
  // Places that wait for a read from the tier.
  uint64_t waiting_for_tier(uint32_t tier) const { return parts_.paths.waiting(tier_origin(tier)); }
  PolicyTotals totals() const;
  // Who is asked for the sample, as far as this rank knows: its owner, or who adopts what the dead
  // owned; kNoOwner: nobody. REQUIRES: settings.peers.
  uint32_t keeper_of(uint64_t sample) const { return parts_.keepers.keeper_of(sample); }

 private:
  void handle(const event::EpochKnown& e) { parts_.list.learn(e); }
  void handle(const event::ReadEnded& e) { reads_.ended(e); }
  void handle(const event::Found& e) { reads_.found(e); }
  void handle(const event::Placed& e) { reads_.placed(e); }
  void handle(const event::Made& e) { reads_.made(e); }
  void handle(const event::Decoded& e) { parts_.window.decoded(e); }
  void handle(const event::Consumed& e) {
    parts_.demand.consumed(parts_.window.first_delivered_at());
    parts_.window.consumed(e.batch);
  }
  void handle(const event::Timer&) { lateness_.rang(); }
  void handle(const event::TierLost& e) { reads_.lose_tier(e.tier); }
  void handle(const event::Seek& e) { reads_.seek(e); }
  void handle(const event::Fetch& e) { parts_.window.queue(e); }
  void handle(const event::ForgetFetch& e) { parts_.window.forget(e.batch); }
  template <class OfPeers>
  void handle(const OfPeers& e) {
    if (parts_.desk.with_peers) peering_.on(e);
  }
  void go_on();

  PolicyParts parts_;
  Reads reads_{parts_};
  Peering peering_{parts_, reads_};
  Lateness lateness_{parts_, reads_, peering_};
};

}  // namespace foreload
