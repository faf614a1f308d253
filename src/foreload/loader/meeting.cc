// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/meeting.h"

#include <unistd.h>

#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/text.h"
#include "foreload/peers/interfaces.h"
#include "foreload/peers/secret.h"

namespace foreload {
namespace {

// Where a TCP rendezvous is, if it is one.
struct Address {
  std::string host;
  uint16_t port = 0;
};

// Of "host:port".
std::optional<Address> parse_address(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return std::nullopt;
  uint16_t port = 0;
  const char* begin = text.data() + colon + 1;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return Address{text.substr(0, colon), port};
}

// The port after MASTER_PORT, which the program's own meeting has.
Result<Address> beside_master(const Variables& variable) {
  const std::string port = variable("MASTER_PORT");
  const std::string text = variable("MASTER_ADDR") + ":" + (port.empty() ? "29500" : port);
  const auto master = parse_address(text);
  if (!master || master->port == UINT16_MAX)
    return fail(
        ErrorKind::invalid,
        fmt::format("MASTER_ADDR and MASTER_PORT are '{}', which is not a host and a port below "
                    "65535: correct them, or set FORELOAD_RENDEZVOUS to host:port",
                    text));
  return Address{master->host, static_cast<uint16_t>(master->port + 1)};
}

// On the first node of a SLURM step, at a port that its number decides: jobs on one node differ.
std::optional<Address> of_slurm(const Variables& variable) {
  const std::string nodes = variable("SLURM_STEP_NODELIST");
  const std::string job = variable("SLURM_JOB_ID"), step = variable("SLURM_STEP_ID");
  uint64_t number = 0, within = 0;
  std::from_chars(job.data(), job.data() + job.size(), number);
  std::from_chars(step.data(), step.data() + step.size(), within);
  if (nodes.empty() || number == 0) return std::nullopt;
  return Address{first_node(nodes), static_cast<uint16_t>(20'000 + (number * 7 + within) % 10'000)};
}

Result<std::string> name_of_job(const std::string& folder, const Variables& variable) {
  std::string name = variable("FORELOAD_JOB");
  if (name.empty() && !variable("SLURM_JOB_ID").empty())
    name = variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID");
  if (!name.empty()) return name;
  return fail(
      ErrorKind::invalid,
      fmt::format("ranks that meet in the folder {} need a name of the job: set FORELOAD_JOB "
                  "to the same on all ranks and to another one for every attempt",
                  folder));
}

Result<std::string> choose_interface(const JobRanks& ranks, const std::optional<Address>& address,
                                     const Variables& variable) {
  if (const std::string named = variable("FORELOAD_INTERFACE"); !named.empty()) return named;
  if (!variable("UCX_NET_DEVICES").empty()) return std::string();  // UCX knows
  if (ranks.on_one_node()) return std::string("lo");
  if (address) return interface_towards(address->host);
  if (const std::string master = variable("MASTER_ADDR"); !master.empty())
    return interface_towards(master);
  return fail(ErrorKind::invalid,
              "cannot tell which network interface leads to the other ranks: set "
              "FORELOAD_INTERFACE to its name");
}

Result<JobSecret> choose_secret(const JobRanks& ranks, const Variables& variable) {
  const bool given =
      !variable("FORELOAD_SECRET").empty() || !variable("FORELOAD_SECRET_FILE").empty();
  return given || !ranks.on_one_node() ? secret_from_environment() : secret_of_user();
}

struct TransportChoice {
  std::string kind;  // empty: none
  std::string why;
};

Result<TransportChoice> choose_transport(const JobRanks& ranks, const std::string& asked,
                                         const TransportSettings& settings, std::string& warning) {
  FORELOAD_CHECK(check_choice("the transport", asked, {"auto", "ucx", "mpi", "host", "none"}));
  if (ranks.ranks == 1 || asked == "none") return TransportChoice();
  if (asked == "host" && !ranks.on_one_node())
    return fail(ErrorKind::invalid,
                fmt::format("the transport 'host' needs all ranks on one host, but this one has {} "
                            "of {}: use auto, ucx or mpi",
                            ranks.local_ranks, ranks.ranks));
  if (asked != "auto") return TransportChoice{asked, "asked for"};
  if (ranks.by_mpirun() && find_transport("mpi", settings))
    return TransportChoice{"mpi", "auto: mpirun started this job"};
  const auto found = find_transport("ucx", settings);
  if (found)
    return TransportChoice{"ucx", ranks.by_mpirun() ? "auto: no MPI library was found"
                                                    : "auto: this job was not started by mpirun"};
  if (ranks.on_one_node())
    return TransportChoice{"host", "auto: no UCX library was found, and all ranks are on one host"};
  warning =
      "every rank reads the source and keeps samples for itself alone: " + found.error().message;
  return TransportChoice();
}

}  // namespace

Result<std::optional<Meeting>> Meeting::arrange(const JobRanks& ranks,
                                                const MeetingSettings& settings,
                                                std::string& warning) {
  Meeting meeting;
  meeting.transport_.ucx = settings.variable("FORELOAD_UCX_LIBRARY");
  meeting.transport_.ucx_package = settings.ucx_package;
  FORELOAD_TRY(const TransportChoice choice,
               choose_transport(ranks, settings.transport, meeting.transport_, warning));
  if (choice.kind.empty()) return std::nullopt;
  meeting.kind_ = choice.kind;
  meeting.why_ = choice.why;
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  meeting.host_ = host;
  TransportSettings& transport = meeting.transport_;
  transport.rank = ranks.rank;
  transport.ranks = ranks.ranks;
  transport.join_timeout = settings.timeout;

  const Variables& variable = settings.variable;
  const std::string place = variable("FORELOAD_RENDEZVOUS");
  std::optional<Address> address;
  if (!settings.rendezvous) {
    address = parse_address(place);
    if (place.empty() && !variable("MASTER_ADDR").empty()) {
      FORELOAD_TRY(address, beside_master(variable));
    } else if (place.empty() && !ranks.by_mpirun()) {
      address = of_slurm(variable);
    }
  }
  const bool over_mpi = !settings.rendezvous &&
                        (choice.kind == "mpi" || (ranks.by_mpirun() && place.empty() && !address));
  if (!settings.rendezvous && !over_mpi && !address && place.empty())
    return fail(
        ErrorKind::invalid,
        "the ranks of this job cannot find each other: set FORELOAD_RENDEZVOUS to host:port "
        "or to a folder that all of them share, or MASTER_ADDR and MASTER_PORT");
  if (choice.kind == "ucx") {
    FORELOAD_TRY(transport.interface, choose_interface(ranks, address, variable));
    FORELOAD_TRY(transport.secret, choose_secret(ranks, variable));
  }
  if (settings.rendezvous) {
    transport.rendezvous = settings.rendezvous;
  } else if (over_mpi) {
    FORELOAD_TRY(transport.rendezvous, load_rendezvous("mpi", transport));
  } else if (address) {
    FORELOAD_TRY(transport.rendezvous,
                 tcp_rendezvous(address->host, address->port, ranks.rank, settings.timeout));
  } else {
    FORELOAD_TRY(const std::string job, name_of_job(place, variable));
    FORELOAD_TRY(transport.rendezvous, folder_rendezvous(place, job));
  }
  // The others take from MPI, or from a file system, what rank 0 has for everybody.
  if (address || settings.rendezvous)
    transport.rendezvous = with_relays(transport.rendezvous, ranks.rank, ranks.ranks,
                                       ranks.on_one_node() ? "127.0.0.1"
                                       : address           ? address->host
                                                           : variable("MASTER_ADDR"));
  return std::optional<Meeting>(std::move(meeting));
}

JoinSettings Meeting::join(uint64_t loader, std::chrono::milliseconds timeout,
                           std::function<bool()> proceed) const {
  JoinSettings join;
  join.rendezvous = part_of(transport_.rendezvous, fmt::format("{}.", loader), std::move(proceed));
  join.timeout = timeout;
  join.transport = kind_;
  join.interface = transport_.interface;
  join.host = host_;
  join.why = why_;
  join.connect = [settings = transport_, kind = kind_, timeout,
                  rendezvous = join.rendezvous](TransportCalls calls) mutable {
    settings.rendezvous = rendezvous;
    settings.join_timeout = timeout;
    return load_transport(kind, settings, std::move(calls));
  };
  return join;
}

}  // namespace foreload
