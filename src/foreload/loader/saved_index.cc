// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/saved_index.h"

#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/hash.h"
#include "foreload/base/text.h"
#include "foreload/loader/dataset.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

fs::path file_name(const fs::path& cache, const fs::path& dataset,
                   const std::vector<std::string>& extensions,
                   const std::optional<FileList>& list) {
  std::error_code error;
  fs::path whole;
  if (!dataset.empty()) {
    whole = fs::canonical(dataset, error);
    if (error) whole = fs::absolute(dataset, error).lexically_normal();
  }
  Digester digester;
  digester.add(std::string_view(whole.native()));
  if (list) {
    digester.add(std::string_view("list")).add(list->checksum);
  } else {
    std::set<std::string> sorted;
    for (const std::string& extension : extensions) sorted.insert(lower_case(extension));
    digester.add(std::string_view("folder"));
    for (const std::string& extension : sorted) digester.add(std::string_view(extension));
  }
  return cache / "foreload-1" / fmt::format("dataset-{}.index", digester.digest().hex());
}

// Nothing for a folder.
Result<std::optional<FileList>> list_of(const fs::path& dataset) {
  FORELOAD_TRY(const DatasetKind kind, kind_of_dataset(dataset));
  if (kind == DatasetKind::folder) return std::nullopt;
  if (kind == DatasetKind::index)
    return fail(ErrorKind::invalid,
                fmt::format("cannot read samples of {}: it is an index, which does not say where "
                            "they are; give the folder, and the index with --index",
                            dataset.native()));
  FORELOAD_TRY(FileList list, read_file_list(dataset));
  return std::optional<FileList>(std::move(list));
}

}  // namespace

Result<fs::path> index_file_in(const fs::path& cache, const fs::path& dataset,
                               const std::vector<std::string>& extensions) {
  FORELOAD_TRY(const std::optional<FileList> list, list_of(dataset));
  return file_name(cache, dataset, extensions, list);
}

Result<OpenedIndex> open_saved_index(const IndexPlace& place, const ListingOptions& options) {
  std::optional<FileList> list = place.files;
  if (!list) {
    FORELOAD_TRY(list, list_of(place.dataset));
  }
  const fs::path root = list ? list->root : place.dataset;
  const bool named = !place.file.empty();
  fs::path file = place.file;
  if (!named && !place.cache.empty())
    file =
        file_name(place.cache, place.files ? fs::path() : place.dataset, options.extensions, list);
  std::error_code error;
  if (!file.empty() && !place.revalidate && fs::exists(file, error)) {
    auto index = DatasetIndex::load(file);
    if (index) return OpenedIndex{std::move(*index), root, file, false, {}};
    if (named) return tl::unexpected(std::move(index).error());
  }
  FORELOAD_TRY(DatasetIndex index, place.files ? index_file_list(*place.files, options)
                                               : open_dataset(place.dataset, options));
  std::string warning;
  if (!file.empty()) {
    if (!named) fs::create_directories(file.parent_path(), error);
    auto saved = index.save(file);
    if (!saved && named) return tl::unexpected(std::move(saved).error());
    if (!saved) warning = std::move(saved).error().message;
  }
  return OpenedIndex{std::move(index), root, std::move(file), true, std::move(warning)};
}

}  // namespace foreload
