// SPDX-License-Identifier: Apache-2.0
//
// The index of a data set, listed once and kept: in the file that the user names, otherwise in the
// first disk cache. A second start then neither lists nor stats the samples; it only looks whether
// a folder has changed, and lists again if one has. docs/engine.md says what that can miss.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "foreload/base/result.h"
#include "foreload/dataset/index.h"
#include "foreload/formats/format.h"

namespace foreload {

struct IndexPlace {
  GivenDataset dataset;
  std::filesystem::path file;   // the index; empty: in the cache
  std::filesystem::path cache;  // folder of the first disk cache; empty: none
  bool revalidate = false;      // list again, whatever is kept
};

enum class ListingFrom : uint8_t {
  folder,  // listed now
  cache,   // kept in a disk cache
  file,    // kept in the file that the user named
};
std::string_view name_of(ListingFrom from);  // "listed", "cache", "file"

// Where the names and sizes of the samples come from.
struct ListingStart {
  ListingFrom from = ListingFrom::folder;
  double age = 0;                 // seconds since the one that is used, or was found, was made
  std::filesystem::path file;     // where it is kept; empty: nowhere
  std::filesystem::path changed;  // the folder for which it was made again; empty: it was not
  // "listing from cache /x/y.index, 3 days old; revalidate lists again"
  std::string text() const;
};

struct OpenedIndex {
  DatasetIndex index;
  std::shared_ptr<const Store> store;  // where its samples are
  ListingStart start;
  std::string warning;  // one line: why it could not be kept, or checked; empty: it could
};

// Where the index of a data set is kept below a cache folder. The name stands for the data set's
// absolute path and the extensions, for a list also for its text.
std::filesystem::path index_file_in(const std::filesystem::path& cache, const FoundDataset& found);

// Loads the index if it is kept and no folder has changed since, otherwise lists and keeps it. A
// file the user named must be whole and writable; one in the cache that is damaged, or any of an
// older version, is made again. Fails as find_dataset() and FoundDataset::index() do, as
// DatasetIndex does for a named file, and with `invalid` if the data set is an index file.
Result<OpenedIndex> open_saved_index(const IndexPlace& place, const ListingOptions& options);

}  // namespace foreload
