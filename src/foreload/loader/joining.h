// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a job tell each other before they plan and read: their version, which data set
// they see, how much they can keep, and what their disks hold already. All of it passes through the
// rendezvous; after that nothing is collective any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "foreload/base/form_id.h"
#include "foreload/base/hash.h"
#include "foreload/base/result.h"
#include "foreload/peers/rendezvous.h"
#include "foreload/peers/transport.h"
#include "foreload/plan/placement.h"

namespace foreload {

// How a rank joins the others.
struct JoinSettings {
  std::shared_ptr<Rendezvous> rendezvous;
  // Makes the transport; called once all ranks have come to the same plan.
  std::function<Result<std::unique_ptr<Transport>>(TransportCalls calls)> connect;
  std::chrono::milliseconds timeout{60'000};  // for all ranks to be there
  std::string transport;                      // that connect() makes, the same on all ranks
  std::string interface;                      // that it listens on; empty: no matter
  std::string host;                           // of this rank, by name
  std::string why;                            // this transport, for people
};

struct RankFacts {
  Digest fingerprint;           // of the data set
  FormId form = kEncoded;       // in which its samples are kept
  std::vector<uint64_t> tiers;  // bytes of payload, fastest first
  std::vector<Held> held;       // by this rank; ascending by sample
};

// Gives the own facts and collects those of all ranks. Fails with `cancelled` when the time is over
// (the message names the ranks that are missing), `invalid` if a rank sees another data set (it is
// named), keeps it in another form, runs another version, or cannot be reached, `corrupt` if what a
// rank gave makes no sense. `samples` are those of the data set.
Result<std::vector<RankFacts>> exchange_facts(const JoinSettings& join, uint32_t rank,
                                              uint32_t ranks, uint64_t samples,
                                              const RankFacts& own);

// Fails with `invalid` if a rank has come to another plan (it is named), or as exchange_facts()
// does.
Result<void> agree_on_plan(const JoinSettings& join, uint32_t rank, uint32_t ranks,
                           const Digest& plan);

// Makes the transport, and returns at rank 0 when all ranks have one. Fails as join.connect() does.
Result<std::unique_ptr<Transport>> connect_ranks(const JoinSettings& join, uint32_t rank,
                                                 uint32_t ranks, TransportCalls calls);

}  // namespace foreload
