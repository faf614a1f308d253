// SPDX-License-Identifier: Apache-2.0
//
// Unix stream sockets of the host transport: how one is made, and what goes over it. A connection
// begins with a Hello; then come messages, each a MessageStart, its header and its payload. Private
// to peers; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

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

// A descriptor that is closed when it goes.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    if (this != &other) {
      close();
      number_ = std::exchange(other.number_, -1);
    }
    return *this;
  }
  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  void close();

 private:
  int number_ = -1;
};

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
