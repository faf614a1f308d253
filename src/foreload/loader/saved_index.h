// SPDX-License-Identifier: Apache-2.0
//
// The index of a data set, listed once and kept: in the file that the user names, otherwise in the
// first disk cache. A second start then neither lists nor stats the samples. docs/engine.md says
// what that can miss.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/plan/index.h"
#include "foreload/sources/file_list.h"
#include "foreload/sources/listing.h"

namespace foreload {

struct IndexPlace {
  std::filesystem::path dataset;  // a folder or a file list; for `files`, what to call them
  std::filesystem::path file;     // the index; empty: in the cache
  std::filesystem::path cache;    // folder of the first disk cache; empty: none
  bool revalidate = false;        // list again, whatever is kept
  std::optional<FileList> files;  // the data set itself, where the program knows its files
};

struct OpenedIndex {
  DatasetIndex index;
  std::filesystem::path root;  // where its samples are
  std::filesystem::path file;  // where it is kept; empty: nowhere
  bool listed = false;         // false: it was loaded
  std::string warning;         // why it could not be kept in the cache; empty: it could
};

// Where the index of a data set is kept below a cache folder. The name stands for the data set's
// absolute path and the extensions, for a list also for its text. Fails as read_file_list() does.
Result<std::filesystem::path> index_file_in(const std::filesystem::path& cache,
                                            const std::filesystem::path& dataset,
                                            const std::vector<std::string>& extensions);

// Loads the index if it is kept, otherwise lists and keeps it. A file the user named must be whole
// and writable; one in the cache that is damaged is made again. Fails as list_folder() and
// list_files() do, as DatasetIndex does for a named file, and with `invalid` if the data set is an
// index file, which does not say where its samples are.
Result<OpenedIndex> open_saved_index(const IndexPlace& place, const ListingOptions& options);

}  // namespace foreload
