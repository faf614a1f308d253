// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of an MPI job make sure that all of them join, with a time-out, which MPI's own
// collective calls do not have: all report to rank 0, which answers with the ranks that are
// missing. Gives a communicator of foreload's own. Private to the MPI transport.
#pragma once

#include <mpi.h>

#include <chrono>

#include "foreload/base/result.h"

namespace foreload::mpi {

// Uses a few messages on MPI_COMM_WORLD, with a tag that programs hardly use. Fails with
// `cancelled` if ranks are missing when the time is over; the message names them.
Result<MPI_Comm> join_all(std::chrono::milliseconds timeout);

}  // namespace foreload::mpi
