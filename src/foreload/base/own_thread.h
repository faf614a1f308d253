// SPDX-License-Identifier: Apache-2.0
//
// How foreload starts its threads: with a name that shows in tools (at most 15 characters), and
// with all signals blocked, because those belong to the threads of the program.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace foreload {

// Blocks all signals of the calling thread while it lives; threads started meanwhile, also by
// libraries, keep them blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// Throws std::system_error where the system refuses a thread.
template <class Work>
std::thread start_own_thread(const char* name, Work work) {
  const SignalsBlocked while_it_starts;
  std::thread thread(std::move(work));
  // From here, so that it has its name when the caller goes on; one that has ended needs none.
  ::pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace foreload
