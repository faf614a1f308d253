// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/format.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/text.h"
#include "foreload/dataset/index_format.h"
#include "foreload/formats/index_catalog.h"
#include "foreload/formats/unsupported.h"
#include "foreload/formats/zip.h"
#include "foreload/stores/object_reader.h"
#include "foreload/stores/store.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

constexpr size_t kStart = kIndexMagic.size();  // bytes that tell an index

Result<DatasetIndex> index_of(const Listing& listing, const std::string& store) {
  IndexBuilder builder;
  builder.set_store(store);
  for (const std::string& name : listing.classes) builder.add_class(name);
  for (const StoredFolder& folder : listing.folders) builder.add_folder(folder.name, folder.time);
  for (size_t i = 0; i < listing.files.size(); ++i) {
    const StoredObject& file = listing.files[i];
    FORELOAD_CHECK(builder.add_file(file.name, file.size, file.version, listing.labels[i]));
  }
  return builder.finish();
}

// Why a range is not in its file; empty if it is.
std::string outside(const FileRange& range, const StoredObject& file) {
  const bool begins_there = range.offset <= file.size;
  const bool ends_there =
      range.length == FileRange::kToTheEnd || range.length <= file.size - range.offset;
  if (begins_there && ends_there) return {};
  const std::string bytes = range.length == FileRange::kToTheEnd
                                ? std::string("all bytes")
                                : fmt::format("{} bytes", range.length);
  return fmt::format("{} from {} on of {}, which has {} bytes", bytes, range.offset, file.name,
                     file.size);
}

// Samples that are made of ranges of the files. Without names, several are called by their numbers.
Result<DatasetIndex> index_of(const Listing& listing, const std::string& store,
                              const std::vector<std::vector<FileRange>>& samples,
                              std::vector<std::string> names) {
  IndexBuilder builder;
  builder.set_store(store);
  for (const StoredObject& file : listing.files)
    FORELOAD_CHECK(builder.add_object(file.name, file.size, file.version));
  std::vector<Part> parts;
  const bool named = !names.empty();
  for (size_t sample = 0; sample < samples.size(); ++sample) {
    const std::vector<FileRange>& ranges = samples[sample];
    while (names.size() < ranges.size()) names.push_back(std::to_string(names.size()));
    parts.clear();
    for (const FileRange& range : ranges) {
      const StoredObject& file = listing.files[range.file];
      if (const std::string bytes = outside(range, file); !bytes.empty())
        return fail(ErrorKind::invalid,
                    fmt::format("cannot read sample {}: it is {}; give an offset and a length "
                                "inside of the file",
                                sample, bytes));
      const bool to_the_end = range.length == FileRange::kToTheEnd;
      parts.push_back({static_cast<uint32_t>(range.file),
                       range.offset,
                       to_the_end ? file.size - range.offset : range.length,
                       {}});
    }
    if (named || parts.size() > 1)
      for (size_t i = 0; i < parts.size(); ++i) parts[i].name = names[i];
    FORELOAD_CHECK(builder.add_sample(parts, 0));
  }
  return builder.finish();
}

bool is_sample(const fs::path& file, const std::vector<std::string>& extensions) {
  if (extensions.empty()) return true;
  const std::string name = lower_case(file.filename().native());
  return std::ranges::any_of(
      extensions, [&name](const std::string& end) { return name.ends_with(lower_case(end)); });
}

// The path as everybody writes it, so that one data set is known again; of another store, its
// address behind the scheme, which no path looks like.
std::string_view path_of(const std::string& uri) {
  return std::string_view(uri).substr(std::string_view("file://").size());
}

Result<FoundDataset> find_folder(const GivenDataset&, std::shared_ptr<const Store> store,
                                 const ListingOptions& options) {
  const std::string uri = store->uri();
  Digester digester;
  digester.add(path_of(uri)).add(std::string_view("folder"));
  add_extensions(options.extensions, digester);
  return FoundDataset{store, digester.digest(), [store, uri, options]() -> Result<DatasetIndex> {
                        FORELOAD_TRY(const Listing listing, list_folder(*store, options));
                        return index_of(listing, uri);
                      }};
}

Result<FoundDataset> found_list(FileList list, std::string_view path,
                                const ListingOptions& options) {
  Digester digester;
  digester.add(path).add(std::string_view("list")).add(list.checksum);
  FORELOAD_TRY(std::shared_ptr<const Store> store, open_store(list.root));
  return FoundDataset{store, digester.digest(),
                      [store, list = std::move(list), options]() mutable -> Result<DatasetIndex> {
                        FORELOAD_TRY(const Listing listing, list_files(list, options));
                        if (list.samples.empty()) return index_of(listing, store->uri());
                        return index_of(listing, store->uri(), list.samples, list.part_names);
                      }};
}

Result<FoundDataset> find_list(const GivenDataset&, std::shared_ptr<const Store> store,
                               const ListingOptions& options) {
  std::string why = why_not_dataset(store->where());
  if (!why.empty()) return fail(ErrorKind::invalid, std::move(why));
  FORELOAD_TRY(FileList list, read_file_list(store->where()));
  return found_list(std::move(list), path_of(store->uri()), options);
}

Result<FoundDataset> find_files(const GivenDataset& given, std::shared_ptr<const Store>,
                                const ListingOptions& options) {
  FORELOAD_TRY(FileList list, file_list_of(given.files, given.ranges, given.part_names));
  return found_list(std::move(list), "", options);
}

Result<FoundDataset> find_index(const GivenDataset&, std::shared_ptr<const Store> store,
                                const ListingOptions&) {
  return FoundDataset{nullptr, {}, [store] { return DatasetIndex::load(store->where()); }};
}

}  // namespace

const std::vector<Format>& formats() {
  using Start = std::optional<std::string>;
  static const std::string magic(kIndexMagic.data(), kIndexMagic.size());
  static const std::vector<Format> table{
      {"files", [](const GivenDataset& given, const Start&) { return !given.files.empty(); },
       find_files},
      // Also what is not there: whoever lists it says so.
      {"folder", [](const GivenDataset&, const Start& start) { return !start; }, find_folder},
      {"index",
       [](const GivenDataset&, const Start& start) { return start && start->starts_with(magic); },
       find_index},
      {"zip", is_zip, find_zip},
      {"list", [](const GivenDataset&, const Start& start) { return start.has_value(); },
       find_list},
  };
  return table;
}

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

Result<FoundDataset> find_dataset(const GivenDataset& given, const ListingOptions& options) {
  std::shared_ptr<const Store> store;
  std::optional<std::string> start;
  if (given.files.empty()) {
    FORELOAD_TRY(store, open_store(given.uri));
    FORELOAD_TRY(start, store->first_bytes(kStart));
  }
  for (const Format& format : formats()) {
    if (format.fits(given, start)) return format.find(given, std::move(store), options);
  }
  return fail(
      ErrorKind::invalid,
      fmt::format("cannot read {} as a data set: it has no format that foreload knows; give "
                  "a folder",
                  given.uri));
}

Result<DatasetIndex> open_dataset(const GivenDataset& given, const ListingOptions& options,
                                  std::string_view format) {
  if (format.empty()) {
    FORELOAD_TRY(const FoundDataset found, find_dataset(given, options));
    return found.index();
  }
  const auto row = std::ranges::find(formats(), format, &Format::name);
  FORELOAD_TRY(std::shared_ptr<const Store> store, open_store(given.uri));
  FORELOAD_TRY(const FoundDataset found, row->find(given, std::move(store), options));
  return found.index();
}

Result<std::string> read_sample(const std::shared_ptr<const DatasetIndex>& index, uint64_t sample,
                                const std::string& store) {
  std::vector<Extent> extents;
  for (size_t i = 0; i < index->part_count(sample); ++i) {
    const Part part = index->part(sample, i);
    if (part.length == kUnknownSize)
      return fail(ErrorKind::invalid,
                  fmt::format("the size of sample {} ({}) is not known: list the data set again",
                              sample, index->sample_name(sample)));
    extents.push_back({part.object, part.offset, part.length});
  }
  FORELOAD_TRY(const std::unique_ptr<Store> opened, open_store(store));
  FORELOAD_TRY(const std::vector<std::string> parts,
               read_extents(*opened, std::make_shared<IndexCatalog>(index), extents));
  std::string bytes;
  for (const std::string& part : parts) bytes += part;
  return bytes;
}

bool holds_samples(const fs::path& folder, const std::vector<std::string>& extensions) {
  constexpr int kSoon = 10'000;  // entries
  std::error_code error;
  fs::recursive_directory_iterator entry(folder,
                                         fs::directory_options::skip_permission_denied |
                                             fs::directory_options::follow_directory_symlink,
                                         error);
  for (int i = 0; i < kSoon && !error && entry != fs::end(entry); ++i, entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename() == "foreload-1")
      entry.disable_recursion_pending();
    else if (is_sample(entry->path(), extensions) && entry->is_regular_file(ignored))
      return true;
  }
  return false;
}

}  // namespace foreload
