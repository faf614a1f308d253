// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"

namespace foreload {
namespace {

constexpr auto kQuietFor = std::chrono::milliseconds(500);
constexpr auto kRedrawEvery = std::chrono::milliseconds(100);
constexpr size_t kBarWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string what)
    : what_(std::move(what)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      next_draw_(start_ + kQuietFor) {}

ProgressBar::~ProgressBar() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  if (!terminal_) return;
  const auto now = Clock::now();
  if (now < next_draw_) return;
  next_draw_ = now + kRedrawEvery;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (total == 0) {
    fmt::print(stderr, "\r{} {} ({:.0f} s)\x1b[K", what_, format_count(done), seconds);
  } else {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    const auto filled = static_cast<size_t>(share * kBarWidth);
    const double left = done == 0 ? 0 : seconds * (1 - share) / share;
    fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {:3.0f} %  {} of {}  {:.0f} s left\x1b[K", what_, "",
               filled, "", kBarWidth - filled, share * 100, format_count(done), format_count(total),
               left);
  }
  std::fflush(stderr);
}

Progress ProgressBar::callback() {
  return [this](uint64_t done, uint64_t total) {
    update(done, total);
    return true;
  };
}

}  // namespace foreload
