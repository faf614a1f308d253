// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/dataset.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/plan/index_format.h"
#include "foreload/sources/unsupported.h"

namespace foreload {
namespace {

Result<DatasetIndex> index_of(const Listing& listing) {
  IndexBuilder builder;
  for (const std::string& name : listing.classes) builder.add_class(name);
  for (const ListedFolder& folder : listing.folders) builder.add_folder(folder.name, folder.time);
  for (const ListedFile& file : listing.files)
    FORELOAD_CHECK(builder.add_file(file.name, file.size, file.version, file.label));
  return builder.finish();
}

// Why a range is not in its file; empty if it is.
std::string outside(const FileRange& range, const ListedFile& file) {
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

// Samples that are made of ranges of the files.
Result<DatasetIndex> index_of(const Listing& listing,
                              const std::vector<std::vector<FileRange>>& samples) {
  IndexBuilder builder;
  for (const ListedFile& file : listing.files)
    FORELOAD_CHECK(builder.add_object(file.name, file.size, file.version));
  std::vector<Part> parts;
  std::vector<std::string> names;
  for (size_t sample = 0; sample < samples.size(); ++sample) {
    const std::vector<FileRange>& ranges = samples[sample];
    while (names.size() < ranges.size()) names.push_back(std::to_string(names.size()));
    parts.clear();
    for (const FileRange& range : ranges) {
      const ListedFile& file = listing.files[range.file];
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
    if (parts.size() > 1)
      for (size_t i = 0; i < parts.size(); ++i) parts[i].name = names[i];
    FORELOAD_CHECK(builder.add_sample(parts, 0));
  }
  return builder.finish();
}

}  // namespace

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

Result<DatasetKind> kind_of_dataset(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto type = std::filesystem::status(path, ignored).type();
  if (type == std::filesystem::file_type::not_found ||
      type == std::filesystem::file_type::directory)
    return DatasetKind::folder;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"),
                                                             &std::fclose);
  if (file == nullptr)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot read data set {}: {}; check the path", path.native(),
                            std::generic_category().message(errno)));
  std::array<char, kIndexMagic.size()> start{};
  if (std::fread(start.data(), 1, start.size(), file.get()) == start.size() && start == kIndexMagic)
    return DatasetKind::index;
  std::string why = why_not_dataset(path);
  if (!why.empty()) return fail(ErrorKind::invalid, std::move(why));
  return DatasetKind::list;
}

Result<DatasetIndex> index_folder(const std::filesystem::path& folder,
                                  const ListingOptions& options) {
  FORELOAD_TRY(const Listing listing, list_folder(folder, options));
  return index_of(listing);
}

Result<DatasetIndex> index_file_list(const std::filesystem::path& list,
                                     const ListingOptions& options) {
  FORELOAD_TRY(const Listing listing, list_files(list, options));
  return index_of(listing);
}

Result<DatasetIndex> index_file_list(FileList list, const ListingOptions& options) {
  const std::vector<std::vector<FileRange>> samples = std::move(list.samples);
  FORELOAD_TRY(const Listing listing, list_files(std::move(list), options));
  return samples.empty() ? index_of(listing) : index_of(listing, samples);
}

Result<DatasetIndex> open_dataset(const std::filesystem::path& path,
                                  const ListingOptions& options) {
  FORELOAD_TRY(const DatasetKind kind, kind_of_dataset(path));
  if (kind == DatasetKind::index) return DatasetIndex::load(path);
  return kind == DatasetKind::list ? index_file_list(path, options) : index_folder(path, options);
}

}  // namespace foreload
