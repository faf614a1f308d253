// SPDX-License-Identifier: Apache-2.0
//
// A zip archive as a data set: its members are the samples, with labels by folder as if it were
// unpacked (listing.h). The archive may be in any store. Any thread may call these.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "foreload/formats/format.h"

namespace foreload {

// A row of the table of formats.
bool is_zip(const GivenDataset& given, const std::optional<std::string>& start);
Result<FoundDataset> find_zip(const GivenDataset& given, std::shared_ptr<const Store> store,
                              const ListingOptions& options);

}  // namespace foreload
