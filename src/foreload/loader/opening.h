// SPDX-License-Identifier: Apache-2.0
//
// Puts one rank together: lists or loads the data set, opens its disks, joins the other ranks,
// plans, and opens memory and source. What comes out needs no more than an engine to run it.
#pragma once

#include <memory>

#include "foreload/base/result.h"
#include "foreload/fetch/engine_parts.h"
#include "foreload/loader/loader.h"

namespace foreload {

struct OpenedRank {
  LoaderStats stats;                    // what is known from the start
  std::unique_ptr<Cache::Loan> loan;    // outlives the engine
  std::unique_ptr<SharedTiers> shared;  // null without neighbours; outlives the engine
  EngineParts parts;
};

Result<OpenedRank> open_rank(LoaderSettings settings);

}  // namespace foreload
