// SPDX-License-Identifier: Apache-2.0
//
// What the MPI modules export. Their names of MPI are left open: they are those of the library that
// the process has when the module is opened (mpi_library.h).
#include "foreload/peers/border.h"
#include "foreload/peers/mpi/mpi_rendezvous.h"
#include "foreload/peers/mpi/mpi_transport.h"

extern "C" __attribute__((visibility("default")))
const foreload_component foreload_transport_component{
    FORELOAD_BORDER,
    sizeof(foreload_component),
    FORELOAD_VERSION,
    nullptr,
    foreload::border::make_transport<foreload::mpi::MpiTransport::make>,
    foreload::border::make_rendezvous<foreload::mpi::make_rendezvous>};
