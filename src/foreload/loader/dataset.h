// SPDX-License-Identifier: Apache-2.0
//
// Opens what a user calls a data set: a folder is listed, the files of a file list are stat'ed, an
// index file is loaded. Any thread may call these.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/plan/index.h"
#include "foreload/sources/file_list.h"
#include "foreload/sources/listing.h"

namespace foreload {

// Extensions as people write them: ".jpg,.png", or "any" for every file (an empty list). Fails with
// `invalid` for one without a dot.
Result<std::vector<std::string>> parse_extensions(std::string_view text);

enum class DatasetKind : uint8_t {
  folder,  // also what is not there: whoever lists it says so
  list,    // a text file with paths, see sources/file_list.h
  index,   // a file that begins as a saved index does
};
// Fails with `unreadable` for a file that cannot be read, with `invalid` for one of a kind that is
// not supported.
Result<DatasetKind> kind_of_dataset(const std::filesystem::path& path);

// Lists a folder and puts what it holds into an index. Fails as list_folder() does.
Result<DatasetIndex> index_folder(const std::filesystem::path& folder,
                                  const ListingOptions& options);
// Puts the files of a file list into an index. Fails as list_files() does.
Result<DatasetIndex> index_file_list(const std::filesystem::path& list,
                                     const ListingOptions& options);
Result<DatasetIndex> index_file_list(FileList list, const ListingOptions& options);

// index_folder() for a folder, index_file_list() for a list, DatasetIndex::load() for an index.
// Fails as they do.
Result<DatasetIndex> open_dataset(const std::filesystem::path& path, const ListingOptions& options);

}  // namespace foreload
