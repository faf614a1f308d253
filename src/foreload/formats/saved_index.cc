// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/saved_index.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/paths.h"
#include "foreload/base/text.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

std::vector<StoredFolder> folders_of(const DatasetIndex& index) {
  std::vector<StoredFolder> folders;
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
  constexpr std::array<std::string_view, 3> kNames{"listed", "cache", "file"};
  return kNames[static_cast<size_t>(from)];
}

std::string ListingStart::text() const {
  if (from != ListingFrom::folder)
    return fmt::format("listing from {} {}, {} old; revalidate lists again", name_of(from),
                       file.native(), format_age(age));
  if (changed.empty()) return "listed now";
  return fmt::format("listed again: folder {} changed since the listing of {} ago",
                     changed.native(), format_age(age));
}

fs::path index_file_in(const fs::path& cache, const FoundDataset& found) {
  return cache / "foreload-1" / fmt::format("dataset-{}.index", found.identity.hex());
}

Result<OpenedIndex> open_saved_index(const IndexPlace& place, const ListingOptions& options) {
  FORELOAD_TRY(const FoundDataset found, find_dataset(place.dataset, options));
  if (!found.store)
    return fail(ErrorKind::invalid,
                fmt::format("cannot read samples of {}: it is an index; give the folder that it is "
                            "of, and the index with --index",
                            place.dataset.uri));
  const fs::path root = found.store->where();
  const bool named = !place.file.empty();
  fs::path file = place.file;
  if (!named && !place.cache.empty()) file = index_file_in(place.cache, found);
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
    return OpenedIndex{std::move(*old), found.store, start, warning};
  };
  if (old) {
    start.age = age_of(file);
    const auto changed = found.store->changed(folders_of(*old), options.call());
    if (!changed && changed.error().kind == ErrorKind::cancelled)
      return tl::unexpected(changed.error());
    if (!changed)
      warning = fmt::format("{}; the listing of {} ago is used", changed.error().message,
                            format_age(start.age));
    if (!changed || !*changed) return use_old();
    start.changed = (*changed)->empty() ? root : root / **changed;
  }
  auto index = found.index();
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
  return OpenedIndex{std::move(*index), found.store, start, warning};
}

}  // namespace foreload
