// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/shared_library.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>

#include "foreload/base/own_thread.h"

namespace foreload {
namespace {

// Libraries install signal handlers while they are loaded (UCX does, for crashes). The signals
// belong to the program: this puts back what was there.
class SignalHandlersKept {
 public:
  SignalHandlersKept() {
    for (int s = 1; s < kSignals; ++s) known_[s] = ::sigaction(s, nullptr, &before_[s]) == 0;
  }
  ~SignalHandlersKept() {
    for (int s = 1; s < kSignals; ++s) {
      struct sigaction now{};
      if (!known_[s] || ::sigaction(s, nullptr, &now) != 0) continue;
      if (now.sa_sigaction != before_[s].sa_sigaction) ::sigaction(s, &before_[s], nullptr);
    }
  }
  SignalHandlersKept(const SignalHandlersKept&) = delete;
  SignalHandlersKept& operator=(const SignalHandlersKept&) = delete;

 private:
  static constexpr int kSignals = 65;
  std::array<struct sigaction, kSignals> before_{};
  std::array<bool, kSignals> known_{};
};

// While it lives, the environment has these variables besides its own; what the user set stays. The
// array is exchanged as a whole and kept for ever, so that other threads may call getenv()
// meanwhile. REQUIRES: one at a time.
class EnvironmentWith {
 public:
  explicit EnvironmentWith(const std::vector<std::string>& more) : before_(environ) {
    static auto& kept = *new std::list<std::vector<char*>>;
    std::vector<char*>& variables = kept.emplace_back();
    for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
      variables.push_back(*each);
    }
    for (const std::string& variable : more) {
      const std::string name = variable.substr(0, variable.find('='));
      if (std::getenv(name.c_str()) == nullptr) variables.push_back(::strdup(variable.c_str()));
    }
    variables.push_back(nullptr);
    environ = variables.data();
  }
  ~EnvironmentWith() { environ = before_; }
  EnvironmentWith(const EnvironmentWith&) = delete;
  EnvironmentWith& operator=(const EnvironmentWith&) = delete;

 private:
  char** const before_;
};

}  // namespace

void load_guarded(const std::vector<std::string>& environment, const std::function<void()>& load) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  const SignalsBlocked in_threads_it_starts;
  const SignalHandlersKept while_it_loads;
  const EnvironmentWith settings_of_libraries(environment);
  load();
}

}  // namespace foreload
