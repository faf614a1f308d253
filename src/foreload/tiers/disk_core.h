// SPDX-License-Identifier: Apache-2.0
//
// What the threads of one disk tier share. They hold it together, so that a thread that is stuck in
// the operating system when the tier ends can be left behind without anything under it going away.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "foreload/base/own_thread.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/disk_answers.h"
#include "foreload/tiers/disk_index.h"
#include "foreload/tiers/disk_queues.h"
#include "foreload/tiers/slots.h"

namespace foreload::disk_cache {

struct DiskCore {
  DiskCore(DiskSettings chosen, std::vector<Slot> taken)
      : settings(std::move(chosen)),
        slots(std::move(taken)),
        files(settings.direct_io, settings.operations),
        puts{settings.queue_bytes} {}

  void count(Operation operation, std::chrono::steady_clock::time_point start, uint64_t bytes,
             bool failed) const {
    if (settings.operations == nullptr) return;
    settings.operations->count(operation, std::chrono::steady_clock::now() - start, bytes, failed);
  }

  const DiskSettings settings;    // with nothing left to choose
  const std::vector<Slot> slots;  // the first is written to
  DiskIndex index;
  SegmentFiles files;
  DiskAnswers answers;
  DiskHealth health;
  GetQueue gets;
  PutQueue puts;
  std::atomic<uint64_t> used{0};  // bytes on disk
  // What happened so far, in bytes or copies.
  std::atomic<uint64_t> read_bytes{0}, written_bytes{0}, reclaimed_bytes{0}, moved_bytes{0};
  std::atomic<uint64_t> corrupt{0}, refused{0};
};

// A thread that can be waited for with patience, and left behind after it. Signals belong to the
// threads of the program.
class DiskThread {
 public:
  // Throws std::system_error where the system gives no thread.
  DiskThread(const char* name, std::function<void()> work)
      : done_(std::make_shared<Done>()),
        thread_(start_own_thread(name, [work = std::move(work), done = done_]() mutable {
          work();
          work = nullptr;  // what it holds goes before anybody hears that it is over
          const std::lock_guard lock(done->mutex);
          done->is = true;
          done->changed.notify_all();
        })) {}
  // REQUIRES: end_by() was called.
  ~DiskThread() = default;
  DiskThread(DiskThread&&) = default;

  // Whether the thread has ended; otherwise it is on its own from now on.
  bool end_by(std::chrono::steady_clock::time_point deadline) {
    std::unique_lock lock(done_->mutex);
    const bool ended = done_->changed.wait_until(lock, deadline, [this] { return done_->is; });
    lock.unlock();
    if (ended) {
      thread_.join();
    } else {
      thread_.detach();
    }
    return ended;
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

}  // namespace foreload::disk_cache
