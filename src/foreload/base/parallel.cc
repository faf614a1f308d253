// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/parallel.h"

#include <atomic>
#include <cassert>
#include <system_error>
#include <thread>
#include <vector>

#include "foreload/base/own_thread.h"

namespace foreload {

bool parallel_for(uint64_t pieces, unsigned threads,
                  const std::function<void(uint64_t piece, unsigned worker)>& work,
                  const Progress& progress) {
  assert(threads >= 1);
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> done{0};
  std::atomic<bool> cancelled{false};
  auto run = [&](unsigned worker) {
    while (!cancelled.load(std::memory_order_relaxed)) {
      const uint64_t piece = next.fetch_add(1, std::memory_order_relaxed);
      if (piece >= pieces) return;
      work(piece, worker);
      const uint64_t finished = done.fetch_add(1, std::memory_order_relaxed) + 1;
      if (worker == 0 && progress && !progress(finished, pieces)) cancelled = true;
    }
  };
  std::vector<std::thread> others;
  for (unsigned worker = 1; worker < threads && worker < pieces; ++worker) {
    try {
      others.push_back(start_own_thread("foreload-share", [&run, worker] { run(worker); }));
    } catch (const std::system_error&) {
      break;
    }
  }
  run(0);
  for (std::thread& thread : others) thread.join();
  return !cancelled;
}

}  // namespace foreload
