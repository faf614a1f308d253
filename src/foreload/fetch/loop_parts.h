// SPDX-License-Identifier: Apache-2.0
//
// All that an engine's loop works with: what the engine was given, and what it makes of that, each
// part with an owner of its own. A part knows only those above it.
#pragma once

#include <utility>

#include "foreload/fetch/engine_counts.h"
#include "foreload/fetch/engine_parts.h"
#include "foreload/fetch/hand_over.h"
#include "foreload/fetch/lent_tiers.h"
#include "foreload/fetch/open_batches.h"
#include "foreload/fetch/policy_run.h"

namespace foreload {

struct LoopParts : EngineParts {
  // REQUIRES: hands and memory are there.
  explicit LoopParts(EngineParts given) : EngineParts(std::move(given)) {}
  LoopParts(const LoopParts&) = delete;
  LoopParts& operator=(const LoopParts&) = delete;

  PolicyRun run{*this};
  EngineCounts counts{*this};
  HandOver hand_over{counts};
  OpenBatches batches{*this};
  LentTiers lent{*this, counts};
};

}  // namespace foreload
