// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/ticket.h"

#include <utility>

namespace foreload {

bool Ticket::wait(std::optional<SteadyTime> until) const {
  std::unique_lock lock(mutex_);
  const auto there_is = [this] { return answer_.has_value(); };
  if (until) return answered_.wait_until(lock, *until, there_is);
  answered_.wait(lock, there_is);
  return true;
}

void Ticket::cancel() {
  if (set(fail(ErrorKind::cancelled, "the samples are not wanted any more")))
    inbox_->post(Event{event::ForgetFetch{number_}});
}

bool Ticket::set(Result<Fetched> answer) {
  {
    const std::lock_guard lock(mutex_);
    if (answer_) return false;
    answer_ = std::move(answer);
  }
  answered_.notify_all();
  return true;
}

}  // namespace foreload
