// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_kinds.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "foreload/base/text.h"
#include "foreload/tiers/plain_files.h"

namespace foreload {

std::span<const DiskKind> disk_kinds() {
  static constexpr std::array kKinds{DiskKind{"segments", open_disk},
                                     DiskKind{"files", open_plain_files}};
  return kKinds;
}

Result<const DiskKind*> find_disk_kind(std::string_view name) {
  std::vector<std::string> names;
  for (const DiskKind& kind : disk_kinds()) {
    if (kind.name == name) return &kind;
    names.emplace_back(kind.name);
  }
  return tl::unexpected(check_choice("the kind of a disk cache", name, names).error());
}

}  // namespace foreload
