// SPDX-License-Identifier: Apache-2.0
//
// Where objects live: below a folder of a file system; later in a bucket or behind a web server. A
// store is named by a URI, and knows its objects by names relative to it, '/' between folders. It
// lists and measures them, opens a source that reads many at once, and writes and removes single
// ones. It knows nothing about samples.
//
// Any thread may call a store; a sink is for one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/base/unknown_size.h"
#include "foreload/metrics/operations.h"
#include "foreload/stores/source.h"

namespace foreload {

struct StoredObject {
  std::string name;              // relative to the store
  uint64_t size = kUnknownSize;  // bytes
  uint64_t version = 0;          // changes when the object does; 0: not known
};

struct StoredFolder {
  std::string name;                        // relative to the store; empty: the store itself
  uint64_t time = 0;                       // of its last change, nanoseconds since 1970
  std::vector<StoredObject> objects = {};  // right in it, by name
};

// How to ask a store for much at once.
struct StoreCall {
  // Requests in flight at once; latency, not CPUs, is what they hide.
  unsigned threads = 16;
  Progress progress;                       // objects stat'ed, objects in all
  std::shared_ptr<Operations> operations;  // folders listed and objects stat'ed; may be null
  std::optional<unsigned> open_folders;    // as in SourceSettings
};

enum class IoEngine : uint8_t {
  // On local file systems io_uring where the system has it and allows it, threads otherwise. On
  // others the one that proves faster in the first half second of reading.
  automatic,
  io_uring,
  threads,
};

struct SourceSettings {
  std::shared_ptr<const ObjectCatalog> objects;  // names are relative to the store
  IoEngine engine = IoEngine::automatic;
  unsigned most_in_flight = 256;  // objects open at once; lowered to what the system allows
  // Folders that stay open so that paths need not be looked up for each file; lowered to what the
  // system allows. Not given: none on local file systems, where that costs nothing.
  std::optional<unsigned> open_folders;
  // Tells the system not to keep what was read in its page cache, for data that foreload caches.
  bool drop_page_cache = false;
  std::shared_ptr<Operations> operations;  // counted here; may be null
  // Whether opening a pipe waits for a writer: so tests have files that never answer.
  bool waits_for_pipes = false;
};

// An object that is being written. Nobody sees it before commit(), and then sees all of it.
class Sink {
 public:
  virtual ~Sink() = default;  // aborts what was not committed
  // Each fails with `unreadable`; then nothing is left to do but abort.
  virtual Result<void> write(std::span<const std::byte> bytes) = 0;
  // Replaces an object of this name. REQUIRES: not called before.
  virtual Result<void> commit() = 0;
  // Forgets what was written; an older object of this name stays as it was.
  virtual void abort() = 0;
};

class Store {
 public:
  virtual ~Store() = default;

  // The same for the same place, however it was written: "file:///data/train".
  virtual std::string uri() const = 0;
  // As the user wrote it, for messages and for those who join names to it: "data/train".
  virtual std::string where() const = 0;
  // Of the object that the URI itself names; nothing if it names none, but a folder or nothing at
  // all. Fails with `unreadable`.
  virtual Result<std::optional<std::string>> first_bytes(size_t most) const = 0;

  // All folders below `folder` (empty: all), level by level, each level by name, and the objects in
  // them, links followed. Sizes and versions only where listing tells them anyway. Fails with
  // `unreadable` if a folder cannot be listed, `invalid` if that would never end, `cancelled` if
  // progress says so.
  virtual Result<std::vector<StoredFolder>> list(std::string_view folder,
                                                 const StoreCall& call) const = 0;
  // Fills in sizes and versions where there is no version yet. What is there and cannot be read, as
  // a link to nothing or a pipe, has no bytes and a version that says so (file_store.h). Fails with
  // what `refuse` makes of the first object that cannot be asked about and of the reason, and with
  // `cancelled`.
  using Refuse = std::function<Error(size_t object, const std::string& why)>;
  virtual Result<void> stat(std::span<StoredObject> objects, const StoreCall& call,
                            const Refuse& refuse) const = 0;
  // The first of the folders that is not as it was listed: something was added to it, removed from
  // it or renamed in it, or it is gone. Objects that were changed in place do not show. Looks at
  // 10,000 folders at most, evenly spread. Fails with `unreadable` if one cannot be asked.
  virtual Result<std::optional<std::string>> changed(std::span<const StoredFolder> folders,
                                                     const StoreCall& call) const = 0;

  // Fails with `unreadable` if the store is not there, `invalid` for settings it cannot meet.
  virtual Result<std::unique_ptr<Source>> open(SourceSettings settings,
                                               Source::Answered answered) const = 0;
  // Fails with `unreadable`, and with `invalid` for a name that leads out of the store.
  virtual Result<std::unique_ptr<Sink>> create(std::string_view name) const = 0;
  virtual Result<void> remove(std::string_view name) const = 0;
};

// "http" of "http://host/x" as it is written; empty for a path.
std::string_view scheme_of(std::string_view uri);
// A path or a URI. Asks nobody: what is not there shows when it is used. Fails with `invalid` for a
// scheme that is not known, and says what works instead.
Result<std::unique_ptr<Store>> open_store(const std::string& uri);

}  // namespace foreload
