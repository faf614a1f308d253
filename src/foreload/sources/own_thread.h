// SPDX-License-Identifier: Apache-2.0
//
// How sources start their threads: with a name that shows in tools (at most 15 characters), and
// with all signals blocked, because those belong to the threads of the program. Private to sources.
#pragma once

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace foreload {

// Throws std::system_error where the system refuses a thread.
template <class Work>
std::thread start_own_thread(const char* name, Work work) {
  struct BlockSignals {
    BlockSignals() {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, &before);
    }
    ~BlockSignals() { ::pthread_sigmask(SIG_SETMASK, &before, nullptr); }
    sigset_t before{};
  };
  const BlockSignals while_it_starts;
  return std::thread([name, work = std::move(work)]() mutable {
    ::pthread_setname_np(::pthread_self(), name);
    work();
  });
}

}  // namespace foreload
