// SPDX-License-Identifier: Apache-2.0
//
// A rank of a UCX job as a process of its own, for tests that stop and kill it.
//   ucx_rank FOLDER RANK RANKS COMPONENTS [UCX]
// loads UCX, from that folder if it is given, joins the job that meets in FOLDER, says "ready", and
// answers every message "please N" with "here" and N bytes, for ever. Before that it says what
// loading UCX changed in the process: "unchanged", or what.
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "loopback_job.h"

extern char** environ;

namespace foreload {
namespace {

// What a library may not touch: handlers of signals, the code of allocation functions (UCX's memory
// hooks patch them), the environment.
struct Process {
  std::vector<std::array<char, 16>> code;
  std::vector<void (*)(int)> handlers;
  std::string environment;

  static Process now() {
    Process process;
    for (const char* name : {"mmap", "munmap", "mremap", "brk", "sbrk", "madvise", "shmat"}) {
      std::array<char, 16> start{};
      std::memcpy(start.data(), ::dlsym(RTLD_DEFAULT, name), start.size());
      process.code.push_back(start);
    }
    for (int s = 1; s < NSIG; ++s) {
      struct sigaction action{};
      ::sigaction(s, nullptr, &action);
      process.handlers.push_back(action.sa_handler);
    }
    for (char** each = environ; *each != nullptr; ++each) process.environment += *each;
    return process;
  }
};

std::string difference(const Process& a, const Process& b) {
  if (a.code != b.code) return "memory hooks";
  if (a.handlers != b.handlers) return "signal handlers";
  if (a.environment != b.environment) return "environment";
  return "unchanged";
}

int run(const std::string& folder, uint32_t rank, uint32_t ranks, const std::string& components,
        const char* ucx) {
  std::promise<Transport*> made_transport;
  const std::shared_future<Transport*> transport = made_transport.get_future().share();
  std::string bytes(20 << 20, 'x');
  TransportCalls calls;
  calls.incoming = [](uint32_t, std::span<const std::byte>, uint64_t) { return PayloadPlace{}; };
  calls.arrived = [&](uint32_t from, std::span<const std::byte> header, const PayloadPlace&,
                      uint64_t, bool) {
    const std::string text(reinterpret_cast<const char*>(header.data()), header.size());
    if (!text.starts_with("please ")) return;
    const size_t size = std::min(bytes.size(), static_cast<size_t>(std::stoul(text.substr(7))));
    const std::string answer = "here";
    transport.get()->send(from, {1, std::as_bytes(std::span(answer)),
                                 std::as_bytes(std::span(bytes)).first(size), nullptr});
  };
  calls.sent = [](uint64_t, bool) {};
  calls.lost = [](uint32_t, const std::string&) {};
  const Process before = Process::now();
  TransportSettings settings = loopback_settings(folder, rank, ranks, components);
  if (ucx != nullptr) settings.ucx = ucx;
  auto made = load_transport("ucx", settings, calls);
  if (!made) {
    std::printf("%s\n", made.error().message.c_str());
    return 1;
  }
  made_transport.set_value(made->get());
  std::printf("%s\nready\n", difference(before, Process::now()).c_str());
  std::fflush(stdout);
  for (;;) ::pause();
}

}  // namespace
}  // namespace foreload

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  return foreload::run(argv[1], static_cast<uint32_t>(std::atoi(argv[2])),
                       static_cast<uint32_t>(std::atoi(argv[3])), argv[4], argv[5]);
}
