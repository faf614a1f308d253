// SPDX-License-Identifier: Apache-2.0
#include "foreload/cli/external.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "foreload/base/descriptor.h"
#include "foreload/base/files.h"

namespace foreload::cli {
namespace {

constexpr std::array<std::string_view, 3> kVerbs{"plot", "report", "watch"};

tl::unexpected<Error> cannot_run(const std::string& program, int error) {
  return fail(ErrorKind::unreadable,
              fmt::format("cannot run {}: {}", program, std::strerror(error)));
}

tl::unexpected<Error> cannot_find(const std::string& verb) {
  return fail(ErrorKind::invalid,
              fmt::format("cannot find foreload-{}: it comes with the Python package; install it "
                          "with pip install 'foreload[plot]'",
                          verb));
}

}  // namespace

std::vector<std::string> external_verbs() {
  return {kVerbs.begin(), kVerbs.end()};
}

bool is_external_verb(const std::string& verb) {
  return std::ranges::find(kVerbs, verb) != kVerbs.end();
}

Result<int> run_external(const std::string& verb, const std::vector<std::string>& arguments,
                         const std::string* input) {
  std::string program = "foreload-" + verb;
  std::error_code error;
  const auto beside =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / program;
  if (!error && access(beside.c_str(), X_OK) == 0) program = beside.string();
  std::vector<char*> argv{program.data()};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  if (input == nullptr) {  // becomes the program, so that signals and the terminal are its own
    std::fflush(stdout);
    execvp(program.c_str(), argv.data());
    return errno == ENOENT ? cannot_find(verb) : cannot_run(program, errno);
  }
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return cannot_run(program, errno);
  Descriptor from_here(ends[0]), to_child(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, from_here.get(), STDIN_FILENO);
  pid_t child = 0;
  const int spawned =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned == ENOENT) return cannot_find(verb);
  if (spawned != 0) return cannot_run(program, spawned);
  from_here.close();
  // A child that ends early makes the write fail; its exit status says why.
  signal(SIGPIPE, SIG_IGN);
  (void)write_all(to_child.get(), std::as_bytes(std::span(*input)));
  to_child.close();
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return cannot_run(program, errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace foreload::cli
