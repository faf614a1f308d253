// SPDX-License-Identifier: Apache-2.0
#include "foreload/cli/external.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

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

// A pipe whose ends close themselves.
struct Pipe {
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
  int ends[2] = {-1, -1};
};

}  // namespace

std::vector<std::string> external_verbs() {
  return {kVerbs.begin(), kVerbs.end()};
}

bool is_external_verb(const std::string& verb) {
  for (const std::string_view known : kVerbs) {
    if (verb == known) return true;
  }
  return false;
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
  Pipe pipe;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (pipe2(pipe.ends, O_CLOEXEC) != 0) return cannot_run(program, errno);
  posix_spawn_file_actions_adddup2(&actions, pipe.ends[0], STDIN_FILENO);
  pid_t child = 0;
  const int spawned =
      posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (spawned == ENOENT) return cannot_find(verb);
  if (spawned != 0) return cannot_run(program, spawned);
  pipe.close_end(0);
  // A child that ends early makes the write fail; its exit status says why.
  signal(SIGPIPE, SIG_IGN);
  size_t done = 0;
  while (done < input->size()) {
    const ssize_t written = write(pipe.ends[1], input->data() + done, input->size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    done += static_cast<size_t>(written);
  }
  pipe.close_end(1);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return cannot_run(program, errno);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace foreload::cli
