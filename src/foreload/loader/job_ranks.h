// SPDX-License-Identifier: Apache-2.0
//
// Which rank of how many this process is, and how it meets the others, as the environment says:
// torchrun and `foreload launch` (RANK, WORLD_SIZE), srun (SLURM_PROCID, SLURM_NTASKS), mpirun
// (OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE). Plain functions, any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "foreload/base/result.h"
#include "foreload/loader/joining.h"

namespace foreload {

struct JobRanks {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  uint32_t local_rank = 0;  // among those on this node
  uint32_t local_ranks = 1;
  std::string said_by;  // the variable; empty: nobody, this process is alone
};

// Fails with `invalid` for values that make no sense, or a number of ranks without a rank.
Result<JobRanks> ranks_from_environment();

// The rendezvous is FORELOAD_RENDEZVOUS (host:port, or a folder that all ranks share), otherwise
// the port after MASTER_PORT at MASTER_ADDR; the secret is secret_from_environment()'s. Fails with
// `invalid` if there is none of them, and as the rendezvous does.
Result<JoinSettings> join_from_environment(const JobRanks& ranks, const std::string& transport,
                                           std::chrono::milliseconds timeout);

}  // namespace foreload
