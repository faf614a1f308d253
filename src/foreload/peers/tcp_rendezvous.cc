// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/tcp_rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include "foreload/peers/rendezvous_client.h"
#include "foreload/peers/tcp_store.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
using peers::Frame;
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

// A connected socket, or none with errno.
Descriptor connect_once(const Place& place, Clock::time_point deadline) {
  Addresses addresses;
  if (resolve(place, AI_NUMERICSERV, addresses) != 0) {
    errno = EHOSTUNREACH;
    return {};
  }
  int error = EHOSTUNREACH;
  for (const addrinfo* a = addresses.list; a != nullptr; a = a->ai_next) {
    Descriptor socket(
        ::socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol));
    if (!socket) continue;
    error = ::connect(socket.get(), a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS) {
      socklen_t size = sizeof error;
      error = ready(socket.get(), POLLOUT, deadline) ? 0 : ETIMEDOUT;
      if (error == 0) ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error == 0) {
      const int on = 1;
      ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return socket;
    }
  }
  errno = error;
  return {};
}

class TcpClient final : public peers::RendezvousClient {
 public:
  // `patient`: who does not listen may start later.
  TcpClient(Place place, bool patient)
      : RendezvousClient("at " + place.name()), server_(std::move(place)), patient_(patient) {}

  Result<void> connect(Clock::time_point deadline) {
    std::chrono::milliseconds pause(5);
    for (;;) {
      socket_ = connect_once(server_, deadline);
      if (socket_) return {};
      const int error = errno;
      if (!patient_ || Clock::now() + pause >= deadline)
        return unreachable(server_, "reach", std::strerror(error));
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::milliseconds(200));
    }
  }

 private:
  void disconnect() {
    socket_.close();
    in_.clear();
  }
  tl::unexpected<Error> broken(const std::string& why) {
    disconnect();
    return unreachable(server_, "ask", why);
  }

  Result<bool> give(const Frame& question, Clock::time_point deadline) override {
    if (!socket_) FORELOAD_CHECK(connect(deadline));
    const std::string bytes = peers::frame_bytes(question);
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t got =
          ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (got > 0) sent += static_cast<size_t>(got);
      if (got < 0 && errno != EAGAIN && errno != EINTR) return broken(std::strerror(errno));
      if (got < 0 && !ready(socket_.get(), POLLOUT, deadline)) {
        disconnect();  // half a question is none
        return false;
      }
    }
    return true;
  }
  Result<std::optional<Frame>> take_answer(Clock::time_point deadline) override {
    for (;;) {
      Frame answer;
      switch (in_.empty() ? FrameState::incomplete : peers::take_frame(in_, answer)) {
        case FrameState::complete:
          return answer;
        case FrameState::garbage:
          return broken("another program than foreload answers there");
        case FrameState::incomplete:
          break;
      }
      if (!ready(socket_.get(), POLLIN, deadline)) return std::nullopt;
      char buffer[64 << 10];
      const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (got == 0) return broken("it closed the connection");
      if (got < 0 && errno != EAGAIN && errno != EINTR) return broken(std::strerror(errno));
      if (got > 0) in_.append(buffer, static_cast<size_t>(got));
    }
  }

  const Place server_;
  const bool patient_;
  Descriptor socket_;
  std::string in_;  // of an answer that has not arrived whole
};

// A socket that listens there.
Result<Descriptor> listen_at(const Place& place) {
  Addresses addresses;
  if (const int error = resolve(place, AI_NUMERICSERV, addresses)) {
    return unreachable(place, "listen for", ::gai_strerror(error));
  }
  int error = EADDRNOTAVAIL;
  for (const addrinfo* a = addresses.list; a != nullptr; a = a->ai_next) {
    Descriptor socket(::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol));
    if (!socket) continue;
    const int on = 1;
    ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    // On this address alone, not on every interface the host has.
    if (::bind(socket.get(), a->ai_addr, a->ai_addrlen) == 0 && ::listen(socket.get(), 1024) == 0)
      return socket;
    error = errno;
  }
  return unreachable(place, "listen for", std::strerror(error));
}

}  // namespace

Result<std::unique_ptr<Rendezvous>> tcp_rendezvous(const std::string& host, uint16_t port,
                                                   uint32_t rank,
                                                   std::chrono::milliseconds timeout) {
  if (rank == 0) {
    FORELOAD_TRY(Descriptor listener, listen_at({host, port}));
    return peers::TcpStore::serve_at(std::move(listener), true);
  }
  auto client = std::make_unique<TcpClient>(Place{host, port}, true);
  FORELOAD_CHECK(client->connect(Clock::now() + timeout));
  return client;
}

Result<std::shared_ptr<Rendezvous>> peers::serve_readers(const std::string& host, uint16_t& port) {
  FORELOAD_TRY(Descriptor listener, listen_at({host, 0}));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&own), &size);
  // The port has the same place for both kinds of addresses.
  port = ntohs(reinterpret_cast<const sockaddr_in&>(own).sin_port);
  return TcpStore::serve_at(std::move(listener), false);
}

Result<std::unique_ptr<Rendezvous>> peers::read_from(const std::string& host, uint16_t port,
                                                     std::chrono::milliseconds timeout) {
  auto client = std::make_unique<TcpClient>(Place{host, port}, false);
  FORELOAD_CHECK(client->connect(Clock::now() + timeout));
  return client;
}

}  // namespace foreload
