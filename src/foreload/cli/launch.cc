// SPDX-License-Identifier: Apache-2.0
//
// foreload launch: starts several ranks of a job on this machine, for trying things out. Each gets
// the variables that torchrun sets (RANK, WORLD_SIZE, ...), an address to meet at and a secret.
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

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

Result<pid_t> start(const std::vector<std::string>& command,
                    const std::map<std::string, std::string>& more) {
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
  pid_t process = 0;
  const int error = ::posix_spawnp(&process, command[0].c_str(), nullptr, nullptr,
                                   arguments->pointers.data(), variables->pointers.data());
  if (error != 0)
    return fail(ErrorKind::invalid, fmt::format("cannot start {}: {}", command[0],
                                                std::generic_category().message(error)));
  return process;
}

Result<int> run_launch(const LaunchOptions& options) {
  FORELOAD_TRY(const uint32_t ranks, parse_ranks(options.ranks));
  FORELOAD_TRY(const uint16_t port, free_port());
  FORELOAD_TRY(const JobSecret secret, draw_secret());
  std::map<pid_t, uint32_t> running;
  // Ctrl-C reaches the ranks by itself; this process waits for them.
  std::signal(SIGINT, SIG_IGN);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    auto process =
        start(options.command, {{"RANK", std::to_string(rank)},
                                {"LOCAL_RANK", std::to_string(rank)},
                                {"WORLD_SIZE", std::to_string(ranks)},
                                {"LOCAL_WORLD_SIZE", std::to_string(ranks)},
                                {"FORELOAD_RENDEZVOUS", fmt::format("127.0.0.1:{}", port)},
                                {"FORELOAD_SECRET", secret_text(secret)}});
    if (!process) {
      for (const auto& [started, number] : running) ::kill(started, SIGTERM);
      return tl::unexpected(process.error());
    }
    running[*process] = rank;
  }
  int worst = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t process = ::waitpid(-1, &status, 0);
    if (process < 0) break;
    const auto found = running.find(process);
    if (found == running.end()) continue;
    if (WIFSIGNALED(status)) {
      fmt::print(stderr, "foreload: rank {} was ended by signal {} ({})\n", found->second,
                 WTERMSIG(status), ::strsignal(WTERMSIG(status)));
      worst = std::max(worst, kFailed);
    } else {
      worst = std::max(worst, WEXITSTATUS(status));
    }
    running.erase(found);
  }
  return worst;
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
