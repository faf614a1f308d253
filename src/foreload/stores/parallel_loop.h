// SPDX-License-Identifier: Apache-2.0
//
// Handles items 0 ... count - 1 on several threads while the calling one reports progress: for work
// that waits for a file system rather than for a CPU. Items are handed out in order and each one
// handed out is finished, so the error that is kept, that of the lowest item, does not depend on
// timing. Private to stores. A loop is run once.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/base/result.h"
#include "foreload/stores/store.h"

namespace foreload {

class ParallelLoop {
 public:
  using Item = std::function<std::optional<Error>(size_t, const std::atomic<bool>& cancelled)>;
  using Tick = std::function<bool(size_t done)>;  // false cancels

  ParallelLoop(size_t count, const Item& item, const Tick& tick)
      : count_(count), item_(item), tick_(tick) {}
  // The crew is joined here also when tick() threw.
  ~ParallelLoop() {
    cancelled_ = true;
    for (std::thread& thread : crew_) thread.join();
  }
  ParallelLoop(const ParallelLoop&) = delete;
  ParallelLoop& operator=(const ParallelLoop&) = delete;

  // tick() is called at both ends and about every 50 ms. An error of kind `cancelled` is empty.
  Result<void> run(unsigned threads) {
    if (!tick_(0)) cancelled_ = true;
    start_crew(std::min<size_t>(threads, count_));
    if (crew_.empty()) {
      work_alone();
    } else {
      wait_for_crew();
    }
    if (!cancelled_ && !error_ && !tick_(done_)) cancelled_ = true;
    if (cancelled_) return fail(ErrorKind::cancelled, {});
    if (error_) return tl::unexpected(std::move(*error_));
    return {};
  }

 private:
  static constexpr std::chrono::milliseconds kTickEvery{50};

  bool work_on_next() {
    if (cancelled_ || failed_) return false;
    const size_t i = next_.fetch_add(1);
    if (i >= count_) return false;
    if (std::optional<Error> error = item_(i, cancelled_)) {
      const std::scoped_lock lock(mutex_);
      failed_ = true;
      if (i < failed_item_) {
        failed_item_ = i;
        error_ = std::move(error);
      }
    }
    ++done_;
    return true;
  }

  void start_crew(size_t size) {
    crew_.reserve(size);
    const std::scoped_lock lock(mutex_);  // nobody leaves before everybody is counted
    while (crew_.size() < size) {
      try {
        crew_.push_back(start_own_thread("foreload-ask", [this] {
          while (work_on_next()) continue;
          const std::scoped_lock leaving(mutex_);
          if (--working_ == 0) idle_.notify_one();
        }));
      } catch (const std::system_error&) {
        break;  // no more threads to be had; those there are do all the work
      }
      ++working_;
    }
  }

  void wait_for_crew() {
    std::unique_lock lock(mutex_);
    while (!idle_.wait_for(lock, kTickEvery, [this] { return working_ == 0; })) {
      lock.unlock();
      if (!cancelled_ && !tick_(done_)) cancelled_ = true;
      lock.lock();
    }
  }

  void work_alone() {
    using Clock = std::chrono::steady_clock;
    Clock::time_point next_tick = Clock::now() + kTickEvery;
    while (work_on_next()) {
      if (Clock::now() < next_tick) continue;
      if (!tick_(done_)) cancelled_ = true;
      next_tick = Clock::now() + kTickEvery;
    }
  }

  const size_t count_;
  const Item& item_;
  const Tick& tick_;
  std::atomic<size_t> next_ = 0;
  std::atomic<size_t> done_ = 0;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // guards the four below
  std::condition_variable idle_;
  size_t working_ = 0;
  size_t failed_item_ = SIZE_MAX;
  std::optional<Error> error_;
  std::vector<std::thread> crew_;
};

// Runs a loop as a store is asked to. Progress counts only where the number of objects is known.
// `where` is the store, for messages.
inline Result<void> for_all(size_t count, const ParallelLoop::Item& item, std::string_view where,
                            const StoreCall& call, size_t objects = 0) {
  const ParallelLoop::Tick tick = [&call, objects](size_t done) {
    return !call.progress || call.progress(std::min(done, objects), objects);
  };
  ParallelLoop loop(count, item, tick);
  Result<void> result = loop.run(call.threads);
  if (!result && result.error().kind == ErrorKind::cancelled)
    return fail(ErrorKind::cancelled, fmt::format("listing of folder {} was cancelled", where));
  return result;
}

// What Store::changed() answers, if `changed` says it of one folder.
inline Result<std::optional<std::string>> first_changed(
    std::span<const StoredFolder> folders, std::string_view where, const StoreCall& call,
    const std::function<Result<bool>(const StoredFolder&)>& changed) {
  constexpr size_t kMost = 10'000;
  const size_t count = std::min(folders.size(), kMost);
  const auto folder = [&](size_t i) -> const StoredFolder& {
    return folders[i * folders.size() / count];
  };
  std::vector<uint8_t> differs(count);
  const auto item = [&](size_t i, const std::atomic<bool>&) -> std::optional<Error> {
    const Result<bool> answer = changed(folder(i));
    if (!answer) return answer.error();
    differs[i] = *answer ? 1 : 0;
    return std::nullopt;
  };
  FORELOAD_CHECK(for_all(count, item, where, call));
  const auto first = std::ranges::find(differs, 1);
  if (first == differs.end()) return std::nullopt;
  return folder(static_cast<size_t>(first - differs.begin())).name;
}

}  // namespace foreload
