// SPDX-License-Identifier: Apache-2.0
//
// Whether a simulated rank lives. It may die, or be stopped for a while, as a process is that gets
// no CPU; what would have reached it then does so when it goes on.
//
// For one thread.
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace foreload::sim {

class Life {
 public:
  // `woken` is called when the rank has heard what it missed.
  explicit Life(std::function<void()> woken) : woken_(std::move(woken)) {}

  // From now on the rank does nothing and answers nobody.
  void die() { dead_ = true; }
  bool dead() const { return dead_; }
  // Does nothing until wake().
  void stop() { stopped_ = true; }
  bool stopped() const { return stopped_; }
  // REQUIRES: stopped().
  void miss(std::function<void()> what) { missed_.push_back(std::move(what)); }
  void wake() {
    stopped_ = false;
    for (const auto& missed : std::exchange(missed_, {})) missed();
    woken_();
  }

 private:
  std::function<void()> woken_;
  bool dead_ = false;
  bool stopped_ = false;
  std::vector<std::function<void()>> missed_;
};

}  // namespace foreload::sim
