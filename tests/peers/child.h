// SPDX-License-Identifier: Apache-2.0
//
// Another process for a test: a program, or a copy of this one that runs a function (where this one
// has no threads at that moment). It talks over a pipe in lines, and is killed and waited for when
// the object goes, whatever the test does.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

namespace foreload {

class Child {
 public:
  // The function gets a way to say a line; the process ends with it.
  using Say = std::function<void(const std::string& line)>;
  explicit Child(const std::function<void(const Say&)>& work) {
    start([&](int to) {
      work([&](const std::string& line) {
        const std::string text = line + "\n";
        (void)!::write(to, text.data(), text.size());
      });
    });
  }
  // What the program prints are its lines.
  explicit Child(std::vector<std::string> command) {
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    start([&](int to) {
      ::dup2(to, STDOUT_FILENO);
      ::execv(arguments[0], arguments.data());
    });
  }
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (from_ >= 0) ::close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The next line; empty if none comes within 20 s.
  std::string hear() {
    std::string line;
    for (;;) {
      pollfd polled{from_, POLLIN, 0};
      char c = 0;
      if (::poll(&polled, 1, 20'000) <= 0 || ::read(from_, &c, 1) != 1) return "";
      if (c == '\n') return line;
      line += c;
    }
  }
  // Returns when it no longer runs.
  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void kill_and_wait() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  pid_t pid() const { return pid_; }

 private:
  template <class Work>
  void start(Work work) {
    int ends[2] = {-1, -1};
    (void)!::pipe2(ends, O_CLOEXEC);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::alarm(60);
      work(ends[1]);
      ::_exit(0);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }

  pid_t pid_ = -1;
  int from_ = -1;
};

// Waits for ever, until killed.
inline void sleep_for_ever() {
  for (;;) ::pause();
}

}  // namespace foreload
