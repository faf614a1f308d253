// SPDX-License-Identifier: Apache-2.0
//
// Every kind of transport whose ranks can live in one process; mpi_conformance.cc has the other.
#include "foreload/peers/in_process.h"

#include "loopback_job.h"
#include "transport_conformance.h"

namespace foreload {
namespace {

const TransportKind kInProcess{
    "InProcess", [](uint32_t ranks, const RankBody& before, const RankBody& body) {
      InProcessNetwork network(ranks);
      run_in_threads(
          ranks, [&](RankAtWork& rank) { return network.join(rank.rank, rank.calls()); }, before,
          body);
    }};
INSTANTIATE_TEST_SUITE_P(InProcess, TransportConformance, testing::Values(kInProcess),
                         [](const auto& kind) { return kind.param.name; });

#ifdef FORELOAD_TEST_UCX
const TransportKind kUcx{
    "Ucx", [](uint32_t ranks, const RankBody& before, const RankBody& body) {
      const LoopbackJob job;
      run_in_threads(
          ranks,
          [&](RankAtWork& rank) {
            return load_transport(
                "ucx", loopback_settings(job.folder(), rank.rank, ranks, FORELOAD_TEST_COMPONENTS),
                rank.calls());
          },
          before, body);
    }};
INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance, testing::Values(kUcx),
                         [](const auto& kind) { return kind.param.name; });
#endif

}  // namespace
}  // namespace foreload
