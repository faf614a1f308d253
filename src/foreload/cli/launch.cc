// SPDX-License-Identifier: Apache-2.0
//
// foreload launch: starts several ranks of a job on this machine, for trying things out. Each gets
// the variables that torchrun sets (RANK, WORLD_SIZE, ...), an address to meet at and a secret.
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/descriptor.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/verbs.h"
#include "foreload/peers/secret.h"

namespace foreload::cli {
namespace {

struct LaunchOptions {
  std::string ranks;
  std::vector<std::string> command;
};

// A port nobody listens on just now.
Result<uint16_t> free_port() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (!socket || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return fail(ErrorKind::unreadable, fmt::format("cannot find a free port on this machine: {}",
                                                   std::generic_category().message(errno)));
  return ntohs(address.sin_port);
}

// `signals` are those that it does not get.
Result<pid_t> start(const std::vector<std::string>& command,
                    const std::map<std::string, std::string>& more, const sigset_t& signals) {
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (!more.contains(text.substr(0, text.find('=')))) environment.push_back(text);
  }
  for (const auto& [name, value] : more) environment.push_back(name + "=" + value);
  auto pointers = [](std::vector<std::string> texts) {
    struct Array {
      std::vector<std::string> texts;
      std::vector<char*> pointers;
    };
    auto array = std::make_unique<Array>();
    array->texts = std::move(texts);
    for (std::string& text : array->texts) array->pointers.push_back(text.data());
    array->pointers.push_back(nullptr);
    return array;
  };
  const auto arguments = pointers(command);
  const auto variables = pointers(std::move(environment));
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &signals);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, command[0].c_str(), nullptr, &attributes,
                                   arguments->pointers.data(), variables->pointers.data());
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return fail(ErrorKind::invalid,
                fmt::format("cannot start {}: {}; check the command behind --", command[0],
                            std::generic_category().message(error)));
  return process;
}

// The ranks, until they have ended. Signals that ask this process to end are passed on to them.
class Ranks {
 public:
  Ranks() {
    ::sigemptyset(&awaited_);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT})
      ::sigaddset(&awaited_, signal);
    ::sigprocmask(SIG_BLOCK, &awaited_, &before_);
  }
  ~Ranks() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  Result<void> start(uint32_t rank, const std::vector<std::string>& command,
                     const std::map<std::string, std::string>& variables) {
    FORELOAD_TRY(const pid_t process, cli::start(command, variables, before_));
    running_[process] = rank;
    return {};
  }
  void tell(int signal) const {
    for (const auto& [process, rank] : running_) ::kill(process, signal);
  }
  // The worst of their exit codes.
  int wait() {
    while (!running_.empty()) {
      siginfo_t info{};
      const int signal = ::sigwaitinfo(&awaited_, &info);
      // What is typed at a terminal reaches the ranks by itself.
      if (signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL) tell(signal);
      int status = 0;
      for (pid_t process; (process = ::waitpid(-1, &status, WNOHANG)) > 0;) ended(process, status);
    }
    return worst_;
  }

 private:
  void ended(pid_t process, int status) {
    const auto found = running_.find(process);
    if (found == running_.end()) return;
    if (WIFSIGNALED(status)) {
      fmt::print(stderr, "foreload: rank {} was ended by signal {} ({})\n", found->second,
                 WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      worst_ = std::max(worst_, kFailed);
    } else {
      worst_ = std::max(worst_, WEXITSTATUS(status));
    }
    running_.erase(found);
  }

  sigset_t awaited_{};
  sigset_t before_{};
  std::map<pid_t, uint32_t> running_;
  int worst_ = 0;
};

Result<int> run_launch(const LaunchOptions& options) {
  FORELOAD_TRY(const uint32_t count, parse_ranks(options.ranks));
  FORELOAD_TRY(const uint16_t port, free_port());
  FORELOAD_TRY(const JobSecret secret, draw_secret());
  Ranks ranks;
  for (uint32_t rank = 0; rank < count; ++rank) {
    const auto started = ranks.start(rank, options.command,
                                     {{"RANK", std::to_string(rank)},
                                      {"LOCAL_RANK", std::to_string(rank)},
                                      {"WORLD_SIZE", std::to_string(count)},
                                      {"LOCAL_WORLD_SIZE", std::to_string(count)},
                                      {"FORELOAD_RENDEZVOUS", fmt::format("127.0.0.1:{}", port)},
                                      {"FORELOAD_SECRET", secret_text(secret)}});
    if (!started) {
      ranks.tell(SIGTERM);
      return tl::unexpected(started.error());
    }
  }
  return ranks.wait();
}

}  // namespace

Run add_launch(CLI::App& app) {
  auto options = std::make_shared<LaunchOptions>();
  CLI::App* verb =
      app.add_subcommand("launch", "Start several ranks of a job on this machine, to try it");
  verb->add_option("-n,--ranks", options->ranks, "how many")->required();
  verb->add_option("command", options->command, "the program of a rank, and its arguments")
      ->required();
  verb->positionals_at_end();
  verb->footer(
      "Example: foreload launch -n 4 -- foreload read /data/train --epochs 2 --memory 1GiB");
  return [options] { return run_launch(*options); };
}

}  // namespace foreload::cli
