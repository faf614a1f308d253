// SPDX-License-Identifier: Apache-2.0
//
// Carries out what the policy decides, with real devices: opens batches, has samples read, made,
// decoded and placed, and hands over what is finished. What concerns peers is PeerExchange's.
//
// For the loop thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "foreload/base/result.h"
#include "foreload/fetch/decode_costs.h"
#include "foreload/fetch/hands.h"
#include "foreload/fetch/inbox.h"
#include "foreload/fetch/loop_parts.h"
#include "foreload/fetch/pending_reads.h"
#include "foreload/policy/driver.h"

namespace foreload {

class EngineDriver : private Driver {
 public:
  EngineDriver(LoopParts& parts, PendingReads& reads, PeerDriver& peers)
      : Driver(peers), parts_(parts), reads_(reads) {}

  // A round: all that the policy wants by now.
  void carry_out_all();

  void handle(message::Made& made);
  void handle(message::Decoded& decoded);

 private:
  // What a hand makes into the form in which samples are kept.
  struct MakingJob {
    BatchPlace place;
    std::shared_ptr<Slot> memory;  // for what has no batch
  };

  void carry(action::ComputeEpoch& a) override;
  void carry(action::OpenBatch& a) override;
  void carry(action::Read& a) override { reads_.begin(a); }
  void carry(action::Cancel& a) override;
  void carry(action::Make& a) override;
  void carry(action::Decode& a) override;
  void carry(action::Place& a) override;
  void carry(action::Evict& a) override { parts_.lent.evict(a.tier, a.sample); }
  void carry(action::Copy& a) override;
  void carry(action::Substitute& a) override;
  void carry(action::LoseTier& a) override;
  void carry(action::Deliver& a) override;
  void carry(action::Fail& a) override;
  void carry(action::Skip& a) override;
  void carry(action::SetTimer& a) override { parts_.run.set_timer(a.at); }
  void carry(action::CloseBatch& a) override { parts_.batches.close(a.batch); }

  // Otherwise samples are decoded when they are made, and copied in the end.
  bool finish_decodes() const;
  void count_decoded(uint64_t sample, std::chrono::nanoseconds took);
  uint64_t expected_cost(uint64_t sample) const;
  // A batch cannot be delivered; of a fetch, a place.
  void fail_place(BatchPlace place, Error error);

  LoopParts& parts_;
  PendingReads& reads_;
  DecodeCosts costs_{parts_.plan->sizes().samples()};
  std::unordered_map<uint64_t, MakingJob> making_;    // by request
  std::unordered_map<uint64_t, std::string> unmade_;  // why, by sample
  Hands computing_{1};  // one thread for orders, so that copies do not wait for them
};

}  // namespace foreload
