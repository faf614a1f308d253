// SPDX-License-Identifier: Apache-2.0
//
// Independent pieces of work spread over a few threads that live for one call. For planning, not
// for the data path.
#pragma once

#include <cstdint>
#include <functional>

#include "foreload/base/progress.h"

namespace foreload {

// Calls work(piece, worker) once for every piece in 0 .. pieces - 1, from up to `threads` threads,
// the caller's included; worker < threads tells them apart, for scratch memory. Goes on with fewer
// threads where the system refuses more. Progress hears of finished pieces from the caller's
// thread. Returns false if progress cancelled; some pieces were not done then.
// REQUIRES: threads >= 1; work does not throw.
bool parallel_for(uint64_t pieces, unsigned threads,
                  const std::function<void(uint64_t piece, unsigned worker)>& work,
                  const Progress& progress = {});

}  // namespace foreload
