// SPDX-License-Identifier: Apache-2.0
//
// Starts MPI where the program has not done so, with threads, and makes sure that MPI and foreload
// mean the same ranks. Private to the MPI transport and its rendezvous; one thread at a time.
#pragma once

#include "foreload/base/result.h"
#include "foreload/peers/transport.h"

namespace foreload::mpi {

// Whoever starts MPI ends it, when the program ends. Fails with `invalid` after MPI_Finalize, if
// MPI does not allow calls from several threads, or counts ranks otherwise than `settings`.
Result<void> start_mpi(const TransportSettings& settings);

// A rank was lost, and MPI_Finalize would wait for it for ever: Open MPI is told not to, whoever
// calls it. With another MPI, where foreload started it, the process ends without.
void do_not_wait_for_the_dead();

// After MPI_Finalize nothing of MPI may be called.
bool finalized();

}  // namespace foreload::mpi
