// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/job_ranks.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "foreload/peers/interfaces.h"
#include "foreload/peers/secret.h"
#include "foreload/peers/wire.h"

namespace foreload {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<std::optional<uint32_t>> number(const char* name) {
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
  const char* local_ranks;
  const char* only_with;  // set where processes were started by it; null: no need
};
constexpr std::array kConventions{
    Convention{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", nullptr},
    Convention{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
               "OMPI_COMM_WORLD_LOCAL_SIZE", nullptr},
    // A batch script has a number of tasks too, and is not one of them.
    Convention{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE",
               "SLURM_STEP_ID"},
};

// host and port of "host:port".
std::optional<std::pair<std::string, uint16_t>> host_and_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  uint16_t port = 0;
  const char* begin = text.data() + colon + 1;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return std::pair(text.substr(0, colon), port);
}

}  // namespace

Result<JobRanks> ranks_from_environment() {
  for (const Convention& names : kConventions) {
    if (names.only_with != nullptr && variable(names.only_with).empty()) continue;
    FORELOAD_TRY(const auto ranks, number(names.ranks));
    FORELOAD_TRY(const auto rank, number(names.rank));
    if (!ranks) continue;
    if (!rank) {
      if (*ranks <= 1) continue;
      return fail(ErrorKind::invalid, fmt::format("{} is {}, but {} is not set: say which rank "
                                                  "this is",
                                                  names.ranks, *ranks, names.rank));
    }
    FORELOAD_TRY(const auto local_rank, number(names.local_rank));
    FORELOAD_TRY(const auto local_ranks, number(names.local_ranks));
    JobRanks job{*rank, *ranks, local_rank.value_or(0), local_ranks.value_or(1), names.rank};
    if (job.ranks == 0 || job.ranks > kMostRanks || job.rank >= job.ranks)
      return fail(ErrorKind::invalid, fmt::format("{} is {} and {} is {}: ranks are numbered from "
                                                  "0, below their number",
                                                  names.rank, job.rank, names.ranks, job.ranks));
    if (job.local_ranks == 0 || job.local_rank >= job.local_ranks)
      return fail(
          ErrorKind::invalid,
          fmt::format("{} is {} and {} is {}: ranks of a node are numbered from 0",
                      names.local_rank, job.local_rank, names.local_ranks, job.local_ranks));
    return job;
  }
  return JobRanks();
}

Result<JoinSettings> join_from_environment(const JobRanks& ranks, const std::string& transport,
                                           std::chrono::milliseconds timeout) {
  JoinSettings join;
  join.timeout = timeout;
  std::string place = variable("FORELOAD_RENDEZVOUS");
  if (place.empty() && !variable("MASTER_ADDR").empty()) {
    FORELOAD_TRY(const auto port, number("MASTER_PORT"));
    place = fmt::format("{}:{}", variable("MASTER_ADDR"), port.value_or(29500) + 1);
  }
  if (place.empty())
    return fail(
        ErrorKind::invalid,
        "the ranks of this job cannot find each other: set FORELOAD_RENDEZVOUS to host:port "
        "or to a folder that all of them share, or MASTER_ADDR and MASTER_PORT");
  TransportSettings settings;
  settings.rank = ranks.rank;
  settings.ranks = ranks.ranks;
  settings.join_timeout = timeout;
  std::unique_ptr<Rendezvous> rendezvous;
  if (const auto address = host_and_port(place)) {
    FORELOAD_TRY(rendezvous, tcp_rendezvous(address->first, address->second, ranks.rank, timeout));
    FORELOAD_TRY(settings.interface, interface_towards(address->first));
  } else {
    std::string job = variable("FORELOAD_JOB");
    if (job.empty()) job = variable("SLURM_JOB_ID");
    FORELOAD_TRY(rendezvous, folder_rendezvous(place, job.empty() ? "job" : job));
  }
  join.rendezvous = std::move(rendezvous);
  settings.rendezvous = join.rendezvous;
  if (transport != "mpi") {
    FORELOAD_TRY(settings.secret, secret_from_environment());
  }
  join.connect = [settings, transport](TransportCalls calls) {
    return load_transport(transport, settings, std::move(calls));
  };
  return join;
}

}  // namespace foreload
