// SPDX-License-Identifier: Apache-2.0
//
// How a loader ends that is dropped on one of its own threads. C++ may ask Python for something on
// a decoding thread; whatever Python drops meanwhile may be that very loader, which cannot wait for
// the thread it is dropped on. It is ended by another thread then, which Python waits for at exit.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "foreload/base/own_thread.h"
#include "foreload/loader/loader.h"

namespace foreload::python {

// Lives while Python code runs on a thread of a loader.
class BorrowedThread {
 public:
  BorrowedThread() { inside_ = true; }
  ~BorrowedThread() { inside_ = false; }
  BorrowedThread(const BorrowedThread&) = delete;
  BorrowedThread& operator=(const BorrowedThread&) = delete;

  // Whether this thread is a loader's.
  static bool inside() { return inside_; }

 private:
  static inline thread_local bool inside_ = false;
};

// Threads that end loaders; there is one of these, because the interpreter is one. Any thread.
class Endings {
 public:
  void end(std::unique_ptr<Loader> loader) {
    const std::lock_guard lock(mutex_);
    threads_.push_back(start_own_thread(
        "foreload-end", [loader = std::move(loader)]() mutable { loader.reset(); }));
  }
  // REQUIRES: the GIL is not held.
  void wait() {
    std::vector<std::thread> threads;
    {
      const std::lock_guard lock(mutex_);
      threads.swap(threads_);
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace foreload::python
