// SPDX-License-Identifier: Apache-2.0
//
// The conformance suite for the MPI transport. Every rank is a process and runs the same tests in
// the same order; mpirun starts them. The program initialises MPI itself, as a user's does.
#include <mpi.h>

#include <cstdlib>

#include "transport_conformance.h"

namespace foreload {
namespace {

int world(int (*ask)(MPI_Comm, int*)) {
  int value = 0;
  ask(MPI_COMM_WORLD, &value);
  return value;
}

const TransportKind kMpi{
    "Mpi",
    [](uint32_t ranks, const RankBody& before, const RankBody& body) {
      // The transport joins all ranks of the job; tests of fewer leave the others out.
      const auto own = static_cast<uint32_t>(world(MPI_Comm_rank));
      const auto all = static_cast<uint32_t>(world(MPI_Comm_size));
      ASSERT_GE(all, ranks) << "start with mpirun -n " << ranks;
      MPI_Comm part = MPI_COMM_NULL;
      MPI_Comm_split(MPI_COMM_WORLD, own < ranks ? 0 : 1, static_cast<int>(own), &part);
      RankAtWork member(own, ranks, [&] { return MPI_Barrier(part) == MPI_SUCCESS; });
      const JoinRank join = [&](RankAtWork& at_work) {
        TransportSettings settings;
        settings.rank = own;
        settings.ranks = all;
        settings.components = FORELOAD_TEST_COMPONENTS;
        return load_transport("mpi", settings, at_work.calls());
      };
      run_rank(
          member, join, own < ranks ? before : RankBody(), own < ranks ? body : [](RankAtWork&) {});
      MPI_Comm_free(&part);
      MPI_Barrier(MPI_COMM_WORLD);
    },
    false};
INSTANTIATE_TEST_SUITE_P(Mpi, TransportConformance, testing::Values(kMpi),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace foreload

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
