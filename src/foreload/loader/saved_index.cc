// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/saved_index.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/hash.h"
#include "foreload/base/paths.h"
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

std::vector<ListedFolder> folders_of(const DatasetIndex& index) {
  std::vector<ListedFolder> folders;
  for (size_t i = 0; i < index.folders(); ++i)
    folders.push_back({std::string(index.folder_name(i)), index.folder_time(i)});
  return folders;
}

double age_of(const fs::path& file) {
  std::error_code error;
  const auto written = fs::last_write_time(file, error);
  if (error) return 0;
  return std::max(
      0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
}

}  // namespace

std::string_view name_of(ListingFrom from) {
  switch (from) {
    case ListingFrom::folder:
      return "listed";
    case ListingFrom::cache:
      return "cache";
    case ListingFrom::file:
      return "file";
  }
  return "";
}

std::string ListingStart::text() const {
  if (from != ListingFrom::folder)
    return fmt::format("listing from {} {}, {} old; revalidate lists again", name_of(from),
                       file.native(), format_age(age));
  if (changed.empty()) return "listed now";
  return fmt::format("listed again: folder {} changed since the listing of {} ago",
                     changed.native(), format_age(age));
}

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
  const bool kept = !file.empty() && fs::exists(file, error);
  if (named && !kept) FORELOAD_CHECK(check_output_file("the index", file));
  ListingStart start{ListingFrom::folder, 0, file, {}};
  std::string warning;
  std::optional<DatasetIndex> old;
  if (kept && !place.revalidate) {
    auto index = DatasetIndex::load(file);
    if (!index && named && !DatasetIndex::outdated(file))
      return tl::unexpected(std::move(index).error());
    if (index) old = std::move(*index);
  }
  const auto use_old = [&] {
    start.from = named ? ListingFrom::file : ListingFrom::cache;
    start.changed.clear();
    return OpenedIndex{std::move(*old), root, start, warning};
  };
  if (old) {
    start.age = age_of(file);
    const auto changed = list ? Result<std::optional<std::string>>(std::nullopt)
                              : changed_folder(root, folders_of(*old), options);
    if (!changed && changed.error().kind == ErrorKind::cancelled)
      return tl::unexpected(changed.error());
    if (!changed)
      warning = fmt::format("{}; the listing of {} ago is used", changed.error().message,
                            format_age(start.age));
    if (!changed || !*changed) return use_old();
    start.changed = (*changed)->empty() ? root : root / **changed;
  }
  auto index =
      place.files ? index_file_list(*place.files, options) : open_dataset(place.dataset, options);
  if (!index && old && index.error().kind == ErrorKind::unreadable) {
    warning =
        fmt::format("folder {} changed since the listing of {} ago, which is used all the same: {}",
                    start.changed.native(), format_age(start.age), index.error().message);
    return use_old();
  }
  if (!index) return tl::unexpected(std::move(index).error());
  if (!file.empty()) {
    if (!named) fs::create_directories(file.parent_path(), error);
    auto saved = index->save(file);
    // One that was made again by itself may lie where only others can write.
    if (!saved && named && !old) return tl::unexpected(std::move(saved).error());
    if (!saved) warning = std::move(saved).error().message;
  }
  return OpenedIndex{std::move(*index), root, start, warning};
}

}  // namespace foreload
