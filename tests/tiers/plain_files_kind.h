// SPDX-License-Identifier: Apache-2.0
//
// The tier of plain files for the suite of all tiers.
#pragma once

#include <fstream>

#include <fmt/format.h>

#include "foreload/tiers/plain_files.h"

#include "disk_kinds.h"

namespace foreload {

// The file of a copy; empty if there is none.
inline std::filesystem::path plain_file(const std::filesystem::path& folder, const CopyKey& key) {
  const std::string content = key.content.hex();
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(folder / content.substr(0, 2), none))
    if (entry.path().filename().native().starts_with(fmt::format("{}.{:016x}.", content, key.form)))
      return entry.path();
  return {};
}

inline TierKind plain_files_kind() {
  return {"PlainFiles", [](uint64_t budget, unsigned at_once) -> TierAtWork {
            DiskSettings settings;
            settings.budget = budget;
            settings.at_once = at_once;
            return disk_at_work(open_plain_files, settings,
                                [](const auto& folder, const CopyKey& key, uint64_t offset) {
                                  std::fstream file(plain_file(folder, key),
                                                    std::ios::in | std::ios::out);
                                  file.seekg(static_cast<std::streamoff>(offset));
                                  const int byte = file.get();
                                  file.seekp(static_cast<std::streamoff>(offset));
                                  file.put(static_cast<char>(byte ^ 1));
                                  ASSERT_TRUE(file.good());
                                });
          }};
}

}  // namespace foreload
