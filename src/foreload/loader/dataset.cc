// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/dataset.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

namespace foreload {

Result<std::vector<std::string>> parse_extensions(std::string_view text) {
  std::vector<std::string> list;
  if (text == "any") return list;
  for (size_t first = 0; first <= text.size();) {
    const size_t end = std::min(text.find(',', first), text.size());
    const std::string_view one = text.substr(first, end - first);
    if (one.size() < 2 || one.front() != '.')
      return fail(ErrorKind::invalid,
                  fmt::format("cannot read extension '{}': write them like .jpg,.png, or any for "
                              "every file",
                              one));
    list.emplace_back(one);
    first = end + 1;
  }
  return list;
}

Result<DatasetIndex> index_folder(const std::filesystem::path& folder,
                                  const ListingOptions& options) {
  FORELOAD_TRY(const Listing listing, list_folder(folder, options));
  IndexBuilder builder;
  for (const std::string& name : listing.classes) builder.add_class(name);
  for (const ListedFile& file : listing.files)
    FORELOAD_CHECK(builder.add_file(file.name, file.size, file.version, file.label));
  return builder.finish();
}

Result<DatasetIndex> open_dataset(const std::filesystem::path& path,
                                  const ListingOptions& options) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) return DatasetIndex::load(path);
  return index_folder(path, options);
}

}  // namespace foreload
