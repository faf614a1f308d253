// SPDX-License-Identifier: Apache-2.0
//
// Reads the objects of a store. A source is given many reads at a time, each a range of an object
// into given memory, in one place or several, and answers each of them exactly once, in any order,
// from threads of its own. It retries nothing, caches nothing and decides nothing.
//
// A read may outlive its answer. When its deadline passes, or it is cancelled while the operating
// system works on it, it is answered at once and abandoned; the memory stays untouched by others
// until the system is done with it, because the read holds on to it (Destination::keeper).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace foreload {

using SteadyTime = std::chrono::steady_clock::time_point;

// What went wrong, as far as it matters for what to do next.
enum class Fault : uint8_t {
  none,
  transient,  // may work the next time: EIO, EAGAIN, ESTALE, time-outs of the other side, ...
  throttled,  // the other side asks for fewer requests
  permanent,  // will not work the next time either: no such object, no permission, too short
  changed,    // the object is not the version that was listed
  deadline,   // no answer in time; the request was abandoned
  cancelled,  // by cancel() or by the end of the source
};
inline std::string_view name_of(Fault fault) {
  constexpr std::array<std::string_view, 7> kNames{"none",    "transient", "throttled", "permanent",
                                                   "changed", "deadline",  "cancelled"};
  return kNames[static_cast<size_t>(fault)];
}

// What a source must know about objects, by number. Any thread may ask.
class ObjectCatalog {
 public:
  virtual ~ObjectCatalog() = default;
  virtual std::string_view name(uint32_t object) const = 0;
  virtual uint64_t size(uint32_t object) const = 0;     // UINT64_MAX: not known
  virtual uint64_t version(uint32_t object) const = 0;  // as its listing gave it; 0: not known
};

// `length` bytes of an object from `offset`.
struct Extent {
  uint32_t object = 0;
  uint64_t offset = 0;
  uint64_t length = 0;
};

// Memory for bytes, and what must live as long as somebody may still write there.
struct Destination {
  std::byte* data = nullptr;
  std::shared_ptr<const void> keeper;
  uint64_t length = UINT64_MAX;  // UINT64_MAX: all that is left of the extent
};

// Who receives the bytes of an extent, one after another; mostly there is one, which costs no more
// than itself. REQUIRES: together as long as the extent.
class Destinations {
 public:
  Destinations() = default;
  Destinations(Destination one) : first_(std::move(one)) {}  // NOLINT: a read into one place
  explicit Destinations(std::vector<Destination> several) : several_(std::move(several)) {}

  size_t size() const { return several_.empty() ? 1 : several_.size(); }
  const Destination& operator[](size_t i) const { return several_.empty() ? first_ : several_[i]; }

 private:
  Destination first_;
  std::vector<Destination> several_;  // empty: there is only the first
};

struct SourceRead {
  uint64_t id = 0;  // the caller's, unique among reads in flight
  Extent extent;
  Destinations into;
  SteadyTime deadline = SteadyTime::max();
};

struct SourceAnswer {
  uint64_t id = 0;
  Fault fault = Fault::none;
  int error_number = 0;  // errno where there is one
  // What happened in words, without the object's name: "Input/output error while reading".
  std::string what;
};

class Source {
 public:
  // Called once per read, from the source's threads (and from the one that destroys it), several at
  // a time. Must not block or destroy the source; may submit and cancel. The keeper is let go
  // before the call, except where the read was abandoned.
  using Answered = std::function<void(SourceAnswer)>;

  // Cancels and answers what is in flight, and returns within a second even if the system never
  // answers.
  virtual ~Source() = default;

  // Never blocks on I/O. Reads may be many more than the source works on at once; it starts them in
  // the order given. A read of which the object has fewer bytes is answered `permanent` (or
  // `changed` where the version says so).
  virtual void submit(std::span<const SourceRead> reads) = 0;
  // The read is answered `cancelled` soon, unless it was answered already. Unknown ids are ignored.
  virtual void cancel(uint64_t id) = 0;
  // Reads that were answered but that the system still has.
  virtual uint64_t abandoned() const = 0;
  // "folder /data/train (io_uring)", for people.
  virtual std::string describe() const = 0;
};

}  // namespace foreload
