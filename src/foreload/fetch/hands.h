// SPDX-License-Identifier: Apache-2.0
//
// A few threads that copy, checksum and decode for the engine, so that its loop only decides.
// Copies go before decoding, because what is decoded next arrives through them, and are started in
// the order given; of what waits to be decoded, or made into the form in which it is kept, the
// earliest batch comes first, in turn with that of a fetch, and what has no place last. Of one
// batch the most expensive sample comes first: begun last, it would hold up the batch alone.
//
// What peers asked for is done beside that: while both wait, the time that threads spend on either
// is measured and kept equal, so that neither starves the other; while one does not need the
// threads, the other has them all.
#pragma once

#include <chrono>
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

  // Time for measuring, from any fixed moment on.
  using Now = std::function<std::chrono::nanoseconds()>;

  // At least one thread, or what the system gives, ready to decode when this returns. Without a
  // clock, the system's.
  explicit Hands(unsigned threads, Now now = {});
  // Finishes copies, which are short, and the job of each thread; forgets decoding that waits.
  ~Hands();
  Hands(const Hands&) = delete;
  Hands& operator=(const Hands&) = delete;

  // REQUIRES: the job does not throw. Any thread.
  void copy(Job job);
  // `cost` in any unit, the same for all.
  void decode(BatchPlace place, uint64_t cost, DecodeJob job);
  void serve(Job job);
  Load load() const;
  unsigned threads() const { return static_cast<unsigned>(threads_.size()); }

 private:
  // Whose turn it is to be decoded: the least one.
  struct Turn {
    uint64_t batch;
    uint64_t cost;
    uint32_t index;
    bool operator<(const Turn& other) const;
  };
  // Work of one side, the own or that of peers.
  struct Side {
    std::chrono::nanoseconds spent{0};
    uint64_t running = 0;
  };
  void work();
  // REQUIRES: something waits to be decoded.
  DecodeJob take_decode();
  bool own_waits() const { return !copies_.empty() || !decodes_.empty(); }
  bool idle() const { return !own_waits() && serves_.empty(); }
  // A side that had nothing to do has not saved up time for that.
  static void catch_up(Side& side, const Side& other, bool waits);

  const Now now_;
  mutable std::mutex mutex_;  // guards the next eight
  std::deque<Job> copies_;
  std::multimap<Turn, DecodeJob> decodes_;  // a place may have one that nobody wants, too
  bool fetch_is_next_ = true;               // of those
  std::deque<Job> serves_;
  Side own_;
  Side peers_;
  bool stop_ = false;
  size_t warm_ = 0;  // threads that are ready
  std::condition_variable filled_;
  std::condition_variable ready_;
  std::vector<std::thread> threads_;
};

}  // namespace foreload
