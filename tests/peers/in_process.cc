// SPDX-License-Identifier: Apache-2.0
#include "in_process.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "foreload/base/own_thread.h"

namespace foreload {
namespace {

struct Message {
  uint64_t number = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  uint64_t id = 0;
  std::vector<std::byte> header;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keeper;
};

// A call that waits to be made: `sent` or `lost`.
struct Notice {
  uint32_t at = 0;  // whose call
  bool is_lost = false;
  uint64_t id = 0;
  bool ok = false;
  uint32_t rank = 0;
  std::string why;
};

struct Member {
  bool joined = false;
  bool gone = false;     // left or killed
  bool noticed = false;  // and the others know
  bool busy = false;     // a call to it is being made, or a message of it is being copied
  std::shared_ptr<const TransportCalls> calls;
  std::vector<bool> dropped;  // by rank
};

}  // namespace

struct InProcessNetwork::State {
  State(uint32_t ranks, Delivery delivery) : members(ranks), delivery_by(delivery) {}

  // What to do next, taken out of the lists with its ranks marked busy.
  struct Task {
    std::optional<Notice> notice;
    std::optional<Message> message;
    std::shared_ptr<const TransportCalls> calls;
  };

  bool may_arrive(const Message& message) const {
    const Member& to = members[message.to];
    return to.joined && !to.gone && !cuts.contains(std::minmax(message.from, message.to));
  }
  std::optional<Task> next_task() {
    while (!notices.empty()) {
      Task task;
      task.notice = std::move(notices.front());
      notices.pop_front();
      Member& member = members[task.notice->at];
      if (member.gone) continue;
      member.busy = true;
      task.calls = member.calls;
      return task;
    }
    const auto oldest = std::find_if(messages.begin(), messages.end(),
                                     [&](const Message& m) { return may_arrive(m); });
    if (oldest == messages.end()) return std::nullopt;
    return take(oldest);
  }
  Task take(std::list<Message>::iterator message) {
    Task task;
    task.message = std::move(*message);
    messages.erase(message);
    members[task.message->from].busy = true;
    members[task.message->to].busy = true;
    if (!members[task.message->to].dropped[task.message->from]) {
      task.calls = members[task.message->to].calls;
    }
    return task;
  }
  // Makes the calls without the lock.
  void carry_out(std::unique_lock<std::mutex>& lock, Task task) {
    lock.unlock();
    if (task.notice) {
      if (task.notice->is_lost) {
        task.calls->lost(task.notice->rank, task.notice->why);
      } else {
        task.calls->sent(task.notice->id, task.notice->ok);
      }
    } else if (task.calls) {
      const Message& message = *task.message;
      PayloadPlace place;
      if (!message.payload.empty()) {
        place = task.calls->incoming(message.from, message.header, message.payload.size());
        if (place.data != nullptr) {
          std::memcpy(place.data, message.payload.data(), message.payload.size());
        }
      }
      task.calls->arrived(message.from, message.header, std::move(place), message.payload.size(),
                          true);
    }
    task.calls.reset();
    lock.lock();
    if (task.message) {
      members[task.message->from].busy = false;
      members[task.message->to].busy = false;
      note_sent(*task.message, true);
    } else {
      members[task.notice->at].busy = false;
    }
    not_busy.notify_all();
  }
  void note_sent(Message& message, bool ok) {
    message.keeper.reset();
    notices.push_back({.at = message.from, .id = message.id, .ok = ok});
    work.notify_one();
  }
  // Takes out the messages for which `chosen` holds.
  template <class Chosen>
  std::list<Message> take_if(Chosen chosen) {
    std::list<Message> taken;
    for (auto it = messages.begin(); it != messages.end();) {
      const auto here = it++;
      if (chosen(*here)) taken.splice(taken.end(), messages, here);
    }
    return taken;
  }
  // The others hear of it, and get back what they had sent.
  void tell_lost(uint32_t rank, const std::string& why) {
    members[rank].noticed = true;
    for (Message& message : take_if([&](const Message& m) { return m.to == rank; })) {
      note_sent(message, false);
    }
    for (uint32_t at = 0; at < members.size(); ++at) {
      const Member& member = members[at];
      if (at == rank || !member.joined || member.gone || member.dropped[rank]) continue;
      notices.push_back({.at = at, .is_lost = true, .rank = rank, .why = why});
    }
    work.notify_one();
  }
  Message* find(uint64_t number) {
    const auto it = std::find_if(messages.begin(), messages.end(),
                                 [&](const Message& m) { return m.number == number; });
    return it == messages.end() ? nullptr : &*it;
  }

  std::mutex mutex;
  std::condition_variable work;      // for the thread: a message, a notice, or the end
  std::condition_variable not_busy;  // for endpoints that leave
  std::vector<Member> members;
  std::list<Message> messages;  // under way, in the order they were sent
  std::deque<Notice> notices;
  std::set<std::pair<uint32_t, uint32_t>> cuts;  // the smaller rank first
  uint64_t last_number = 0;
  bool ended = false;
  const Delivery delivery_by;
  std::thread thread;
};

class InProcessNetwork::Endpoint final : public Transport {
 public:
  Endpoint(std::shared_ptr<State> state, uint32_t rank) : state_(std::move(state)), rank_(rank) {}

  ~Endpoint() override {
    std::unique_lock lock(state_->mutex);
    Member& self = state_->members[rank_];
    state_->not_busy.wait(lock, [&] { return !self.busy; });
    if (self.gone) return;
    self.gone = true;
    std::vector<std::pair<uint64_t, bool>> answers;
    std::erase_if(state_->notices, [&](const Notice& notice) {
      if (notice.at != rank_) return false;
      if (!notice.is_lost) answers.emplace_back(notice.id, notice.ok);
      return true;
    });
    const auto unsent = state_->take_if([&](const Message& m) { return m.from == rank_; });
    for (const Message& message : unsent) answers.emplace_back(message.id, false);
    state_->tell_lost(rank_, "it left");
    const auto calls = std::exchange(self.calls, nullptr);
    lock.unlock();
    for (const auto& [id, ok] : answers) calls->sent(id, ok);
  }

  void send(uint32_t to, OutgoingMessage outgoing) override {
    assert(to < state_->members.size() && to != rank_);
    assert(!outgoing.header.empty() && outgoing.header.size() <= kMostHeaderBytes);
    Message message{.from = rank_,
                    .to = to,
                    .id = outgoing.id,
                    .header = {outgoing.header.begin(), outgoing.header.end()},
                    .payload = outgoing.payload,
                    .keeper = std::move(outgoing.keeper)};
    const std::scoped_lock lock(state_->mutex);
    const Member& self = state_->members[rank_];
    if (self.gone) return;
    const Member& peer = state_->members[to];
    message.number = ++state_->last_number;
    if (self.dropped[to] || peer.noticed) {
      state_->note_sent(message, false);
      return;
    }
    state_->messages.push_back(std::move(message));
    state_->work.notify_one();
  }

  void drop(uint32_t rank) override {
    const std::scoped_lock lock(state_->mutex);
    Member& self = state_->members[rank_];
    if (self.gone || rank == rank_) return;
    self.dropped[rank] = true;
    auto given_up =
        state_->take_if([&](const Message& m) { return m.from == rank_ && m.to == rank; });
    for (Message& message : given_up) state_->note_sent(message, false);
  }

  std::string describe() const override { return "in-process"; }

 private:
  const std::shared_ptr<State> state_;
  const uint32_t rank_;
};

InProcessNetwork::InProcessNetwork(uint32_t ranks, Delivery delivery)
    : state_(std::make_shared<State>(ranks, delivery)) {
  if (delivery == Delivery::by_hand) return;
  state_->thread = start_own_thread("fl-in-process", [state = state_.get()] {
    std::unique_lock lock(state->mutex);
    while (!state->ended) {
      if (auto task = state->next_task()) {
        state->carry_out(lock, std::move(*task));
      } else {
        state->work.wait(lock);
      }
    }
  });
}

InProcessNetwork::~InProcessNetwork() {
  if (!state_->thread.joinable()) return;
  {
    const std::scoped_lock lock(state_->mutex);
    state_->ended = true;
    state_->work.notify_one();
  }
  state_->thread.join();
}

std::unique_ptr<Transport> InProcessNetwork::join(uint32_t rank, TransportCalls calls) {
  const std::scoped_lock lock(state_->mutex);
  Member& member = state_->members.at(rank);
  assert(!member.joined);
  member.joined = true;
  member.calls = std::make_shared<const TransportCalls>(std::move(calls));
  member.dropped.resize(state_->members.size());
  state_->work.notify_one();
  return std::make_unique<Endpoint>(state_, rank);
}

std::vector<InProcessNetwork::Parcel> InProcessNetwork::under_way() const {
  const std::scoped_lock lock(state_->mutex);
  std::vector<Parcel> parcels;
  for (const Message& m : state_->messages) {
    parcels.push_back({m.number, m.from, m.to, m.id, m.header, m.payload.size()});
  }
  return parcels;
}

bool InProcessNetwork::step() {
  assert(state_->delivery_by == Delivery::by_hand);
  std::unique_lock lock(state_->mutex);
  auto task = state_->next_task();
  if (!task) return false;
  state_->carry_out(lock, std::move(*task));
  return true;
}

size_t InProcessNetwork::run(size_t most) {
  size_t steps = 0;
  while (steps < most && step()) ++steps;
  return steps;
}

bool InProcessNetwork::deliver(uint64_t number) {
  assert(state_->delivery_by == Delivery::by_hand);
  std::unique_lock lock(state_->mutex);
  auto& messages = state_->messages;
  const auto it =
      std::find_if(messages.begin(), messages.end(), [&](auto& m) { return m.number == number; });
  if (it == messages.end() || !state_->may_arrive(*it)) return false;
  const auto older = std::find_if(messages.begin(), it,
                                  [&](auto& m) { return m.from == it->from && m.to == it->to; });
  if (older != it) return false;
  state_->carry_out(lock, state_->take(it));
  return true;
}

void InProcessNetwork::lose(uint64_t number, bool noticed) {
  const std::scoped_lock lock(state_->mutex);
  for (Message& message : state_->take_if([&](auto& m) { return m.number == number; })) {
    state_->note_sent(message, !noticed);
  }
}

void InProcessNetwork::change_header(uint64_t number, size_t at, std::byte difference) {
  const std::scoped_lock lock(state_->mutex);
  if (Message* message = state_->find(number)) message->header.at(at) ^= difference;
}

void InProcessNetwork::change_payload(uint64_t number, uint64_t at, std::byte difference) {
  const std::scoped_lock lock(state_->mutex);
  Message* message = state_->find(number);
  if (message == nullptr) return;
  // Keeps the original, too: its owner may count on being asked to until `sent`.
  struct Changed {
    std::vector<std::byte> bytes;
    std::shared_ptr<const void> original;
  };
  auto changed = std::make_shared<Changed>();
  changed->bytes.assign(message->payload.begin(), message->payload.end());
  changed->bytes.at(at) ^= difference;
  changed->original = std::move(message->keeper);
  message->payload = changed->bytes;
  message->keeper = std::move(changed);
}

void InProcessNetwork::cut(uint32_t a, uint32_t b) {
  const std::scoped_lock lock(state_->mutex);
  state_->cuts.insert(std::minmax(a, b));
}

void InProcessNetwork::mend(uint32_t a, uint32_t b) {
  const std::scoped_lock lock(state_->mutex);
  state_->cuts.erase(std::minmax(a, b));
  state_->work.notify_one();
}

void InProcessNetwork::kill(uint32_t rank, bool noticed) {
  std::unique_lock lock(state_->mutex);
  Member& member = state_->members.at(rank);
  // A call that is being made ends first, except where it is this one: kill() from a callback.
  if (state_->thread.get_id() != std::this_thread::get_id()) {
    state_->not_busy.wait(lock,
                          [&] { return !member.busy || state_->delivery_by == Delivery::by_hand; });
  }
  if (member.gone) return;
  member.gone = true;
  state_->take_if([&](const Message& m) { return m.from == rank; });
  if (noticed) state_->tell_lost(rank, "it was killed");
}

}  // namespace foreload
