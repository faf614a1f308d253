// SPDX-License-Identifier: Apache-2.0
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "foreload/peers/tcp_frames.h"
#include "foreload/peers/tcp_store.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
using peers::check_sizes;
using peers::Frame;
using peers::FrameKind;
using peers::FrameState;

// The address of rank 0, and how messages call it.
struct Place {
  std::string host;
  uint16_t port;
  std::string name() const { return fmt::format("{}:{}", host, port); }
};

tl::unexpected<Error> unreachable(const Place& place, const std::string& action,
                                  const std::string& why) {
  return fail(
      ErrorKind::unreadable,
      fmt::format("cannot {} the rendezvous at {}: {}. Check that rank 0 runs there and that "
                  "no firewall closes the port",
                  action, place.name(), why));
}
tl::unexpected<Error> too_late(const Place& place, const std::string& key) {
  return fail(ErrorKind::cancelled,
              fmt::format("{} did not appear in time in the rendezvous at {}", key, place.name()));
}

struct Addresses {
  addrinfo* list = nullptr;
  ~Addresses() {
    if (list != nullptr) ::freeaddrinfo(list);
  }
};
// 0 or what getaddrinfo says.
int resolve(const Place& place, int flags, Addresses& addresses) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  return ::getaddrinfo(place.host.c_str(), std::to_string(place.port).c_str(), &hints,
                       &addresses.list);
}

// Waits until the socket can be read (or written); false when the time is over.
bool ready(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd polled{fd, events, 0};
    const int got = ::poll(&polled, 1, static_cast<int>(std::clamp<int64_t>(left, 0, 60'000)));
    if (got > 0) return true;
    if (got == 0 && Clock::now() >= deadline) return false;
    if (got < 0 && errno != EINTR) return true;
  }
}

// A connected socket, or -1 with errno.
int connect_once(const Place& place, Clock::time_point deadline) {
  Addresses addresses;
  if (resolve(place, AI_NUMERICSERV, addresses) != 0) {
    errno = EHOSTUNREACH;
    return -1;
  }
  int error = EHOSTUNREACH;
  for (const addrinfo* a = addresses.list; a != nullptr; a = a->ai_next) {
    const int fd =
        ::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    error = ::connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      error = ready(fd, POLLOUT, deadline) ? 0 : ETIMEDOUT;
      if (error == 0) ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) {
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return fd;
    }
    ::close(fd);
  }
  errno = error;
  return -1;
}

class TcpClient final : public Rendezvous {
 public:
  explicit TcpClient(Place place) : place_(std::move(place)) {}
  ~TcpClient() override { disconnect(); }

  // Tries until the time is over: rank 0 may start later.
  Result<void> connect(Clock::time_point deadline) {
    std::chrono::milliseconds pause(5);
    for (;;) {
      fd_ = connect_once(place_, deadline);
      if (fd_ >= 0) return {};
      const int error = errno;
      if (Clock::now() + pause >= deadline)
        return unreachable(place_, "reach", std::strerror(error));
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(200));
    }
  }

  Result<void> put(const std::string& key, const std::string& value) override {
    FORELOAD_CHECK(check_sizes(key, value.size()));
    FORELOAD_TRY(const Frame answer, ask({FrameKind::put, key, value}, kPutTimeout));
    if (answer.kind == FrameKind::done) return {};
    return fail(ErrorKind::invalid, fmt::format("cannot put {} into the rendezvous at {}: it is "
                                                "there already. Start every attempt afresh",
                                                key, place_.name()));
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    FORELOAD_CHECK(check_sizes(key, 0));
    FORELOAD_TRY(Frame answer, ask({FrameKind::get, key, {}}, timeout));
    return std::move(answer.value);
  }

 private:
  static constexpr std::chrono::seconds kPutTimeout{10};

  void disconnect() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  Result<Frame> ask(const Frame& question, std::chrono::milliseconds timeout) {
    const std::scoped_lock lock(mutex_);
    const auto deadline = Clock::now() + timeout;
    if (fd_ < 0) FORELOAD_CHECK(connect(deadline));
    auto answer = ask_once(question, deadline);
    // An answer that comes later would be taken for that of the next question.
    if (!answer) disconnect();
    return answer;
  }
  Result<Frame> ask_once(const Frame& question, Clock::time_point deadline) {
    const std::string bytes = peers::frame_bytes(question);
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t got = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (got > 0) sent += static_cast<size_t>(got);
      if (got < 0 && errno != EAGAIN && errno != EINTR) {
        return unreachable(place_, "ask", std::strerror(errno));
      }
      if (got < 0 && !ready(fd_, POLLOUT, deadline)) return too_late(place_, question.key);
    }
    std::string in;
    for (;;) {
      Frame answer;
      switch (in.empty() ? FrameState::incomplete : peers::take_frame(in, answer)) {
        case FrameState::complete:
          if (answer.key == question.key) return answer;
          [[fallthrough]];
        case FrameState::garbage:
          return unreachable(place_, "ask", "what answers there is no rendezvous of foreload");
        case FrameState::incomplete:
          break;
      }
      if (!ready(fd_, POLLIN, deadline)) return too_late(place_, question.key);
      char buffer[16 << 10];
      const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
      if (got == 0) return unreachable(place_, "ask", "it closed the connection");
      if (got < 0 && errno != EAGAIN && errno != EINTR) {
        return unreachable(place_, "ask", std::strerror(errno));
      }
      if (got > 0) in.append(buffer, static_cast<size_t>(got));
    }
  }

  const Place place_;
  std::mutex mutex_;
  int fd_ = -1;
};

class TcpServer final : public Rendezvous {
 public:
  TcpServer(Place place, int listener) : place_(std::move(place)), store_(listener) {}

  Result<void> put(const std::string& key, const std::string& value) override {
    FORELOAD_CHECK(check_sizes(key, value.size()));
    if (store_.put(key, value)) return {};
    return fail(ErrorKind::invalid,
                fmt::format("cannot put {} into the rendezvous: it is there already", key));
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    FORELOAD_CHECK(check_sizes(key, 0));
    std::string value;
    if (!store_.get(key, timeout, value)) return too_late(place_, key);
    return value;
  }

 private:
  const Place place_;
  peers::TcpStore store_;
};

Result<std::unique_ptr<Rendezvous>> serve(Place place) {
  Addresses addresses;
  if (const int error = resolve(place, AI_NUMERICSERV, addresses)) {
    return unreachable(place, "listen for", ::gai_strerror(error));
  }
  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = addresses.list; a != nullptr; a = a->ai_next) {
    const int fd = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0) continue;
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // On this address alone, not on every interface the host has.
    if (::bind(fd, a->ai_addr, a->ai_addrlen) == 0 && ::listen(fd, 1024) == 0) {
      return std::make_unique<TcpServer>(std::move(place), fd);
    }
    error = errno;
    ::close(fd);
  }
  return unreachable(place, "listen for", std::strerror(error));
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> tcp_rendezvous(const std::string& host, uint16_t port,
                                                   uint32_t rank,
                                                   std::chrono::milliseconds timeout) {
  if (rank == 0) return serve({host, port});
  auto client = std::make_unique<TcpClient>(Place{host, port});
  FORELOAD_CHECK(client->connect(Clock::now() + timeout));
  return client;
}

}  // namespace foreload
