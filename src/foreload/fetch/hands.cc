// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/hands.h"

#include <algorithm>
#include <system_error>
#include <tuple>
#include <utility>

#include "foreload/base/own_thread.h"
#include "foreload/decode/decoder.h"

namespace foreload {

Hands::Hands(unsigned threads, Now now)
    : now_(now ? std::move(now)
               : [] { return std::chrono::steady_clock::now().time_since_epoch(); }) {
  for (unsigned i = 0; i < std::max(1u, threads); ++i) {
    try {
      threads_.push_back(start_own_thread("foreload-hand", [this] { work(); }));
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
      break;
    }
  }
  std::unique_lock lock(mutex_);
  ready_.wait(lock, [this] { return warm_ == threads_.size(); });
}

Hands::~Hands() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    decodes_.clear();
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Hands::catch_up(Side& side, const Side& other, bool waits) {
  if (!waits && side.running == 0) side.spent = std::max(side.spent, other.spent);
}

void Hands::copy(Job job) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    catch_up(own_, peers_, own_waits());
    copies_.push_back(std::move(job));
  }
  filled_.notify_one();
}

void Hands::decode(BatchPlace place, uint64_t cost, DecodeJob job) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    catch_up(own_, peers_, own_waits());
    decodes_.emplace(Turn{place.batch, cost, place.index}, std::move(job));
  }
  filled_.notify_one();
}

void Hands::serve(Job job) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    catch_up(peers_, own_, !serves_.empty());
    serves_.push_back(std::move(job));
  }
  filled_.notify_one();
}

Hands::Load Hands::load() const {
  std::lock_guard lock(mutex_);
  return {own_.running + peers_.running, copies_.size() + decodes_.size() + serves_.size()};
}

bool Hands::Turn::operator<(const Turn& other) const {
  return std::tie(batch, other.cost, index) < std::tie(other.batch, cost, other.index);
}

Hands::DecodeJob Hands::take_decode() {
  auto first = decodes_.begin();
  const auto fetch = decodes_.lower_bound({kFetches, UINT64_MAX, 0});
  if (fetch_is_next_ && fetch != decodes_.end() && is_fetch(fetch->first.batch)) first = fetch;
  fetch_is_next_ = !is_fetch(first->first.batch);
  DecodeJob job = std::move(first->second);
  decodes_.erase(first);
  return job;
}

void Hands::work() {
  Scratch scratch;
  warm_up(scratch);
  std::unique_lock lock(mutex_);
  ++warm_;
  ready_.notify_one();
  while (true) {
    filled_.wait(lock, [this] { return stop_ || !idle(); });
    if (idle()) return;
    Job job;
    DecodeJob decode;
    const bool for_peers = !serves_.empty() && (!own_waits() || peers_.spent < own_.spent);
    std::deque<Job>& jobs = for_peers ? serves_ : copies_;
    if (!jobs.empty()) {
      job = std::move(jobs.front());
      jobs.pop_front();
    } else {
      decode = take_decode();
    }
    Side& side = for_peers ? peers_ : own_;
    ++side.running;
    lock.unlock();
    const auto begin = now_();
    if (job)
      job();
    else
      decode(scratch);
    job = nullptr;  // what they hold may take a while to let go
    decode = nullptr;
    const auto took = now_() - begin;
    lock.lock();
    --side.running;
    side.spent += took;
  }
}

}  // namespace foreload
