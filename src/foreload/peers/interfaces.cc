// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/interfaces.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "foreload/base/descriptor.h"

namespace foreload {
namespace {

bool same_address(const sockaddr* a, const sockaddr_storage& b) {
  if (a == nullptr || a->sa_family != b.ss_family) return false;
  if (b.ss_family == AF_INET) {
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr,
                       &reinterpret_cast<const sockaddr_in&>(b).sin_addr, sizeof(in_addr)) == 0;
  }
  return b.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

tl::unexpected<Error> no_way(const std::string& host, const char* why) {
  return fail(
      ErrorKind::unreadable,
      fmt::format("cannot find the network interface towards {}: {}. Check the name, or name "
                  "the interface",
                  host, why));
}

// The own address on the way there.
Result<sockaddr_storage> way_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(host.c_str(), "9", &hints, &list)) {
    return no_way(host, ::gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> there(list, ::freeaddrinfo);
  for (const addrinfo* address = list; address != nullptr; address = address->ai_next) {
    const Descriptor way(::socket(address->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    // For datagrams this only chooses the way.
    if (way && ::connect(way.get(), address->ai_addr, address->ai_addrlen) == 0 &&
        ::getsockname(way.get(), reinterpret_cast<sockaddr*>(&own), &size) == 0)
      return own;
  }
  return no_way(host, "there is no route");
}

}  // namespace

Result<std::string> interface_towards(const std::string& host) {
  FORELOAD_TRY(const sockaddr_storage own, way_towards(host));
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return no_way(host, std::strerror(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> interfaces(all, ::freeifaddrs);
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (same_address(each->ifa_addr, own)) return std::string(each->ifa_name);
  }
  return no_way(host, "there is no route");
}

Result<std::string> address_towards(const std::string& host) {
  FORELOAD_TRY(const sockaddr_storage own, way_towards(host));
  char text[NI_MAXHOST] = "";
  if (const int error = ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), sizeof own, text,
                                      sizeof text, nullptr, 0, NI_NUMERICHOST)) {
    return no_way(host, ::gai_strerror(error));
  }
  return std::string(text);
}

}  // namespace foreload
