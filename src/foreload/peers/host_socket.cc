// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/host_socket.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>

namespace foreload::peers {
namespace {

struct HostAddress {
  sockaddr_un socket{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&socket); }
};

HostAddress host_address(const std::string& name) {
  HostAddress address;
  address.socket.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof address.socket.sun_path - 1);
  std::memcpy(address.socket.sun_path + 1, name.data(), size);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

Descriptor host_stream() {
  return Descriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

}  // namespace

bool of_own_user(int connection) {
  ucred other{};
  socklen_t size = sizeof other;
  return ::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 &&
         other.uid == ::geteuid();
}

void Descriptor::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

Result<HostListener> listen_on_host() {
  uint64_t drawn[2] = {};
  HostListener listener;
  listener.socket = host_stream();
  bool ok = listener.socket && ::getrandom(drawn, sizeof drawn, 0) == sizeof drawn;
  listener.name = fmt::format("foreload-host-{:016x}{:016x}", drawn[0], drawn[1]);
  const HostAddress address = host_address(listener.name);
  ok = ok && ::bind(listener.socket.get(), address.raw(), address.size) == 0;
  ok = ok && ::listen(listener.socket.get(), SOMAXCONN) == 0;
  if (ok) return listener;
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
  const HostAddress address = host_address(name);
  if (::connect(connection.get(), address.raw(), address.size) == 0 &&
      of_own_user(connection.get()))
    return connection;
  later = errno == EAGAIN || errno == EINTR;
  return {};
}

}  // namespace foreload::peers
