// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/window.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace foreload {

bool BatchWindow::has_room(uint64_t bytes, uint64_t samples, uint64_t others) const {
  if (batches_.empty()) return true;
  const PolicySettings& settings = desk_.settings;
  if (open_samples_ + samples > settings.window_samples) return false;
  if (open_bytes_ + others + bytes <= settings.window_bytes) return true;
  if (batches_.size() > 1) return false;
  // The loop has the first one, or can have it: the next is filled meanwhile.
  if (settings.objective == Objective::time && delivered() == 1) return true;
  // One is computed while the next is filled: what reads ahead could take is better used for that.
  return others == 0 && open_bytes_ + bytes <= settings.most_of_two_batches();
}

uint64_t BatchWindow::open(uint64_t epoch, std::span<const uint64_t> samples, uint64_t bytes) {
  open_bytes_ += bytes;
  open_samples_ += samples.size();
  unready_ += samples.size();
  return batches_.emplace_back(make(next_number_++, epoch, samples, bytes)).number;
}

BatchWindow::Batch BatchWindow::make(uint64_t number, uint64_t epoch,
                                     std::span<const uint64_t> samples, uint64_t bytes) {
  Batch batch;
  batch.number = number;
  batch.epoch = epoch;
  batch.bytes = bytes;
  batch.pending = static_cast<uint32_t>(samples.size());
  batch.entries.reserve(samples.size());
  for (const uint64_t sample : samples) batch.entries.push_back({sample});
  return batch;
}

uint64_t BatchWindow::bytes_of(const event::Fetch& fetch) const {
  uint64_t bytes = 0;
  for (const uint64_t sample : fetch.samples) bytes += desk_.bytes(sample);
  return bytes;
}

const event::Fetch* BatchWindow::next_fetch(uint64_t others) const {
  if (queue_.empty()) return nullptr;
  const uint64_t bytes = fetch_bytes_ + bytes_of(queue_.front());
  const bool room = fetches_.empty() || bytes <= desk_.settings.window_bytes / 4 ||
                    bytes + open_bytes_ + others <= desk_.settings.window_bytes;
  return room ? &queue_.front() : nullptr;
}

uint64_t BatchWindow::open_fetch(uint64_t epoch) {
  event::Fetch fetch = std::move(queue_.front());
  queue_.pop_front();
  const uint64_t bytes = bytes_of(fetch);
  fetch_bytes_ += bytes;
  Batch& batch = fetches_[fetch.batch] = make(fetch.batch, epoch, fetch.samples, bytes);
  batch.as_bytes = fetch.as_bytes;
  desk_.act(action::OpenBatch{
      fetch.batch, epoch, 0, {}, std::move(fetch.samples), false, fetch.as_bytes});
  return batch.number;
}

void BatchWindow::forget(uint64_t fetch) {
  std::erase_if(queue_, [fetch](const event::Fetch& waiting) { return waiting.batch == fetch; });
  if (Batch* open = find(fetch)) open->forgotten = true;
}

void BatchWindow::leave_empty(BatchPlace place) {
  Batch& batch = this->batch(place.batch);
  settle(batch, batch.entries[place.index], State::bad);
}

std::vector<BatchPlace> BatchWindow::unfilled_of_fetches() {
  std::vector<BatchPlace> places;
  for (auto& [number, batch] : fetches_)
    for (uint32_t i = 0; i < batch.entries.size(); ++i) {
      Entry& entry = batch.entries[i];
      if (entry.state == State::reading) entry.state = State::waiting;
      if (entry.state == State::waiting) places.push_back({number, i});
    }
  return places;
}

BatchWindow::Batch* BatchWindow::find(uint64_t number) {
  if (is_fetch(number)) {
    const auto fetch = fetches_.find(number);
    return fetch == fetches_.end() ? nullptr : &fetch->second;
  }
  if (batches_.empty() || number < batches_.front().number) return nullptr;
  const uint64_t i = number - batches_.front().number;
  return i < batches_.size() ? &batches_[i] : nullptr;
}

void BatchWindow::settle(Batch& batch, Entry& entry, State state) {
  assert(batch.pending > 0 && entry.state != State::ready && entry.state != State::bad);
  entry.state = state;
  if (!is_fetch(batch.number)) --unready_;
  if (--batch.pending == 0 && is_fetch(batch.number)) complete_.push_back(batch.number);
}

void BatchWindow::filled(BatchPlace place) {
  Batch& batch = this->batch(place.batch);
  Entry& entry = batch.entries[place.index];
  if (!desk_.settings.decode || batch.as_bytes) return settle(batch, entry, State::ready);
  entry.state = State::decoding;
  ++desk_.totals.decoding;
  decoding_.begin(desk_.now);
  desk_.act(action::Decode{entry.sample, place});
}

void BatchWindow::decoded(const event::Decoded& e) {
  Batch* batch = find(e.place.batch);
  if (batch == nullptr) return;  // closed by a seek
  --desk_.totals.decoding;
  decoding_.end(desk_.now, 1);
  Entry& entry = batch->entries[e.place.index];
  if (e.ok) return settle(*batch, entry, State::ready);
  mark_bad(e.place, ReadEnd::undecodable, std::max(entry.tries, 1u), desk_.now - entry.first_try);
}

void BatchWindow::mark_bad(BatchPlace place, ReadEnd end, unsigned tries, RunTime since) {
  Batch& batch = this->batch(place.batch);
  Entry& entry = batch.entries[place.index];
  settle(batch, entry, State::bad);
  if (is_fetch(place.batch))
    return desk_.act(action::Fail{entry.sample, place, end, tries, since, false});
  const bool any_good = std::any_of(batch.entries.begin(), batch.entries.end(),
                                    [](const Entry& other) { return other.state != State::bad; });
  if (desk_.settings.skip_bad_samples && any_good) {
    ++desk_.totals.skipped;
    desk_.act(action::Skip{entry.sample, place, end});
  } else if (!batch.failed) {
    batch.failed = true;
    desk_.act(
        action::Fail{entry.sample, place, end, tries, since, desk_.settings.skip_bad_samples});
  }
}

const BatchPlace* BatchWindow::first_waiter(uint64_t sample) const {
  const auto waiting = waiters_.find(sample);
  return waiting == waiters_.end() ? nullptr : &waiting->second.front();
}

void BatchWindow::drop_first_waiter(uint64_t sample) {
  const auto waiting = waiters_.find(sample);
  waiting->second.erase(waiting->second.begin());
  if (waiting->second.empty()) waiters_.erase(waiting);
}

std::vector<BatchPlace> BatchWindow::take_waiters(uint64_t sample) {
  const auto waiting = waiters_.find(sample);
  if (waiting == waiters_.end()) return {};
  std::vector<BatchPlace> places = std::move(waiting->second);
  waiters_.erase(waiting);
  return places;
}

void BatchWindow::deliver() {
  for (const uint64_t number : std::exchange(complete_, {})) {
    const auto fetch = fetches_.find(number);
    fetch_bytes_ -= fetch->second.bytes;
    fetches_.erase(fetch);
    desk_.act(action::Deliver{number});
  }
  while (Batch* next = find(next_delivery_)) {
    Batch& batch = *next;
    if (batch.failed || batch.pending > 0) return;
    // A bad sample's place takes the next good one of the batch, going round.
    const auto size = static_cast<uint32_t>(batch.entries.size());
    for (uint32_t i = 0; i < size; ++i) {
      if (batch.entries[i].state != State::bad) continue;
      uint32_t good = (i + 1) % size;
      while (batch.entries[good].state == State::bad) good = (good + 1) % size;
      desk_.act(action::Substitute{{batch.number, good}, {batch.number, i}});
    }
    batch.delivered = true;
    batch.delivered_at = desk_.now;
    ++next_delivery_;
    desk_.act(action::Deliver{batch.number});
  }
}

void BatchWindow::consumed(uint64_t batch) {
  while (!batches_.empty() && batches_.front().number <= batch && batches_.front().delivered) {
    open_bytes_ -= batches_.front().bytes;
    open_samples_ -= batches_.front().entries.size();
    batches_.pop_front();
  }
}

void BatchWindow::close_all() {
  for (const Batch& batch : batches_) {
    desk_.act(action::CloseBatch{batch.number});
    for (const Entry& entry : batch.entries) {
      if (entry.state != State::decoding) continue;
      --desk_.totals.decoding;
      decoding_.end(desk_.now, 0);
    }
  }
  batches_.clear();
  open_bytes_ = 0;
  open_samples_ = 0;
  unready_ = 0;
  waiters_.clear();
  next_delivery_ = next_number_;
}

}  // namespace foreload
