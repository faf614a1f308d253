// SPDX-License-Identifier: Apache-2.0
//
// What both engines of the folder source know about its files: where they are, which outcome each
// step of a read can have, and in which words. An engine decides only how the steps (open, stat,
// read, close) are carried out. Private to stores; immutable, any thread may use it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foreload/base/descriptor.h"
#include "foreload/base/result.h"
#include "foreload/metrics/operations.h"
#include "foreload/stores/open_folders.h"
#include "foreload/stores/read_ledger.h"
#include "foreload/stores/source.h"

namespace foreload {

// How long reads that lack a descriptor wait if none of ours is given back.
inline constexpr std::chrono::milliseconds kDescriptorPause{20};

// When a file's inode last changed in any way, renaming and unlinking included.
struct FileTime {
  int64_t seconds = 0;
  uint32_t nanoseconds = 0;

  friend bool operator==(const FileTime&, const FileTime&) = default;
};
inline FileTime change_of(const struct statx& status) {
  return {status.stx_ctime.tv_sec, status.stx_ctime.tv_nsec};
}

// Files of which a part was read and of which another part may be wanted next; the ones used last.
// Whoever takes one out compares when it last changed: another file may have its name by now. Any
// thread may use it.
class OpenFiles {
 public:
  // None where it is not open.
  Descriptor take(uint32_t object, FileTime& changed);
  // Gives back what has to be closed for it, by who can wait for that.
  [[nodiscard]] Descriptor keep(uint32_t object, FileTime changed, Descriptor file);
  // Whether there were any.
  bool close_all();

 private:
  static constexpr size_t kMost = 32;
  struct Idle {
    uint32_t object;
    FileTime changed;
    Descriptor file;
  };
  std::mutex mutex_;
  std::deque<Idle> idle_;  // the one used last is last
};

struct FolderFiles {
  Descriptor root;
  std::string root_name;
  std::shared_ptr<const ObjectCatalog> objects;
  std::shared_ptr<Operations> operations;  // may be null
  bool drop_page_cache = false;
  unsigned most_in_flight = 1;  // what the descriptor limit allows
  // Opening waits for nobody: a file may have become a pipe since it was listed.
  int open_flags = 0;
  // Whether opening a file, asking about it and closing it wait for no other machine or program.
  bool local = false;
  std::shared_ptr<OpenFolders> folders = std::make_shared<OpenFolders>(0);
  std::shared_ptr<OpenFiles> open = std::make_shared<OpenFiles>();

  void count(Operation operation, SteadyTime start, int64_t result) const;

  // Whether the object may be opened: its name is not empty and cannot lead out of the folder, and
  // the listing found a file.
  Outcome check_object(uint32_t object) const;
  // Whether the open file is one, is the version that was listed and has the wanted bytes.
  Outcome check_status(const struct statx& status, const Extent& extent) const;
  // There are too few descriptors: gives back those that nobody uses at the moment, and keeps no
  // folders open from now on. Whether there were any.
  bool close_idle() const;
  // Whether there is more in the file than is read, so that it is kept open.
  bool reads_part(const Extent& extent) const;
  // A read met the end of the file after `bytes`, although its size had promised more.
  Outcome ended_early(const Extent& extent, uint64_t bytes) const;
};

inline constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY;
inline constexpr unsigned kStatusMask = STATX_TYPE | STATX_SIZE | STATX_MTIME | STATX_CTIME;
// More than the system takes in one request it answers with less.
inline constexpr uint64_t kMostPerRequest = uint64_t{1} << 30;
inline constexpr size_t kMostPlaces = 1024;  // as the system's IOV_MAX

// Reads of an open file may wait again: io_uring answers EAGAIN for others on some file systems.
inline void let_wait(int file) {
  ::fcntl(file, F_SETFL, 0);
}

inline constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

// Whether the file system of an open folder is known to be on a device of this machine.
bool is_local(int folder);
// "a/b" of "a/b/c"; empty for "c".
inline std::string_view folder_of(std::string_view name) {
  const size_t end = name.rfind('/');
  return end == std::string_view::npos ? std::string_view() : name.substr(0, end);
}

// Why a name is none of an object of the store; empty if it is one.
std::string_view name_flaw(std::string_view name);
// Fails with `invalid` for such a name.
Result<void> check_name(std::string_view name);
// Where the bytes of the next request go, after `done` bytes have come.
std::vector<iovec> places_from(const SourceRead& read, uint64_t done);
// The outcome of a step that failed; `action` completes "Input/output error while ...".
Outcome failed_step(int error_number, std::string_view action);
// Whether an open failed only for want of descriptors.
bool out_of_descriptors(int error_number);

}  // namespace foreload
