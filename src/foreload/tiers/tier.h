// SPDX-License-Identifier: Apache-2.0
//
// A tier: copies that this node keeps, found by what they are. Memory, disk and whatever comes are
// tiers; nothing above this header asks which. A tier answers every request exactly once and never
// blocks whoever asks.
//
// A copy is keyed by its content (where the bytes originally live and in which version) and the
// form it is kept in, never by rank, plan or place in a listing: another plan, a subset or one more
// file finds every old copy again. Copies carry checksums; a bad copy is a miss, never other bytes.
//
// Who uses a tier is a borrower. A copy that no borrower wants may be reclaimed when a put needs
// its room, and is there until then.
//
// tests/tiers/tier_conformance.h is what every tier must pass. Any thread may call anything.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/form_id.h"
#include "foreload/base/hash.h"
#include "foreload/base/random.h"

namespace foreload {

struct CopyKey {
  Digest content;  // of store, object, version and extents
  FormId form = kEncoded;

  friend bool operator==(const CopyKey&, const CopyKey&) = default;
};

struct CopyKeyHash {
  size_t operator()(const CopyKey& key) const { return key.content.low ^ mix64(key.form); }
};

// Who waits. While several do, time on the device is shared by weight and nobody starves; while one
// waits alone it has all of it.
enum class Traffic : uint8_t {
  training,    // the batch that the loop needs next
  peer,        // what another rank asked for
  fill,        // what is kept for later
  drain,       // from this tier to another one
  checkpoint,  // blobs of the job itself
};
inline constexpr size_t kTraffics = 5;
// Shares of the device, by Traffic.
inline constexpr std::array<uint32_t, kTraffics> kTrafficWeights{16, 4, 2, 1, 1};

enum class TierEnd : uint8_t {
  done,
  miss,       // not here, or not of this size
  corrupt,    // was here with other bytes than were put; dropped
  full,       // no room for the put, or too many puts wait; or the copy is there already
  failed,     // the device said no; dead() may say why
  cancelled,  // by cancel(), or the tier ended
};

struct TierAnswer {
  uint64_t id = 0;
  TierEnd end = TierEnd::failed;
  // XXH3 of the bytes of a get that is done, so that who passes them on need not compute it again.
  uint64_t checksum = 0;
};

struct Get {
  uint64_t id = 0;  // the caller's; comes back with the answer
  CopyKey key;
  uint64_t size = 0;    // of the whole copy
  uint64_t offset = 0;  // of the range wanted of it
  std::span<std::byte> into;
  std::shared_ptr<const void> keeper;  // keeps `into` until the answer
};

struct Put {
  uint64_t id = 0;
  CopyKey key;
  std::span<const std::byte> from;
  // XXH3 of the bytes, where somebody knows it: a tier that copies them computes it on the way.
  std::optional<uint64_t> checksum = std::nullopt;
  std::shared_ptr<const void> keeper = nullptr;  // keeps `from` until the answer
};

struct FoundCopy {
  CopyKey key;
  uint64_t size = 0;
};

// Named figures of a tier, for statistics; each is visited once.
using VisitCounter = std::function<void(std::string_view name, uint64_t value)>;

class Tier {
 public:
  using Borrower = uint32_t;
  // From threads of the tier, several at a time; may ask the tier for more.
  using Answered = std::function<void(std::span<const TierAnswer> answers)>;
  using Wanted = std::function<bool(const CopyKey& key)>;
  // Threads of a borrower: runs the job soon, and may forget it only once the borrower has asked
  // for the last time. The class says who waits.
  using Run = std::function<void(Traffic traffic, std::function<void()> job)>;

  // Answers everything that waits with `cancelled`, and what the system does not give back within a
  // second with `failed`; then no answer comes any more.
  virtual ~Tier() = default;

  virtual std::string_view kind() const = 0;  // "memory", "disk": the name in statistics
  // How many bytes of copies of this mean size can be held at once.
  virtual uint64_t capacity(uint64_t mean_size) const = 0;

  // A borrower's answers come to `answered` until it gives itself back. A tier without threads does
  // what it asks for on the borrower's, if it has some to give. REQUIRES: at most 64 at a time.
  virtual Borrower lend(Answered answered, Run run = {}) = 0;
  // Cancels what it asked for and forgets what it wanted. Returns when none of its answers is being
  // given any more. Not from within an answer.
  virtual void give_back(Borrower borrower) = 0;

  // What is held now, in no order; after opening, what an earlier run left.
  virtual std::vector<FoundCopy> found() const = 0;
  // Which copies this borrower wants; replaces what it said before. Before it says anything it
  // wants all of them. What it puts it wants. `wanted` is asked about what is held, before this
  // returns; it must not ask the tier.
  virtual void keep(Borrower borrower, const Wanted& wanted) = 0;

  // Of a copy that somebody else has put, if it is here.
  virtual void want(Borrower borrower, const CopyKey& key) = 0;

  virtual void submit(Borrower borrower, std::span<Get> gets, Traffic traffic) = 0;
  virtual void submit(Borrower borrower, std::span<Put> puts, Traffic traffic) = 0;
  // A request that has not begun is answered `cancelled`; one that has, as it ends.
  virtual void cancel(Borrower borrower, uint64_t id) = 0;
  // Forgets a copy, also one that is being put. One that is pinned goes with its last pin, and is
  // there until then.
  virtual void drop(const CopyKey& key) = 0;
  // While somebody holds it the copy is not reclaimed. Null if it is not here.
  virtual std::shared_ptr<const void> pin(const CopyKey& key) = 0;
  virtual bool holds(const CopyKey& key) const = 0;

  virtual uint64_t payload() const = 0;  // bytes of copies held
  virtual void visit(const VisitCounter& visit) const = 0;
  // Why the tier turned itself off, if it did: it answers `failed` or `miss` from then on.
  virtual std::optional<std::string> dead() const = 0;
};

}  // namespace foreload
