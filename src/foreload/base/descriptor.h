// SPDX-License-Identifier: Apache-2.0
//
// A file descriptor that is closed when its owner goes. For one thread at a time.
#pragma once

#include <unistd.h>

#include <utility>

namespace foreload {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  // What the system says, which may be about a write that it had put off: 0, or -1 and errno.
  int close() { return number_ < 0 ? 0 : ::close(release()); }

 private:
  int number_ = -1;
};

}  // namespace foreload
