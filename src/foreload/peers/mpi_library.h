// SPDX-License-Identifier: Apache-2.0
//
// Which MPI library this process has, so that the module that was built for it can be opened: the
// one that the program has loaded (mpi4py, a program under mpirun), else the one that belongs to
// whoever started it (Open MPI's mpirun, MPICH's mpiexec), else whichever there is. Private to
// peers; any thread.
#pragma once

#include <string>

#include "foreload/base/result.h"

namespace foreload::peers {

struct MpiLibrary {
  std::string module;  // "mpi_openmpi", or "mpi_mpich" for all that have MPICH's ABI
  std::string file;    // of the library; empty: it is linked into the program
};

// What the library says of itself decides; nothing if its ABI is known to be neither.
std::string module_for_mpi(const std::string& library_version);

// Loads the library if it is not there, and makes its names visible to what is opened later, as
// Open MPI needs for its own plugins. Fails with `unreadable` if there is none, `invalid` if there
// is no module for it.
Result<MpiLibrary> find_mpi_library();

}  // namespace foreload::peers
