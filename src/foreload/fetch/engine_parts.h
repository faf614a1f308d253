// SPDX-License-Identifier: Apache-2.0
//
// What an engine is made of: whoever opens a rank puts these together and gives them away.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "foreload/dataset/index.h"
#include "foreload/decode/form.h"
#include "foreload/decode/sample_transform.h"
#include "foreload/fetch/hands.h"
#include "foreload/fetch/inbox.h"
#include "foreload/fetch/peer_link.h"
#include "foreload/metrics/trace.h"
#include "foreload/plan/plan.h"
#include "foreload/policy/policy.h"
#include "foreload/staging/staging.h"
#include "foreload/stores/source.h"
#include "foreload/tiers/memory_view.h"
#include "foreload/tiers/tier.h"

namespace foreload {

struct EngineParts {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const DatasetIndex> index;
  std::shared_ptr<Inbox> inbox;
  std::unique_ptr<Source> source;            // its answers go to the inbox
  std::vector<std::shared_ptr<Tier>> tiers;  // by number in the plan
  bool lent_to_others = false;               // who may put what this engine needs
  std::vector<Tier::Wanted> keep;            // of what each tier found; none: everything
  std::shared_ptr<Staging> staging;
  std::shared_ptr<Staging> decoded;  // memory of decoded batches; null: `staging`
  SampleTransform transform;         // none: samples are delivered as bytes
  uint64_t transform_seed = 0;
  // In which samples are kept, and whose sizes the plan has; null: files as the source has them. If
  // it is made, policy.made_from has the files' sizes.
  std::shared_ptr<const Form> form;
  std::vector<Held> held;
  PolicySettings policy;            // `decode` and `decoded_bytes` follow from the transform
  std::shared_ptr<PeerLink> peers;  // null: this rank is alone
  // Memory tiers of other ranks on this host, by rank, null where there is none; may be empty.
  std::vector<std::shared_ptr<const MemoryView>> neighbours;
  // Threads that copy and decode, for tiers too that have none; null: one.
  std::unique_ptr<Hands> hands;
  std::shared_ptr<Trace> trace;  // may be null
};

}  // namespace foreload
