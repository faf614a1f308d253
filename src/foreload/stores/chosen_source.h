// SPDX-License-Identifier: Apache-2.0
//
// A source that has its reads done by one of two others and finds out which while it reads
// (engine_choice.h). A read stays with the one that it was given to, so none is lost or answered
// twice when the choice falls; the one that was not chosen finishes what it has and gets no more.
// The trial ends early when more reads are given than one of them works on at once: from then on
// they have to wait for each other in their order. Private to stores.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "foreload/base/result.h"
#include "foreload/stores/source.h"

namespace foreload {

struct Candidates {
  using Make = std::function<Result<std::unique_ptr<Source>>(Source::Answered)>;
  Make preferred;
  Make other;
  unsigned most_in_flight = 256;  // of each
};

// Where only one can be had, it is that one; the error of the preferred one if there is none.
Result<std::unique_ptr<Source>> start_chosen_source(
    const Candidates& candidates, const Source::Answered& answered,
    std::function<SteadyTime()> clock = std::chrono::steady_clock::now);

}  // namespace foreload
