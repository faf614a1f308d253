// SPDX-License-Identifier: Apache-2.0
//
// What the disk tier was asked to do and has not begun: its scheduler. Reads of the training loop
// go before reads for peers, of which one in four goes first while both wait; the writer asks for a
// quiet moment before it takes the disk, and gets one at the latest after a short wait, so that
// steady reading slows writing down but does not stop it. Any thread may use them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "foreload/tiers/disk.h"

namespace foreload::disk_cache {

struct QueuedRead {
  DiskRead read;
  uint64_t ticket = 0;
};

class ReadQueue {
 public:
  void push(QueuedRead read);
  // The next read; waits for one. Nothing once stopped.
  std::optional<QueuedRead> pop();
  std::optional<QueuedRead> try_pop();  // without waiting
  // What is left after stop().
  std::deque<QueuedRead> drain();
  void stop();
  bool stopped() const;
  // Called after every push and stop, for somebody who cannot wait in pop().
  // REQUIRES: set before the first push.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

  // Waits until no read is queued, the time is over, or the queue is stopped.
  void wait_for_quiet(std::chrono::milliseconds at_most);

 private:
  std::optional<QueuedRead> take();

  std::function<void()> wake_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable pushed_;
  std::condition_variable quiet_;
  std::deque<QueuedRead> training_;
  std::deque<QueuedRead> peers_;
  unsigned passed_over_ = 0;  // reads of the training loop since the last one for peers
  bool stopped_ = false;
};

struct QueuedWrite {
  DiskWrite write;
  uint64_t ticket = 0;
  bool refused = false;  // there was no room in the queue
};

// Writes hold on to their memory until they are answered, so their bytes are bounded.
class WriteQueue {
 public:
  explicit WriteQueue(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Beyond the bound, a write is queued as refused and without its memory.
  void push(QueuedWrite write);
  // The next write. Waits for one unless `now`. Nothing if there is none, or once stopped.
  std::optional<QueuedWrite> pop(bool now);
  void stop();
  bool stopped() const;

  // A write that was not answered yet, for reads that come before the disk has it.
  std::optional<DiskWrite> find(uint64_t sample) const;
  // A write that was not answered yet is not to be published.
  void drop(uint64_t sample);
  // Ends a write: calls publish, under the lock, unless it was dropped meanwhile.
  void finish(const QueuedWrite& write, const std::function<void()>& publish);

 private:
  struct Pending {
    DiskWrite write;
    uint64_t ticket;
    bool dropped;
  };

  const uint64_t most_bytes_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable pushed_;
  std::deque<QueuedWrite> queue_;
  std::unordered_multimap<uint64_t, Pending> pending_;  // by sample
  uint64_t bytes_ = 0;                                  // of pending_
  bool stopped_ = false;
};

}  // namespace foreload::disk_cache
