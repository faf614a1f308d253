// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/mpi/start.h"

#include <dlfcn.h>
#include <mpi.h>

#include <atomic>
#include <cstdlib>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"

namespace foreload::mpi {
namespace {

// Of the process, as MPI is.
std::atomic<bool> finalize_would_hang = false;

Result<void> initialise() {
  int started = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&started);
  if (finalized()) {
    return fail(ErrorKind::invalid,
                "the MPI transport cannot be used after MPI_Finalize. Make the loader before");
  }
  if (started == 0) {
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    // Whoever starts it ends it, when the program does and all loaders are gone.
    std::atexit([] {
      if (!finalized() && !finalize_would_hang) MPI_Finalize();
    });
  } else {
    MPI_Query_thread(&level);
  }
  if (level >= MPI_THREAD_MULTIPLE) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("the MPI transport needs MPI_THREAD_MULTIPLE, but {} level {} only. {}",
                  started != 0 ? "the program initialised MPI with" : "this MPI library gives",
                  level,
                  started != 0 ? "Call MPI_Init_thread with MPI_THREAD_MULTIPLE (mpi4py does), "
                                 "or let foreload initialise MPI"
                               : "Use one that was built with thread support"));
}

}  // namespace

void do_not_wait_for_the_dead() {
  // What `mpirun --mca async_mpi_finalize 1` sets. A name of Open MPI 4 and 5; it is looked up, so
  // others just lack it.
  auto* const without_barrier =
      static_cast<bool*>(::dlsym(RTLD_DEFAULT, "ompi_async_mpi_finalize"));
  if (without_barrier != nullptr) {
    *without_barrier = true;
  } else {
    finalize_would_hang = true;
  }
}

bool finalized() {
  int yes = 0;
  MPI_Finalized(&yes);
  return yes != 0;
}

Result<void> start_mpi(const TransportSettings& settings) {
  const SignalsBlocked in_threads_of_mpi;
  FORELOAD_CHECK(initialise());
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (settings.rank != static_cast<uint32_t>(rank) ||
      settings.ranks != static_cast<uint32_t>(ranks)) {
    return fail(
        ErrorKind::invalid,
        fmt::format("this is rank {} of {} in MPI, but foreload was told {} of {}. Start the job "
                    "with mpirun or srun, and leave rank and ranks to it",
                    rank, ranks, settings.rank, settings.ranks));
  }
  return {};
}

}  // namespace foreload::mpi
