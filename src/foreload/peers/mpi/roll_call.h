// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of an MPI job make sure that all of them join, with a time-out, which MPI's own
// collective calls do not have: all report to rank 0, which answers with the ranks that are
// missing. Gives a communicator of foreload's own. Private to the MPI transport.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "foreload/base/result.h"

namespace foreload::mpi {

inline constexpr std::chrono::microseconds kShortestPause{50};
inline constexpr std::chrono::microseconds kLongestPause{2000};

// Looks again and again, with pauses, because MPI has no waiting that ends, until `over` says so.
// False when the time is over first.
template <class Over>
bool look_until(std::chrono::steady_clock::time_point deadline, Over over) {
  for (std::chrono::microseconds pause = kShortestPause; !over();
       pause = std::min(2 * pause, kLongestPause)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

// Uses a few messages on MPI_COMM_WORLD, with a tag that programs hardly use. Fails with
// `cancelled` if ranks are missing when the time is over; the message names them.
Result<MPI_Comm> join_all(std::chrono::milliseconds timeout);

}  // namespace foreload::mpi
