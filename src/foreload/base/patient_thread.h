// SPDX-License-Identifier: Apache-2.0
//
// A thread that can be waited for with patience, and left behind after it: for work that may be
// stuck in the operating system when its owner ends. What the work holds lives as long as it does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "foreload/base/own_thread.h"

namespace foreload {

class PatientThread {
 public:
  // Throws std::system_error where the system gives no thread.
  PatientThread(const char* name, std::function<void()> work)
      : done_(std::make_shared<Done>()),
        thread_(start_own_thread(name, [work = std::move(work), done = done_]() mutable {
          work();
          work = nullptr;  // what it holds goes before anybody hears that it is over
          const std::lock_guard lock(done->mutex);
          done->is = true;
          done->changed.notify_all();
        })) {}
  // REQUIRES: end_by() was called.
  ~PatientThread() = default;
  PatientThread(PatientThread&&) = default;

  // One that has not ended by then is on its own from now on.
  void end_by(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(done_->mutex);
    const bool ended = done_->changed.wait_until(lock, deadline, [this] { return done_->is; });
    lock.unlock();
    if (ended) {
      thread_.join();
    } else {
      thread_.detach();
    }
  }

 private:
  struct Done {
    std::mutex mutex;
    std::condition_variable changed;
    bool is = false;
  };
  std::shared_ptr<Done> done_;
  std::thread thread_;
};

}  // namespace foreload
