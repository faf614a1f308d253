// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/job_ranks.h"

#include <map>

#include <gtest/gtest.h>

namespace foreload {
namespace {

using Environment = std::map<std::string, std::string>;

Result<JobRanks> ranks_in(const Environment& environment) {
  return ranks_from_environment([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

void expect(const Environment& environment, uint32_t rank, uint32_t ranks, uint32_t local_rank,
            uint32_t local_ranks) {
  const auto found = ranks_in(environment);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->rank, rank);
  EXPECT_EQ(found->ranks, ranks);
  EXPECT_EQ(found->local_rank, local_rank);
  EXPECT_EQ(found->local_ranks, local_ranks);
}

TEST(JobRanks, NobodySaysAnything) {
  expect({}, 0, 1, 0, 1);
}

TEST(JobRanks, Torchrun) {
  expect({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}, 5, 8,
         1, 4);
}

// Under SLURM mpirun starts its own processes with srun, whose variables say something else.
TEST(JobRanks, MpirunInsideSlurm) {
  expect({{"OMPI_COMM_WORLD_RANK", "3"},
          {"OMPI_COMM_WORLD_SIZE", "4"},
          {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
          {"SLURM_PROCID", "0"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", "2"}},
         3, 4, 1, 2);
}

TEST(JobRanks, MpiexecOfMpich) {
  const Environment hydra{
      {"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
  expect(hydra, 3, 4, 1, 2);
  EXPECT_TRUE(ranks_from_environment([&](const char* name) {
                const auto found = hydra.find(name);
                return found == hydra.end() ? std::string() : found->second;
              })->by_mpirun());
}

// srun has variables of PMI as well, but mpirun did not start it.
TEST(JobRanks, SrunWithPmi) {
  expect({{"PMI_RANK", "3"},
          {"PMI_SIZE", "4"},
          {"SLURM_PROCID", "1"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_TASKS", "2"}},
         1, 2, 0, 1);
}

TEST(JobRanks, Srun) {
  const Environment step{{"SLURM_PROCID", "9"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_NTASKS", "99"},
                         {"SLURM_STEP_ID", "0"},
                         {"SLURM_STEP_NUM_TASKS", "11"},
                         {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}};
  expect(step, 9, 11, 1, 3);
}

TEST(JobRanks, ABatchScriptIsNoTask) {
  expect({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}, 0, 1, 0, 1);
}

TEST(JobRanks, NonsenseIsNamed) {
  const auto complains_of = [](const Environment& environment, const char* name) {
    const auto found = ranks_in(environment);
    ASSERT_FALSE(found) << name;
    EXPECT_NE(found.error().message.find(name), std::string::npos) << found.error().message;
  };
  complains_of({{"WORLD_SIZE", "2"}}, "RANK is not set");
  complains_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK is 2 and WORLD_SIZE is 2");
  complains_of({{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK is 'x'");
  complains_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
               "LOCAL_RANK is 2");
  complains_of({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "4"}}, "4 of 2");
}

TEST(JobRanks, FirstNodeOfAList) {
  EXPECT_EQ(first_node("node7"), "node7");
  EXPECT_EQ(first_node("node7,node9"), "node7");
  EXPECT_EQ(first_node("node[03-05,11],gpu1"), "node03");
  EXPECT_EQ(first_node("r[1-2]n[4,6]-ib"), "r1n4-ib");
  EXPECT_EQ(first_node(""), "");
}

}  // namespace
}  // namespace foreload
