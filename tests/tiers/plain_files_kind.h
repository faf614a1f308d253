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
            std::string pattern =
                (std::filesystem::temp_directory_path() / "foreload-plain-XXXXXX").string();
            if (::mkdtemp(pattern.data()) == nullptr) return {};
            DiskSettings settings;
            settings.folder = pattern;
            settings.budget = budget;
            settings.at_once = at_once;
            auto opened = open_plain_files(settings, nullptr);
            EXPECT_TRUE(opened) << opened.error().message;
            if (!opened) return {};
            const auto held = std::make_shared<HeldDisk>(*opened, budget);
            TierAtWork at_work;
            at_work.place = {held.get(),
                             [pattern](void*) { std::filesystem::remove_all(pattern); }};
            at_work.hold = [held](bool yes) { held->hold(yes); };
            at_work.damage = [pattern](const CopyKey& key, uint64_t offset) {
              std::fstream file(plain_file(pattern, key), std::ios::in | std::ios::out);
              file.seekg(static_cast<std::streamoff>(offset));
              const int byte = file.get();
              file.seekp(static_cast<std::streamoff>(offset));
              file.put(static_cast<char>(byte ^ 1));
              ASSERT_TRUE(file.good());
            };
            Tier* tier = opened->get();
            at_work.tier = {tier, [held, own = std::move(*opened)](Tier*) mutable {
                              HeldDisk::end(std::move(own), *held);
                            }};
            return at_work;
          }};
}

}  // namespace foreload
