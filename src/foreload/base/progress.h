// SPDX-License-Identifier: Apache-2.0
//
// How long work tells its caller how far it is, and learns that it should stop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace foreload {

// Called now and then, from the thread that asked for the work, with units done and units in all
// (0: not known yet). Returning false cancels: the work ends soon with ErrorKind::cancelled. May
// be empty.
using Progress = std::function<bool(uint64_t done, uint64_t total)>;

// A progress bar on standard error. Draws only on a terminal, only once the work has lasted half a
// second, and at most ten times a second; wipes its line when destroyed. For one thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string what);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(uint64_t done, uint64_t total);
  // A Progress that draws on this bar and never cancels. The bar must outlive it.
  Progress callback();

 private:
  using Clock = std::chrono::steady_clock;

  std::string what_;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_;
  Clock::time_point next_draw_;
};

}  // namespace foreload
