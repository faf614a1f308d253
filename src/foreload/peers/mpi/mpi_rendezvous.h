// SPDX-License-Identifier: Apache-2.0
//
// A rendezvous over MPI itself, so that a job started with mpirun needs no other place to meet:
// rank 0 keeps the keys, the others ask it on a communicator of their own. MPI cannot wait for an
// event, so both sides look with pauses. The store lives as long as rank 0's object.
#pragma once

#include <memory>

#include "foreload/base/result.h"
#include "foreload/peers/transport.h"

namespace foreload::mpi {

// Collective: all ranks of the job call it. Fails as the MPI transport does.
Result<std::unique_ptr<Rendezvous>> make_rendezvous(const TransportSettings& settings);

}  // namespace foreload::mpi
