// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/tcp_store.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"

namespace foreload::peers {
namespace {

constexpr uint64_t kListener = 0;
constexpr uint64_t kWake = 1;
constexpr std::chrono::seconds kLook{1};  // how often silent connections are looked for
// A client asks again when it has given up, so answers may follow each other, but not many.
constexpr size_t kMostLeaving = 8;

constexpr int kSendBuffer = 64 << 10;  // bytes a connection; the system doubles it

}  // namespace

Result<std::unique_ptr<Rendezvous>> TcpStore::serve_at(Descriptor listener, bool others_put) {
  Descriptor events(::epoll_create1(EPOLL_CLOEXEC));
  Descriptor wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!events || !wake)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot serve the rendezvous: {}. Raise the limit of open files",
                            std::strerror(errno)));
  return std::unique_ptr<Rendezvous>(
      new TcpStore(std::move(listener), std::move(events), std::move(wake), others_put));
}

TcpStore::TcpStore(Descriptor listener, Descriptor events, Descriptor wake, bool others_put)
    : RendezvousStore(others_put),
      listener_(std::move(listener)),
      events_(std::move(events)),
      wake_(std::move(wake)) {
  ::fcntl(listener_.get(), F_SETFL, O_NONBLOCK);
  watch(EPOLL_CTL_ADD, listener_, EPOLLIN, kListener);
  watch(EPOLL_CTL_ADD, wake_, EPOLLIN, kWake);
  thread_ = start_own_thread("fl-rendezvous", [this] { serve(); });
}

TcpStore::~TcpStore() {
  ended_ = true;
  wake();
  thread_.join();
}

void TcpStore::watch(int operation, const Descriptor& socket, uint32_t what, uint64_t number) {
  epoll_event event{};
  event.events = what;
  event.data.u64 = number;
  ::epoll_ctl(events_.get(), operation, socket.get(), &event);
}

void TcpStore::wake() {
  ::eventfd_write(wake_.get(), 1);
}

void TcpStore::serve() {
  std::array<epoll_event, 256> happened;
  auto looked = Clock::now();
  while (!ended_) {
    const int count = ::epoll_wait(events_.get(), happened.data(), happened.size(),
                                   static_cast<int>(std::chrono::milliseconds(kLook).count()));
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      const uint64_t number = happened[static_cast<size_t>(i)].data.u64;
      if (number == kListener) {
        accept_all();
      } else if (number == kWake) {
        eventfd_t value = 0;
        ::eventfd_read(wake_.get(), &value);
      } else if (const auto found = connections_.find(number); found != connections_.end()) {
        const bool readable = (happened[static_cast<size_t>(i)].events & ~EPOLLOUT) != 0;
        if ((readable && !read_from(number, found->second)) || !write_to(number, found->second))
          close(found);
      }
    }
    for (Answer& answer : take_answers()) {
      const auto found = connections_.find(answer.to);
      if (found == connections_.end()) continue;
      auto& out = found->second.out;
      if (out.empty()) found->second.since = Clock::now();
      out.push_back(
          {frame_start(answer.kind, answer.key, answer.value->size()), std::move(answer.value)});
      if (out.size() > kMostLeaving || !write_to(answer.to, found->second)) close(found);
    }
    if (Clock::now() - looked < kLook) continue;
    looked = Clock::now();
    close_silent();
    listen_again(true);
  }
}

// Where no more can be had, the next look tries again.
void TcpStore::accept_all() {
  while (connections_.size() < kMostConnections) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) listen_again(false);
      return;
    }
    // All ranks are sent long answers at once; left to itself, the system would take all of them
    // into its buffers, run out of memory for the network, and stall everybody.
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    const Asker asker = next_asker_++;
    watch(EPOLL_CTL_ADD, socket, EPOLLIN, asker);
    connections_[asker].socket = std::move(socket);
  }
  listen_again(false);
}

void TcpStore::listen_again(bool yes) {
  if (std::exchange(listening_, yes) == yes) return;
  watch(EPOLL_CTL_MOD, listener_, yes ? uint32_t{EPOLLIN} : 0u, kListener);
}

bool TcpStore::read_from(Asker asker, Connection& connection) {
  char buffer[64 << 10];
  const ssize_t got = ::recv(connection.socket.get(), buffer, sizeof buffer, 0);
  if (got == 0) return false;
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (connection.in.empty()) connection.since = Clock::now();
  connection.in.append(buffer, static_cast<size_t>(got));
  unfinished_bytes_ += static_cast<size_t>(got);
  while (!connection.in.empty()) {
    Frame frame;
    const size_t before = connection.in.size();
    const FrameState state = take_frame(connection.in, frame);
    if (state == FrameState::garbage) return false;
    if (state == FrameState::incomplete) return unfinished_bytes_ <= kMostUnfinishedBytes;
    unfinished_bytes_ -= before - connection.in.size();
    if (!take_question(asker, std::move(frame))) return false;
    connection.asked = true;
    connection.since = Clock::now();
  }
  return true;
}

bool TcpStore::write_to(Asker asker, Connection& connection) {
  while (!connection.out.empty()) {
    Leaving& leaving = connection.out.front();
    const size_t start_bytes = leaving.start.size();
    const bool in_start = leaving.sent < start_bytes;
    const std::string& bytes = in_start ? leaving.start : *leaving.value;
    const size_t offset = in_start ? leaving.sent : leaving.sent - start_bytes;
    const bool more = in_start && !leaving.value->empty();
    const ssize_t sent = ::send(connection.socket.get(), bytes.data() + offset,
                                bytes.size() - offset, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) return false;
    if (sent < 0) break;
    connection.since = Clock::now();
    leaving.sent += static_cast<size_t>(sent);
    if (leaving.sent == start_bytes + leaving.value->size()) connection.out.pop_front();
  }
  const bool wanted = !connection.out.empty();
  if (std::exchange(connection.watched_for_room, wanted) != wanted)
    watch(EPOLL_CTL_MOD, connection.socket, wanted ? EPOLLIN | EPOLLOUT : EPOLLIN, asker);
  return true;
}

TcpStore::Connections::iterator TcpStore::close(Connections::iterator connection) {
  forget(connection->first);
  unfinished_bytes_ -= connection->second.in.size();
  return connections_.erase(connection);
}

void TcpStore::close_silent() {
  const auto now = Clock::now();
  for (auto it = connections_.begin(); it != connections_.end();) {
    const Connection& connection = it->second;
    const bool at_rest = connection.asked && connection.in.empty() && connection.out.empty();
    it = !at_rest && now - connection.since > kQuestionTimeout ? close(it) : std::next(it);
  }
}

}  // namespace foreload::peers
