// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/serving.h"

#include <algorithm>
#include <utility>

namespace foreload {

void Serving::refuse(const Ask& ask) {
  if (!lives_.up(ask.rank)) return;
  ++desk_.totals.refused;
  desk_.act(action::Refuse{ask.rank, ask.request});
}

void Serving::answer(uint64_t sample) {
  const auto found = parked_.find(sample);
  if (found == parked_.end()) return;
  const std::vector<Ask> asks = std::move(found->second);
  parked_.erase(found);
  for (const Ask& ask : asks) {
    if (copies_.has(sample))
      serve(ask);
    else
      refuse(ask);
  }
}

void Serving::serve(const Ask& ask) {
  if (may_send(ask))
    send(ask);
  else
    waiting_.push_back(ask);
}

// Bounded in all, but everybody who asks has one sample under way: a peer that takes nothing keeps
// nobody else waiting.
bool Serving::may_send(const Ask& ask) const {
  return !sending_.contains(ask.rank) ||
         sending_bytes_ + desk_.bytes(ask.sample) <= desk_.settings.serve_bytes;
}

void Serving::send(const Ask& ask) {
  const auto [sending, is_first] = sending_.try_emplace(ask.rank);
  if (is_first) sending->second.since = desk_.now;
  ++sending->second.samples;
  sending_bytes_ += desk_.bytes(ask.sample);
  desk_.act(action::Serve{ask.rank, ask.request, ask.sample, copies_.fastest(ask.sample)});
}

void Serving::sent(const event::Served& e) {
  sending_bytes_ -= desk_.bytes(e.sample);
  const auto sending = sending_.find(e.rank);
  sending->second.since = desk_.now;
  if (--sending->second.samples == 0) sending_.erase(sending);
  if (e.ok) {
    ++desk_.totals.served;
  } else {
    keeping_.forget(e.sample, e.tier);
    waiting_.push_front({e.rank, e.request, e.sample});  // from another copy, or refused
  }
  // Whoever may be sent something, those who have waited longest first.
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const Ask ask = *next;
    const bool up = lives_.up(ask.rank);
    if (up && copies_.has(ask.sample) && !may_send(ask)) {
      ++next;
      continue;
    }
    next = waiting_.erase(next);
    if (!up) continue;
    if (copies_.has(ask.sample))
      send(ask);
    else
      refuse(ask);
  }
}

void Serving::erase(const std::function<bool(const Ask&)>& which) {
  for (auto asks = parked_.begin(); asks != parked_.end();) {
    std::erase_if(asks->second, which);
    asks = asks->second.empty() ? parked_.erase(asks) : std::next(asks);
  }
  std::erase_if(waiting_, which);
}

void Serving::cancel(uint32_t rank, uint64_t request) {
  erase([=](const Ask& ask) { return ask.rank == rank && ask.request == request; });
}

void Serving::drop_peer(uint32_t rank) {
  erase([rank](const Ask& ask) { return ask.rank == rank; });
}

void Serving::forget() {
  std::erase_if(parked_, [this](const auto& entry) {
    if (copies_.on_its_way(entry.first) == OnItsWay::placing)
      return false;  // it comes nevertheless
    for (const Ask& ask : entry.second) refuse(ask);
    return true;
  });
}

void Serving::lose_patience() {
  for (auto asks = parked_.begin(); asks != parked_.end();) {
    std::vector<Ask>& waiting = asks->second;
    while (!waiting.empty() && desk_.now - waiting.front().since >= desk_.settings.push_patience) {
      if (copies_.on_its_way(asks->first) == OnItsWay::no)
        lives_.set_late(desk_.settings.rank, true);
      refuse(waiting.front());
      waiting.erase(waiting.begin());
    }
    asks = waiting.empty() ? parked_.erase(asks) : std::next(asks);
  }
}

void Serving::visit_takers(const std::function<void(uint32_t rank, RunTime since)>& owes) const {
  for (const auto& [rank, sending] : sending_)
    if (lives_.up(rank)) owes(rank, sending.since);
}

}  // namespace foreload
