// SPDX-License-Identifier: Apache-2.0
//
// The ways in which copies can lie below a folder: one row of a table for each. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "foreload/tiers/disk.h"

namespace foreload {

struct DiskKind {
  std::string_view name;
  Result<std::shared_ptr<Tier>> (*open)(DiskSettings settings, DiskSharing* sharing);
};
// The first one is what is used unless another is named.
std::span<const DiskKind> disk_kinds();
// Fails with `invalid` where none has that name.
Result<const DiskKind*> find_disk_kind(std::string_view name);

}  // namespace foreload
