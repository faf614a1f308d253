// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/inbox.h"

#include <iterator>
#include <utility>

namespace foreload {

void Inbox::post(Message message) {
  bool wakes = false;
  {
    std::lock_guard lock(mutex_);
    wakes = !std::exchange(woken_, true);
    messages_.push_back(std::move(message));
  }
  if (wakes) filled_.notify_one();
}

void Inbox::post(std::vector<Message> messages) {
  if (messages.empty()) return;
  bool wakes = false;
  {
    std::lock_guard lock(mutex_);
    wakes = !std::exchange(woken_, true);
    messages_.insert(messages_.end(), std::make_move_iterator(messages.begin()),
                     std::make_move_iterator(messages.end()));
  }
  if (wakes) filled_.notify_one();
}

void Inbox::leave(Message message) {
  std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
}

void Inbox::wake() {
  {
    std::lock_guard lock(mutex_);
    if (messages_.empty() || std::exchange(woken_, true)) return;
  }
  filled_.notify_one();
}

void Inbox::take(std::vector<Message>& messages, std::optional<SteadyTime> until) {
  messages.clear();
  std::unique_lock lock(mutex_);
  auto there_are = [this] { return !messages_.empty(); };
  if (until)
    filled_.wait_until(lock, *until, there_are);
  else
    filled_.wait(lock, there_are);
  woken_ = false;
  messages.swap(messages_);
}

}  // namespace foreload
