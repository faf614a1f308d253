// SPDX-License-Identifier: Apache-2.0
//
// How the MPI transport starts, in the situations a program can be in; mpirun starts it.
//   own       foreload initialises MPI, ranks greet each other, MPI ends by itself
//   single    the program initialised MPI for one thread: refused, and the message says why
//   missing   rank 2 never joins: the others get an error that names it
//   idle      the transport's thread uses little processor time while nothing happens
//   meet      ranks meet over MPI alone, twice, and exchange values
//   lost      with --enable-recovery: rank 2 dies, the program ends MPI itself and is not held up
// Returns 0 if all was as it should be.
#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "foreload/base/cpus.h"
#include "foreload/peers/transport.h"

namespace foreload {
namespace {

// As the launcher of Open MPI or MPICH says it.
uint32_t from_environment(const char* open_mpi, const char* mpich) {
  const char* text = std::getenv(open_mpi);
  if (text == nullptr) text = std::getenv(mpich);
  return text != nullptr ? static_cast<uint32_t>(std::atoi(text)) : 0;
}

TransportSettings own_settings() {
  TransportSettings settings;
  settings.rank = from_environment("OMPI_COMM_WORLD_RANK", "PMI_RANK");
  settings.ranks = from_environment("OMPI_COMM_WORLD_SIZE", "PMI_SIZE");
  settings.components = FORELOAD_TEST_COMPONENTS;
  return settings;
}

int failed(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  return 1;
}

bool wait_until(const std::atomic<uint32_t>& count, uint32_t wanted) {
  for (int i = 0; i < 20'000 && count < wanted; ++i) ::usleep(1000);
  return count >= wanted;
}

int start_own(bool stay_idle) {
  const TransportSettings settings = own_settings();
  std::atomic<uint32_t> greetings = 0, sent = 0;
  TransportCalls calls;
  calls.incoming = [](auto&&...) { return PayloadPlace{}; };
  calls.arrived = [&](auto&&...) { ++greetings; };
  calls.sent = [&](uint64_t, bool) { ++sent; };
  calls.lost = [](auto&&...) {};
  auto transport = load_transport("mpi", settings, std::move(calls));
  if (!transport) return failed(transport.error().message);
  const std::string hello = "hello";
  for (uint32_t to = 0; to < settings.ranks; ++to) {
    if (to != settings.rank) (*transport)->send(to, {to, std::as_bytes(std::span(hello)), {}, {}});
  }
  if (!wait_until(greetings, settings.ranks - 1) || !wait_until(sent, settings.ranks - 1)) {
    return failed("not all ranks greeted");
  }
  if (!stay_idle) return 0;
  const double before = cpu_seconds();
  ::usleep(1'000'000);
  const double share = cpu_seconds() - before;
  std::printf("rank %u: %.1f %% of a processor while idle\n", settings.rank, 100 * share);
  return share < 0.3 ? 0 : failed("that is too much");
}

int start_single() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SINGLE, &level);
  const auto transport = load_transport("mpi", own_settings(), {});
  const bool right = !transport && transport.error().kind == ErrorKind::invalid &&
                     transport.error().message.find("MPI_THREAD_MULTIPLE") != std::string::npos;
  MPI_Finalize();
  return right ? 0 : failed("not refused");
}

int start_missing() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  TransportSettings settings = own_settings();
  settings.join_timeout = std::chrono::milliseconds(300);
  int result = 0;
  if (settings.rank != 2) {
    const auto transport = load_transport("mpi", settings, {});
    const bool right = !transport && transport.error().kind == ErrorKind::cancelled &&
                       transport.error().message.find(": 2 is missing") != std::string::npos;
    if (!right) result = failed(transport ? "joined" : transport.error().message);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
  return result;
}

int meet() {
  const TransportSettings settings = own_settings();
  const auto patience = std::chrono::seconds(30);
  for (int time = 0; time < 2; ++time) {
    const auto made = load_rendezvous("mpi", settings);
    if (!made) return failed(made.error().message);
    Rendezvous& rendezvous = **made;
    const auto nothing = rendezvous.get("never", std::chrono::milliseconds(20));
    if (nothing || nothing.error().kind != ErrorKind::cancelled) return failed("did not give up");
    const std::string value(100'000 + settings.rank, static_cast<char>('a' + settings.rank));
    const auto values =
        exchange(rendezvous, "values", settings.rank, settings.ranks, value, patience);
    if (!values) return failed(values.error().message);
    for (uint32_t r = 0; r < settings.ranks; ++r)
      if ((*values)[r] != std::string(100'000 + r, static_cast<char>('a' + r)))
        return failed("another value");
    // Rank 5 is below rank 1.
    if (settings.rank == 1 && !rendezvous.below()->put("word", "passed on"))
      return failed("cannot pass on");
    if (settings.rank == 5 && rendezvous.above()->get("word", patience).value_or("") != "passed on")
      return failed("nothing was passed on");
    const auto signs = check_in(rendezvous, "sign", settings.rank, settings.ranks, patience);
    if (!signs) return failed(signs.error().message);
  }
  return 0;
}

// The survivors say so, since mpirun tells of the one that died in any case.
int lose_a_rank() {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  const TransportSettings settings = own_settings();
  std::atomic<uint32_t> sent = 0;
  TransportCalls calls;
  calls.incoming = [](auto&&...) { return PayloadPlace{}; };
  calls.arrived = [](auto&&...) {};
  calls.sent = [&](uint64_t, bool) { ++sent; };
  calls.lost = [](auto&&...) {};
  auto transport = load_transport("mpi", settings, std::move(calls));
  if (!transport) return failed(transport.error().message);
  if (settings.rank == 2) ::raise(SIGKILL);
  // Long enough to stay with MPI, which waits for a receiver.
  const std::string header = "for the dead";
  const std::vector<std::byte> payload(8 << 20);
  (*transport)->send(2, {1, std::as_bytes(std::span(header)), payload, {}});
  (*transport)->drop(2);
  if (!wait_until(sent, 1)) return failed("no answer to what was sent to the dead rank");
  transport->reset();
  MPI_Finalize();
  std::printf("rank %u has ended MPI\n", settings.rank);
  return 0;
}

}  // namespace
}  // namespace foreload

int main(int argc, char** argv) {
  const std::string what = argc == 2 ? argv[1] : "";
  if (what == "own") return foreload::start_own(false);
  if (what == "idle") return foreload::start_own(true);
  if (what == "single") return foreload::start_single();
  if (what == "missing") return foreload::start_missing();
  if (what == "meet") return foreload::meet();
  if (what == "lost") return foreload::lose_a_rank();
  return 2;
}
