// SPDX-License-Identifier: Apache-2.0
//
// All that a policy remembers, each part with an owner of its own. A part knows only those above
// it.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "foreload/policy/choice.h"
#include "foreload/policy/copies.h"
#include "foreload/policy/demand.h"
#include "foreload/policy/desk.h"
#include "foreload/policy/first_reads.h"
#include "foreload/policy/flights.h"
#include "foreload/policy/keepers.h"
#include "foreload/policy/keeping.h"
#include "foreload/policy/lives.h"
#include "foreload/policy/making.h"
#include "foreload/policy/paths.h"
#include "foreload/policy/pushes.h"
#include "foreload/policy/reading_list.h"
#include "foreload/policy/serving.h"
#include "foreload/policy/window.h"

namespace foreload {

struct PolicyParts {
  PolicyParts(std::shared_ptr<const Plan> plan, PolicySettings settings, std::span<const Held> held)
      : desk(std::move(plan), std::move(settings)), keeping(desk, copies, keepers, lives, held) {}
  PolicyParts(const PolicyParts&) = delete;
  PolicyParts& operator=(const PolicyParts&) = delete;

  Desk desk;
  Copies copies{desk};
  Lives lives{desk};
  FirstReads first_reads{desk, copies, lives};
  Keepers keepers{desk, lives, first_reads};
  Keeping keeping;
  ReadingList list{desk, first_reads};
  BatchWindow window{desk};
  Demand demand{desk, window};
  Paths paths{desk};
  Choice choice{desk, paths, window, demand};
  Flights flights{desk, paths, window};
  Making making{desk};
  Serving serving{desk, copies, keeping, lives};
  Pushes pushes{desk, keepers, lives};
};

}  // namespace foreload
