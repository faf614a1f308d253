// SPDX-License-Identifier: Apache-2.0
//
// Opens what a user calls a data set: a folder is listed, an index file is loaded.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/plan/index.h"
#include "foreload/sources/listing.h"

namespace foreload {

// Extensions as people write them: ".jpg,.png", or "any" for every file (an empty list). Fails with
// `invalid` for one without a dot.
Result<std::vector<std::string>> parse_extensions(std::string_view text);

// Lists a folder and puts what it holds into an index. Fails as list_folder() does.
Result<DatasetIndex> index_folder(const std::filesystem::path& folder,
                                  const ListingOptions& options);

// index_folder() for a folder, DatasetIndex::load() for a file. Fails as they do.
Result<DatasetIndex> open_dataset(const std::filesystem::path& path, const ListingOptions& options);

}  // namespace foreload
