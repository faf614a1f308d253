// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a job tell each other before they plan and read: which data set they see, how
// much they can keep, and what their disks hold already. All of it passes through the rendezvous;
// after that nothing is collective any more.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

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
};

struct RankFacts {
  Digest fingerprint;           // of the data set
  std::vector<uint64_t> tiers;  // bytes of payload, fastest first
  std::vector<Held> held;       // by this rank; ascending by sample
};

// Gives the own facts and collects those of all ranks. Fails with `cancelled` when the time is over
// (the message names the ranks that are missing), `invalid` if a rank sees another data set (it is
// named), `corrupt` if what a rank gave makes no sense.
Result<std::vector<RankFacts>> exchange_facts(const JoinSettings& join, uint32_t rank,
                                              uint32_t ranks, const RankFacts& own);

// Fails with `invalid` if a rank has come to another plan (it is named), or as exchange_facts()
// does.
Result<void> agree_on_plan(const JoinSettings& join, uint32_t rank, uint32_t ranks,
                           const Digest& plan);

}  // namespace foreload
