// SPDX-License-Identifier: Apache-2.0
//
// A few threads that copy, checksum and decode for the engine, so that its loop only decides.
// Copies go before decoding, because what is decoded next arrives through them, and are started in
// the order given; of what waits to be decoded, the earliest place comes first.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "foreload/decode/pixels.h"
#include "foreload/policy/events.h"

namespace foreload {

class Hands {
 public:
  using Job = std::function<void()>;
  // With memory of the thread's own to decode in.
  using DecodeJob = std::function<void(Scratch&)>;
  struct Load {
    uint64_t running = 0;
    uint64_t waiting = 0;
  };

  // At least one thread, or what the system gives.
  explicit Hands(unsigned threads);
  // Finishes copies, which are short, and the job of each thread; forgets decoding that waits.
  ~Hands();
  Hands(const Hands&) = delete;
  Hands& operator=(const Hands&) = delete;

  // REQUIRES: the job does not throw. Any thread.
  void copy(Job job);
  void decode(BatchPlace place, DecodeJob job);
  Load load() const;

 private:
  void work();
  bool idle() const { return copies_.empty() && decodes_.empty(); }

  mutable std::mutex mutex_;  // guards the next four
  std::deque<Job> copies_;
  std::map<BatchPlace, DecodeJob> decodes_;
  uint64_t running_ = 0;
  bool stop_ = false;
  std::condition_variable filled_;
  std::vector<std::thread> threads_;
};

}  // namespace foreload
