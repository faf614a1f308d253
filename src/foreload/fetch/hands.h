// SPDX-License-Identifier: Apache-2.0
//
// A few threads that copy and checksum bytes for the engine, so that its loop only decides. Jobs
// are started in the order given.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace foreload {

class Hands {
 public:
  // At least one thread, or what the system gives.
  explicit Hands(unsigned threads);
  // Finishes the jobs that are running, forgets those that wait.
  ~Hands();
  Hands(const Hands&) = delete;
  Hands& operator=(const Hands&) = delete;

  // REQUIRES: the job does not throw. Any thread.
  void run(std::function<void()> job);

 private:
  void work();

  std::mutex mutex_;  // guards the next two
  std::deque<std::function<void()>> jobs_;
  bool stop_ = false;
  std::condition_variable filled_;
  std::vector<std::thread> threads_;
};

}  // namespace foreload
