// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/host_socket.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

namespace foreload::peers {

HostAddress::HostAddress(const std::string& name) {
  socket.sun_family = AF_UNIX;
  const size_t bytes = std::min(name.size(), sizeof socket.sun_path - 1);
  std::memcpy(socket.sun_path + 1, name.data(), bytes);
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
}

Descriptor host_stream() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Descriptor host_stream_at(const HostAddress& address) {
  Descriptor listener = host_stream();
  if (!listener || ::bind(listener.get(), address.raw(), address.size) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0)
    return {};
  return listener;
}

bool of_own_user(int connection) {
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == ::geteuid();
}

Result<HostListener> listen_on_host() {
  uint64_t drawn[2] = {};
  HostListener listener;
  if (::getrandom(drawn, sizeof drawn, 0) == sizeof drawn) {
    listener.name = fmt::format("foreload-host-{:016x}{:016x}", drawn[0], drawn[1]);
    listener.socket = host_stream_at(HostAddress(listener.name));
  }
  if (listener.socket) return listener;
  return fail(ErrorKind::unreadable,
              fmt::format("cannot listen on a Unix socket for the host transport: {}. Raise the "
                          "limit of open files, or allow Unix sockets in the container",
                          std::strerror(errno)));
}

Descriptor accept_from_host(int listener, bool& exhausted) {
  exhausted = false;
  for (;;) {
    Descriptor connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection && of_own_user(connection.get())) return connection;
    if (connection || errno == EINTR || errno == ECONNABORTED) continue;
    exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
    return {};
  }
}

Descriptor connect_on_host(const std::string& name, bool& later) {
  later = false;
  Descriptor connection = host_stream();
  if (!connection) {
    later = errno == EMFILE || errno == ENFILE;
    return {};
  }
  const HostAddress address(name);
  if (::connect(connection.get(), address.raw(), address.size) == 0 &&
      of_own_user(connection.get()))
    return connection;
  later = errno == EAGAIN || errno == EINTR;
  return {};
}

}  // namespace foreload::peers
