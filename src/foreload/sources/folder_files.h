// SPDX-License-Identifier: Apache-2.0
//
// What both engines of the folder source know about its files: where they are, which outcome each
// step of a read can have, and in which words. An engine decides only how the steps (open, stat,
// read, close) are carried out. Private to sources; immutable, any thread may use it.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "foreload/metrics/operations.h"
#include "foreload/sources/read_ledger.h"
#include "foreload/sources/source.h"

namespace foreload {

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }

  int number() const { return number_; }

 private:
  int number_;
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

  void count(Operation operation, SteadyTime start, int64_t result) const;

  // Whether the object may be opened: its name is not empty and cannot lead out of the folder, and
  // the listing found a file.
  Outcome check_object(uint32_t object) const;
  // Whether the open file is one, is the version that was listed and has the wanted bytes.
  Outcome check_status(const struct statx& status, const Extent& extent) const;
  // A read met the end of the file after `bytes`, although its size had promised more.
  Outcome ended_early(const Extent& extent, uint64_t bytes) const;
};

inline constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY;
inline constexpr unsigned kStatusMask = STATX_TYPE | STATX_SIZE | STATX_MTIME;
// More than the system takes in one request it answers with less.
inline constexpr uint64_t kMostPerRequest = uint64_t{1} << 30;

// Reads of an open file may wait again: io_uring answers EAGAIN for others on some file systems.
inline void let_wait(int file) {
  ::fcntl(file, F_SETFL, 0);
}

// The outcome of a step that failed; `action` completes "Input/output error while ...".
Outcome failed_step(int error_number, std::string_view action);
// Whether an open failed only for want of descriptors.
bool out_of_descriptors(int error_number);

}  // namespace foreload
