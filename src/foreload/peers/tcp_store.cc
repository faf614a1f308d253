// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/tcp_store.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "foreload/base/own_thread.h"
#include "foreload/peers/tcp_frames.h"

namespace foreload::peers {

using Clock = std::chrono::steady_clock;

struct TcpStore::Connection {
  int fd = -1;
  std::string in;       // a question that is not complete, at most one frame and one read
  std::string out;      // an answer that is not sent
  std::string waiting;  // the key it asked for; empty: none
  bool asked = false;   // a whole question, so it is one of ours
  Clock::time_point since = Clock::now();  // of the silence
  bool done = false;
};

TcpStore::TcpStore(int listener) : listener_(listener) {
  ::fcntl(listener_, F_SETFL, O_NONBLOCK);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = start_own_thread("fl-rendezvous", [this] { serve(); });
}

TcpStore::~TcpStore() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  ::eventfd_write(wake_, 1);
  thread_.join();
  for (const Connection& connection : connections_) ::close(connection.fd);
  ::close(listener_);
  ::close(wake_);
}

bool TcpStore::put(const std::string& key, const std::string& value) {
  {
    const std::scoped_lock lock(mutex_);
    if (stored_bytes_ + key.size() + value.size() > kMostStoredBytes) return false;
    const auto [it, fresh] = values_.emplace(key, value);
    // The same again is no harm: a client whose connection broke asks twice.
    if (!fresh) return it->second == value;
    stored_bytes_ += key.size() + value.size();
  }
  changed_.notify_all();
  ::eventfd_write(wake_, 1);
  return true;
}

bool TcpStore::get(const std::string& key, std::chrono::milliseconds timeout, std::string& value) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, timeout, [&] { return values_.contains(key); })) return false;
  value = values_.at(key);
  return true;
}

void TcpStore::serve() {
  std::vector<pollfd> polled;
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      if (ended_) return;
    }
    polled.clear();
    polled.push_back({wake_, POLLIN, 0});
    const bool room = connections_.size() < kMostConnections;
    polled.push_back({room ? listener_ : -1, POLLIN, 0});
    bool some_unfinished = false;
    for (const Connection& connection : connections_) {
      const auto out = static_cast<short>(connection.out.empty() ? 0 : POLLOUT);
      polled.push_back({connection.fd, static_cast<short>(POLLIN | out), 0});
      some_unfinished |= !connection.asked || !connection.in.empty() || !connection.out.empty();
    }
    const bool failed =
        ::poll(polled.data(), polled.size(), some_unfinished || !room ? 1000 : -1) < 0;
    if (failed && errno != EINTR) return;
    if ((polled[0].revents & POLLIN) != 0) {
      eventfd_t value = 0;
      ::eventfd_read(wake_, &value);
    }
    size_t next = 2;
    const auto now = Clock::now();
    for (Connection& connection : connections_) {
      const short events = polled[next++].revents;
      if (events != 0 && !read_from(connection)) connection.done = true;
      if (!connection.done && !(answer(connection) && write_to(connection))) connection.done = true;
      const bool unfinished =
          !connection.asked || !connection.in.empty() || !connection.out.empty();
      if (unfinished && now - connection.since > kQuestionTimeout) connection.done = true;
      if (connection.done) ::close(connection.fd);
    }
    connections_.remove_if([](const Connection& connection) { return connection.done; });
    if ((polled[1].revents & POLLIN) != 0) accept_all();
  }
}

void TcpStore::accept_all() {
  while (connections_.size() < kMostConnections) {
    const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    connections_.emplace_back().fd = fd;
  }
}

bool TcpStore::read_from(Connection& connection) {
  char buffer[16 << 10];
  const ssize_t got = ::recv(connection.fd, buffer, sizeof buffer, 0);
  if (got == 0) return false;
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  connection.in.append(buffer, static_cast<size_t>(got));
  return true;
}

bool TcpStore::answer(Connection& connection) {
  Frame frame;
  while (connection.waiting.empty() && connection.out.empty() && !connection.in.empty()) {
    switch (take_frame(connection.in, frame)) {
      case FrameState::garbage:
        return false;
      case FrameState::incomplete:
        return true;
      case FrameState::complete:
        break;
    }
    if (frame.key.empty()) return false;
    connection.asked = true;
    connection.since = Clock::now();
    if (frame.kind == FrameKind::put) {
      const bool ok = put(frame.key, frame.value);
      connection.out = frame_bytes({ok ? FrameKind::done : FrameKind::refused, frame.key, {}});
    } else if (frame.kind == FrameKind::get) {
      connection.waiting = frame.key;
    } else {
      return false;
    }
  }
  // A client asks one thing at a time: more than a frame while it waits is no client of ours.
  if (connection.in.size() > sizeof(FrameStart) + kMostKeyBytes + kMostValueBytes) return false;
  if (!connection.waiting.empty()) {
    const std::scoped_lock lock(mutex_);
    const auto found = values_.find(connection.waiting);
    if (found == values_.end()) return true;
    connection.out = frame_bytes({FrameKind::done, found->first, found->second});
    connection.waiting.clear();
    connection.since = Clock::now();
  }
  return true;
}

bool TcpStore::write_to(Connection& connection) {
  while (!connection.out.empty()) {
    const ssize_t sent =
        ::send(connection.fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    connection.out.erase(0, static_cast<size_t>(sent));
  }
  return true;
}

}  // namespace foreload::peers
