// SPDX-License-Identifier: Apache-2.0
//
// Unix stream sockets: how one is made, and what goes over those of the host transport. A
// connection begins with a Hello; then come messages, each a MessageStart, its header and its
// payload. Private to peers; any thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdint>
#include <string>

#include "foreload/base/descriptor.h"
#include "foreload/base/result.h"

namespace foreload::peers {

struct Hello {
  char magic[4] = {'F', 'L', 'H', '1'};
  uint32_t rank = 0;  // of who sends here
};
static_assert(sizeof(Hello) == 8);

struct MessageStart {
  uint32_t header_bytes = 0;
  uint32_t zero = 0;
  uint64_t payload_bytes = 0;
};
static_assert(sizeof(MessageStart) == 16);

// In the abstract namespace, where a name vanishes with its process.
struct HostAddress {
  explicit HostAddress(const std::string& name);
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&socket); }

  sockaddr_un socket{};
  socklen_t size = 0;
};

// A Unix stream socket that does not block, and one that listens there. None, and errno: the system
// refuses.
Descriptor host_stream();
Descriptor host_stream_at(const HostAddress& address);

// Whether the process at the other end of a Unix socket is the own user's; the kernel says it.
bool of_own_user(int connection);

// Listens under a name nobody can guess, which others connect to. Fails with `unreadable`.
struct HostListener {
  Descriptor socket;
  std::string name;
};
Result<HostListener> listen_on_host();
// The next connection of the own user, or none that waits. `exhausted`: the system has no
// descriptor for it.
Descriptor accept_from_host(int listener, bool& exhausted);
// None: nobody listens there, or, with `later`, too many wait to be let in.
Descriptor connect_on_host(const std::string& name, bool& later);

}  // namespace foreload::peers
