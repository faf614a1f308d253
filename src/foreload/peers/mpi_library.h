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

// The module for a library that says this of itself: "mpi_openmpi", or "mpi_mpich" for all that
// have MPICH's ABI; empty if it is known to have neither.
std::string module_for_mpi(const std::string& library_version);

// The module for this process. Loads the library if it is not there, and makes its names visible to
// what is opened later: the module takes them from there, and Open MPI's plugins do. Fails with
// `unreadable` if there is no library, `invalid` if there is no module for it.
Result<std::string> find_mpi_module();

}  // namespace foreload::peers
