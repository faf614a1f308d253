// SPDX-License-Identifier: Apache-2.0
//
// What the disk tier was asked to do and has not begun: gets and puts, each by traffic class. The
// readers serve the gets; the writer, before it takes the disk, queues up among them with the class
// and the bytes of what it writes, and goes on at the latest after a short wait. Any thread may use
// them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "foreload/tiers/disk_index.h"
#include "foreload/tiers/tier.h"
#include "foreload/tiers/traffic_queue.h"

namespace foreload::disk_cache {

struct QueuedGet {
  Get get;
  uint64_t ticket = 0;
  bool* turn = nullptr;  // not a get: the writer's turn, which waits for this to become true
};

class GetQueue {
 public:
  // With tickets in a row from the first.
  void push(std::span<Get> gets, uint64_t first_ticket, Traffic traffic);
  // The next get; waits for one. Nothing once stopped.
  std::optional<QueuedGet> pop();
  std::optional<QueuedGet> try_pop();  // without waiting
  // What is left after stop().
  std::deque<QueuedGet> drain();
  void stop();
  bool stopped() const;
  // A get that is cancelled comes next.
  void hasten(uint64_t ticket);
  // Called after every push and stop, for somebody who cannot wait in pop().
  // REQUIRES: set before the first push.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }

  // Waits until it is the turn of so many bytes of this class, the time is over, or the queue is
  // stopped.
  void wait_for_turn(Traffic traffic, uint64_t bytes);

 private:
  std::optional<QueuedGet> take();

  std::function<void()> wake_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable pushed_;
  std::condition_variable turn_;
  TrafficQueue<QueuedGet> queue_;
  std::deque<QueuedGet> cancelled_;
  bool stopped_ = false;
};

struct QueuedPut {
  Put put;
  uint64_t ticket = 0;
  DiskIndex::Borrowers borrower = 0;
  Traffic traffic = Traffic::fill;
  bool refused = false;  // there was no room in the queue, or one like it waits
};

// Puts hold on to their memory until they are answered, so their bytes are bounded.
class PutQueue {
 public:
  explicit PutQueue(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Beyond the bound, a put is queued as refused and without its memory.
  void push(std::span<Put> puts, uint64_t first_ticket, DiskIndex::Borrowers borrower,
            Traffic traffic);
  // The next put. Waits for one unless `now`. Nothing if there is none, or once stopped.
  std::optional<QueuedPut> pop(bool now);
  void stop();
  bool stopped() const;
  void hasten(uint64_t ticket);

  // A put that was not answered yet, for gets that come before the disk has it.
  std::optional<Put> find(const CopyKey& key) const;
  // Puts bytes there that are nowhere else while they move, to be ended like any put; ticket 0.
  void shelter(const Put& put);
  // A put that was not answered yet is not to be published.
  void drop(const CopyKey& key);
  // Ends a put: calls publish, under the lock, unless it was dropped meanwhile. Lets its memory go.
  void finish(QueuedPut& put, const std::function<void()>& publish);

 private:
  struct Pending {
    Put put;
    uint64_t ticket;
    bool dropped;
  };

  const uint64_t most_bytes_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable pushed_;
  TrafficQueue<QueuedPut> queue_;
  std::deque<QueuedPut> first_;  // refused and cancelled ones
  std::unordered_multimap<CopyKey, Pending, CopyKeyHash> pending_;
  uint64_t bytes_ = 0;  // of pending_
  bool stopped_ = false;
};

}  // namespace foreload::disk_cache
