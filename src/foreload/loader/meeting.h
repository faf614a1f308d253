// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a job find each other and over what they talk, settled once a process: which
// transport, where they meet, which interface they listen on and which secret they share. All
// loaders of the process join through it, one after another and in the same order on all ranks.
//
// For one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "foreload/base/result.h"
#include "foreload/loader/job_ranks.h"
#include "foreload/loader/joining.h"
#include "foreload/peers/transport.h"

namespace foreload {

struct MeetingSettings {
  std::string transport = "auto";  // or ucx, mpi, host, none
  std::chrono::milliseconds timeout{60'000};
  // A place that the program has already, torch's store for instance. Nothing: what
  // FORELOAD_RENDEZVOUS says (host:port, or a folder that all ranks share), else the port after
  // MASTER_PORT at MASTER_ADDR, else the first node of a SLURM step, else MPI under mpirun.
  std::shared_ptr<Rendezvous> rendezvous;
  // Folder with libucp.so.0 of the package libucx, where Python has it; used where the system has
  // none. FORELOAD_UCX_LIBRARY names a folder that comes before all others.
  std::filesystem::path ucx_package;
  Variables variable = own_variable;
};

class Meeting {
 public:
  // Nothing if every rank is to read for itself: there is one only, or the transport is "none". For
  // "auto", MPI serves what mpirun started and UCX all else; where there is no such library, ranks
  // of one host talk over its own sockets. Ranks of several have nothing to meet with then, and
  // `warning` says so. Fails with `invalid` if something is missing (the message says what to set),
  // and as the rendezvous does.
  static Result<std::optional<Meeting>> arrange(const JobRanks& ranks,
                                                const MeetingSettings& settings,
                                                std::string& warning);

  // How the loader with this number, from 0, joins. `proceed` is asked now and then while it waits.
  JoinSettings join(uint64_t loader, std::chrono::milliseconds timeout,
                    std::function<bool()> proceed = {}) const;

 private:
  TransportSettings transport_;  // its rendezvous is the whole one
  std::string kind_;
  std::string why_;
  std::string host_;
};

}  // namespace foreload
