// SPDX-License-Identifier: Apache-2.0
//
// Files below a root folder as a source. Each read opens its file, compares size and modification
// time with what was listed (one statx), reads the range in one request, and closes; with io_uring
// these steps are in flight for many files at once, otherwise a pool of threads does them.
#pragma once

#include <filesystem>
#include <memory>

#include "foreload/base/result.h"
#include "foreload/metrics/operations.h"
#include "foreload/sources/source.h"

namespace foreload {

enum class IoEngine : uint8_t {
  automatic,  // io_uring where the system has it and allows it, threads otherwise
  io_uring,
  threads,
};

struct FolderSettings {
  std::filesystem::path root;
  std::shared_ptr<const ObjectCatalog> objects;  // names are relative to the root
  IoEngine engine = IoEngine::automatic;
  unsigned most_in_flight = 256;  // files open at once; lowered to what the descriptor limit allows
  // Tells the system not to keep what was read in its page cache, for data that foreload caches.
  bool drop_page_cache = false;
  std::shared_ptr<Operations> operations;  // counted here; may be null
  // Whether opening a pipe waits for a writer: so tests have files that never answer.
  bool waits_for_pipes = false;
};

// Fails with `unreadable` if the root is not a folder, `invalid` if io_uring was asked for by name
// and is not there.
Result<std::unique_ptr<Source>> open_folder(FolderSettings settings, Source::Answered answered);

// The version of a file, as list_folder() gives it and reads compare it.
uint64_t file_version(uint64_t size, int64_t mtime_seconds, uint32_t mtime_nanoseconds);
// What stands in its place for samples that are listed, as ImageFolder lists them, and cannot be
// read. They are answered `permanent` at once and never opened.
inline constexpr uint64_t kLinkToNothing = 1;
inline constexpr uint64_t kNotAFile = 2;  // a named pipe, a socket or a device

}  // namespace foreload
