// SPDX-License-Identifier: Apache-2.0
//
// The figures that a verdict is made of, taken from an engine: what does not change while a rank
// runs, and what its counters say about the time between two looks at them.
//
// Plain values; any thread.
#pragma once

#include "foreload/fetch/engine_parts.h"
#include "foreload/fetch/engine_stats.h"
#include "foreload/loader/loader.h"
#include "foreload/verdict/verdict.h"

namespace foreload {

// What is known when all parts of a rank are there. `local`: ranks on this host that talk to each
// other; `memory_limit`: bytes that this process may fill.
EpochFigures lasting_figures(const LoaderSettings& settings, const EngineParts& parts,
                             const LoaderStart& start, uint32_t local, uint64_t memory_limit);

// Sets what the engine counted between two looks: stages and losses. What the loop's thread counts
// stays as it is.
void set_counters(const EngineStats& before, const EngineStats& now, const EpochFigures& lasting,
                  EpochFigures& figures);

}  // namespace foreload
