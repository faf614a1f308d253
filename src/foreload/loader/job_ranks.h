// SPDX-License-Identifier: Apache-2.0
//
// Which rank of how many this process is, as the environment says: torchrun and `foreload launch`
// (RANK, WORLD_SIZE), mpirun of Open MPI (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE) and of MPICH
// (PMI_RANK, PMI_SIZE), srun (SLURM_PROCID, SLURM_STEP_NUM_TASKS). Plain functions, any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "foreload/base/result.h"

namespace foreload {

struct JobRanks {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t local_rank = 0;  // among those on this node
  uint32_t local_ranks = 1;
  std::string said_by;  // the variable; empty: nobody, this process is alone

  bool by_mpirun() const { return said_by == "OMPI_COMM_WORLD_RANK" || said_by == "PMI_RANK"; }
  bool on_one_node() const { return local_ranks == ranks; }
};

// The value of a variable; empty if it is not set.
using Variables = std::function<std::string(const char* name)>;
std::string own_variable(const char* name);  // of this process

// Fails with `invalid` for values that make no sense, or a number of ranks without a rank.
Result<JobRanks> ranks_from_environment(const Variables& variable = own_variable);

// The first name of a list of SLURM's: "node03" of "node[03-05,11],gpu1".
std::string first_node(const std::string& list);

}  // namespace foreload
