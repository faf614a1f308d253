// SPDX-License-Identifier: Apache-2.0
//
// What a user calls a data set, and how its samples are found: a folder is listed, the files of a
// list, or those that a program gives, are stat'ed, a saved index is loaded. One row of a table for
// each format; nothing else knows how samples lie in a store. Any thread may call these.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/dataset/index.h"
#include "foreload/formats/file_list.h"
#include "foreload/formats/listing.h"

namespace foreload {

// A path or a URI, or files that the program knows.
struct GivenDataset {
  std::string uri;
  std::vector<std::string> files = {};              // instead of a URI
  std::vector<std::vector<FileRange>> ranges = {};  // of them; see file_list_of()
  std::vector<std::string> part_names = {};
};

// A data set whose samples nobody has looked at yet.
struct FoundDataset {
  std::shared_ptr<const Store> store;  // that its samples are in; null: an index may tell
  Digest identity;                     // which data set this is, with its extensions or files
  // Finds the samples. Fails as list_folder(), list_files() and DatasetIndex::load() do.
  std::function<Result<DatasetIndex>()> index;
};

struct Format {
  std::string_view name;
  // `start`: the first bytes of the object that the URI names; nothing if it names none.
  bool (*fits)(const GivenDataset& given, const std::optional<std::string>& start);
  // Reads no sample, and of a list no more than its text.
  Result<FoundDataset> (*find)(const GivenDataset& given, std::shared_ptr<const Store> store,
                               const ListingOptions& options);
};
// The first one that fits is right.
const std::vector<Format>& formats();

// Extensions as people write them: ".jpg,.png", or "any" for every file (an empty list). Fails with
// `invalid` for one without a dot.
Result<std::vector<std::string>> parse_extensions(std::string_view text);

// Fails as open_store() does, with `unreadable` for a file that cannot be read, with `invalid` for
// one of a format that is not known.
Result<FoundDataset> find_dataset(const GivenDataset& given, const ListingOptions& options);
// The samples of a data set of any format, or of the one with this name. Fails as find_dataset()
// and FoundDataset::index() do.
Result<DatasetIndex> open_dataset(const GivenDataset& given, const ListingOptions& options,
                                  std::string_view format = {});

// The bytes of a sample, all its parts one behind another, read while the caller waits. `store`: as
// open_store() takes it. Fails as read_extents() does. REQUIRES: sample < index->samples().
Result<std::string> read_sample(const std::shared_ptr<const DatasetIndex>& index, uint64_t sample,
                                const std::string& store);

// Whether samples are soon found below a folder.
bool holds_samples(const std::filesystem::path& folder, const std::vector<std::string>& extensions);

}  // namespace foreload
