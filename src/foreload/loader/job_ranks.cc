// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/job_ranks.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include <fmt/format.h>

#include "foreload/peers/transport.h"

namespace foreload {
namespace {

Result<std::optional<uint32_t>> number(const Variables& variable, const char* name) {
  const std::string text = variable(name);
  if (text.empty()) return std::nullopt;
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return fail(ErrorKind::invalid,
                fmt::format("{} is '{}': it must be a whole number", name, text));
  return value;
}

struct Convention {
  const char* rank;
  const char* ranks;
  const char* local_rank;
  const char* local_ranks;  // null: SLURM's list
  const char* only_with;    // set where processes were started by it; null: no need
};
// mpirun comes before srun, because under SLURM it starts its own processes with srun.
constexpr std::array kConventions{
    Convention{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
    Convention{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
               "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    // srun knows PMI too, but has a convention of its own below.
    Convention{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MPI_LOCALNRANKS"},
    // A batch script has a number of tasks too, and is not one of them.
    Convention{"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_ID"},
    Convention{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, "SLURM_STEP_ID"},
};

// The number for a node in "4(x2),3": 4 for the nodes 0 and 1, 3 for node 2.
std::optional<uint32_t> tasks_of_node(const std::string& list, uint32_t node) {
  const char* at = list.data();
  const char* const end = list.data() + list.size();
  while (at != end) {
    uint32_t tasks = 0, times = 1;
    auto [next, error] = std::from_chars(at, end, tasks);
    if (error != std::errc()) return std::nullopt;
    if (end - next > 2 && next[0] == '(' && next[1] == 'x') {
      const auto repeated = std::from_chars(next + 2, end, times);
      if (repeated.ec != std::errc() || repeated.ptr == end || *repeated.ptr != ')')
        return std::nullopt;
      next = repeated.ptr + 1;
    }
    if (node < times) return tasks;
    node -= times;
    if (next == end || *next != ',') return std::nullopt;
    at = next + 1;
  }
  return std::nullopt;
}

Result<uint32_t> ranks_of_node(const Variables& variable, const Convention& names) {
  if (names.local_ranks != nullptr) {
    FORELOAD_TRY(const auto local, number(variable, names.local_ranks));
    return local.value_or(1);
  }
  FORELOAD_TRY(const auto node, number(variable, "SLURM_NODEID"));
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const auto tasks = tasks_of_node(variable(name), node.value_or(0))) return *tasks;
  return 1;
}

}  // namespace

std::string own_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<JobRanks> ranks_from_environment(const Variables& variable) {
  for (const Convention& names : kConventions) {
    if (names.only_with != nullptr && variable(names.only_with).empty()) continue;
    FORELOAD_TRY(const auto ranks, number(variable, names.ranks));
    FORELOAD_TRY(const auto rank, number(variable, names.rank));
    if (!ranks) continue;
    if (!rank) {
      if (*ranks <= 1) continue;
      return fail(ErrorKind::invalid, fmt::format("{} is {}, but {} is not set: set it to the "
                                                  "number of this rank",
                                                  names.ranks, *ranks, names.rank));
    }
    FORELOAD_TRY(const auto local_rank, number(variable, names.local_rank));
    FORELOAD_TRY(const uint32_t local_ranks, ranks_of_node(variable, names));
    JobRanks job{*rank, *ranks, local_rank.value_or(0), local_ranks, names.rank};
    if (job.ranks == 0 || job.ranks > kMostRanks || job.rank >= job.ranks)
      return fail(ErrorKind::invalid,
                  fmt::format("{} is {} and {} is {}: a rank must be at least 0 "
                              "and below the number of ranks",
                              names.rank, job.rank, names.ranks, job.ranks));
    if (job.local_rank >= job.local_ranks || job.local_ranks > job.ranks)
      return fail(ErrorKind::invalid,
                  fmt::format("{} is {}, but this node has {} of {} ranks: ranks of a node are "
                              "numbered from 0",
                              names.local_rank, job.local_rank, job.local_ranks, job.ranks));
    return job;
  }
  return JobRanks();
}

std::string first_node(const std::string& list) {
  std::string name;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      name += list[i];
      continue;
    }
    const size_t end = std::min(list.find_first_of("-,]", i), list.size());
    name += list.substr(i + 1, end - i - 1);
    i = std::min(list.find(']', i), list.size() - 1);
  }
  return name;
}

}  // namespace foreload
