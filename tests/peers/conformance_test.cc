// SPDX-License-Identifier: Apache-2.0
//
// Every kind of transport whose ranks can live in one process; mpi_conformance.cc has the other.
#include "in_process.h"
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

// Those that load_transport() makes, on this host.
TransportKind loaded_kind(const std::string& name, const std::string& kind,
                          const std::string& modules = FORELOAD_TEST_COMPONENTS) {
  return {name, [kind, modules](uint32_t ranks, const RankBody& before, const RankBody& body) {
            const TemporaryFolder job;
            const JoinRank join = [&](RankAtWork& rank) {
              return load_transport(kind, loopback_settings(job.path(), rank.rank, ranks, modules),
                                    rank.calls());
            };
            run_in_threads(ranks, join, before, body);
          }};
}
INSTANTIATE_TEST_SUITE_P(Loaded, TransportConformance,
                         testing::Values(loaded_kind("Host", "host"), loaded_kind("Ucx", "ucx")),
                         [](const auto& kind) { return kind.param.name; });

#ifdef FORELOAD_TEST_FOREIGN_MODULES
const TransportKind kForeign = loaded_kind("UcxWithOtherCpp", "ucx", FORELOAD_TEST_FOREIGN_MODULES);
INSTANTIATE_TEST_SUITE_P(Foreign, TransportConformance, testing::Values(kForeign),
                         [](const auto& kind) { return kind.param.name; });
#endif

// A goodbye was given up where UCX's thread was taking messages in at that moment, and the rank
// looked lost. MPI tells in its own way who left.
TEST(Goodbye, ArrivesWhileTheOtherRankSends) {
  const RankBody body = [](RankAtWork& me) {
    me.send(1 - me.rank, "hello");
    ASSERT_TRUE(me.wait_for_arrivals(1));
    ASSERT_TRUE(me.wait_for_all_sent());
    me.meet();
    if (me.rank == 0) {
      ASSERT_TRUE(me.wait_for_arrivals(100));
      me.send(1, "goodbye");
      return me.end();
    }
    for (int i = 0; i < 1000; ++i) me.send(0, "busy", payload_bytes(1, 5'000));
    ASSERT_TRUE(me.wait_for_arrivals(2));
    EXPECT_EQ(me.arrivals().back().header, "goodbye");
    me.transport().drop(0);
    ASSERT_TRUE(me.wait_for_all_sent());
  };
  for (int turn = 0; turn < 5; ++turn) loaded_kind("Ucx", "ucx").run(2, nullptr, body);
}

}  // namespace
}  // namespace foreload
