// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/file_list.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/files.h"
#include "foreload/base/hash.h"
#include "foreload/stores/store.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

Result<std::string> text_of(const fs::path& list) {
  if (!scheme_of(list.native()).empty()) {
    FORELOAD_TRY(const std::unique_ptr<Store> store, open_store(list.native()));
    FORELOAD_TRY(std::optional<std::string> text, store->first_bytes(SIZE_MAX));
    return std::move(text).value_or("");
  }
  std::string text;
  if (const int error = read_file(list, text))
    return fail(ErrorKind::unreadable, fmt::format("cannot read file list {}: {}; check the path",
                                                   list.native(), system_message(error)));
  return text;
}

// "file list L, line 3", or "file 3 of the data set" where there is no list.
std::string place_in(const std::string& list, size_t line) {
  return list.empty() ? fmt::format("file {} of the data set", line)
                      : fmt::format("file list {}, line {}", list, line);
}

// Cuts the text into samples and finds the folder that holds them all.
class ListReader {
 public:
  // `list` is empty where there is no text; `folder` is where relative paths begin.
  ListReader(const fs::path& list, std::string folder)
      : list_(list.native()), folder_(std::move(folder)) {}

  Result<FileList> read(std::string_view text) {
    size_t number = 0;
    for (size_t first = 0; first < text.size();) {
      const size_t end = std::min(text.find('\n', first), text.size());
      FORELOAD_CHECK(add_line(text.substr(first, end - first), ++number));
      first = end + 1;
    }
    if (result_.files.empty())
      return fail(
          ErrorKind::invalid,
          fmt::format("cannot use file list {}: it names no file; write one path per line", list_));
    return finish(all_inside_ ? folder_ : common_);
  }

  Result<FileList> read(const std::vector<std::string>& paths) {
    if (paths.empty())
      return fail(ErrorKind::invalid, "cannot use a data set without files: give at least one");
    for (size_t number = 0; number < paths.size(); ++number) {
      if (paths[number].find('\0') != std::string::npos)
        return flaw(number, "its path holds a zero byte");
      FORELOAD_CHECK(add_path(paths[number], 0, number));
    }
    return finish(common_);
  }

 private:
  tl::unexpected<Error> flaw(size_t line, std::string_view what) const {
    return fail(ErrorKind::invalid, fmt::format("cannot use {}: {}", place_in(list_, line), what));
  }

  FileList finish(const std::string& root) {
    for (StoredObject& file : result_.files) file.name.erase(0, root.size() + (root != "/"));
    result_.root = root;
    result_.name = list_;
    return std::move(result_);
  }

  Result<void> add_line(std::string_view line, size_t number) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(" \t") == std::string_view::npos || line.front() == '#') return {};
    if (line.find('\0') != std::string_view::npos)
      return flaw(number,
                  "it holds a zero byte, so the file is neither a list of paths nor an "
                  "index that can be read; check the path");
    uint32_t label = 0;
    if (const size_t tab = line.rfind('\t'); tab != std::string_view::npos) {
      const std::string_view text = line.substr(tab + 1);
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
      if (error != std::errc() || end != text.data() + text.size())
        return flaw(number, fmt::format("'{}' is not a label: write a whole number from 0 to {} "
                                        "behind the tab, or no tab",
                                        text, UINT32_MAX));
      line = line.substr(0, tab);
      if (line.empty()) return flaw(number, "there is no path before the tab; write one");
    }
    return add_path(line, label, number);
  }

  Result<void> add_path(std::string_view text, uint32_t label, size_t number) {
    FORELOAD_TRY(std::string path, whole_path(text, number));
    if (result_.files.empty()) host_ = host_of(path);
    if (host_of(path) != host_)
      return flaw(number, fmt::format("'{}' is not in the same store as the files before it; make "
                                      "a list for each store",
                                      text));
    note_folder(path);
    result_.files.push_back({std::move(path)});
    result_.labels.push_back(label);
    result_.lines.push_back(number);
    return {};
  }

  // Absolute, without . and .. in it. A .. behind a name is refused: what it means depends on
  // whether the name is a link, which only the file system could say.
  Result<std::string> whole_path(std::string_view text, size_t line) const {
    if (text.empty()) return flaw(line, "its path is empty");
    const bool absolute = text.front() == '/' || !scheme_of(text).empty();
    std::string whole = absolute ? std::string(text) : fmt::format("{}/{}", folder_, text);
    if (!scheme_of(whole).empty()) return whole;  // its store knows what its names may be
    const bool plain = whole.find("/.") == std::string::npos &&
                       whole.find("//") == std::string::npos && !whole.ends_with('/');
    if (plain) return whole;
    bool named = absolute;
    for (const fs::path& step : fs::path(text)) {
      if (step == ".." && named)
        return flaw(
            line,
            fmt::format("'{}' has .. after the name of a folder: write the path without ..", text));
      if (step != ".." && step != ".") named = true;
    }
    whole = fs::path(whole).lexically_normal().native();
    if (whole.ends_with('/')) return flaw(line, fmt::format("'{}' is a folder; name a file", text));
    return whole;
  }

  // "http://host" of an address; empty for a path.
  static std::string_view host_of(std::string_view path) {
    const std::string_view scheme = scheme_of(path);
    return scheme.empty() ? scheme : path.substr(0, path.find('/', scheme.size() + 3));
  }

  void note_folder(const std::string& path) {
    const std::string_view folder =
        std::string_view(path).substr(0, std::max<size_t>(path.rfind('/'), 1));
    all_inside_ = all_inside_ &&
                  (folder_ == "/" || (path.starts_with(folder_) && path[folder_.size()] == '/'));
    if (common_.empty()) common_ = folder;
    while (common_ != "/" && folder != common_ &&
           !(folder.starts_with(common_) && folder[common_.size()] == '/'))
      common_.resize(std::max<size_t>(common_.rfind('/'), 1));
  }

  const std::string list_;
  const std::string folder_;  // of the list; absolute, without links
  std::string host_;          // of all files
  std::string common_;        // the deepest folder that holds all files so far
  bool all_inside_ = true;    // in folder_
  FileList result_;
};

}  // namespace

Result<FileList> read_file_list(const fs::path& list) {
  FORELOAD_TRY(const std::string text, text_of(list));
  std::error_code error;
  const bool is_path = scheme_of(list.native()).empty();
  const fs::path folder = is_path ? fs::canonical(fs::absolute(list).parent_path(), error)
                                  : fs::path(list.native().substr(0, list.native().rfind('/')));
  if (error)
    return fail(ErrorKind::unreadable, fmt::format("cannot read file list {}: {}; check the path",
                                                   list.native(), error.message()));
  FORELOAD_TRY(FileList files, ListReader(list, folder.native()).read(text));
  files.checksum = checksum64(std::as_bytes(std::span(text)));
  return files;
}

Result<FileList> file_list_of(const std::vector<std::string>& paths) {
  std::error_code error;
  const fs::path folder = fs::current_path(error);
  if (error)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot find the working folder: {}; change to one that exists",
                            error.message()));
  FORELOAD_TRY(FileList files, ListReader({}, folder.native()).read(paths));
  Digester digester;
  for (const std::string& path : paths) digester.add(std::string_view(path));
  files.checksum = digester.digest().low;
  return files;
}

Result<FileList> file_list_of(const std::vector<std::string>& paths,
                              std::vector<std::vector<FileRange>> samples,
                              std::vector<std::string> part_names) {
  FORELOAD_TRY(FileList files, file_list_of(paths));
  if (samples.empty()) return files;
  Digester digester;
  digester.add(files.checksum);
  for (const std::string& name : part_names) digester.add(std::string_view(name));
  for (size_t number = 0; number < samples.size(); ++number) {
    if (!part_names.empty() && samples[number].size() != part_names.size())
      return fail(ErrorKind::invalid,
                  fmt::format("cannot use sample {}: it has {} parts, and {} names are given; name "
                              "each part",
                              number, samples[number].size(), part_names.size()));
    digester.add(samples[number].size());
    for (const FileRange& range : samples[number]) {
      if (range.file >= paths.size())
        return fail(ErrorKind::invalid,
                    fmt::format("cannot use sample {}: it is made of file {}, but {} files are "
                                "given; give all of them",
                                number, range.file, paths.size()));
      digester.add(range.file).add(range.offset).add(range.length);
    }
  }
  files.checksum = digester.digest().low;
  files.samples = std::move(samples);
  files.part_names = std::move(part_names);
  return files;
}

Result<Listing> list_files(FileList found, const ListingOptions& options) {
  const auto refuse = [&found](size_t file, const std::string& why) {
    return Error{ErrorKind::unreadable,
                 fmt::format("cannot use {}: cannot stat file {}: {}; restore the file, or correct "
                             "the {}",
                             place_in(found.name, found.lines[file]),
                             (fs::path(found.root) / found.files[file].name).native(), why,
                             found.name.empty() ? "data set" : "line")};
  };
  FORELOAD_TRY(const std::unique_ptr<Store> store, open_store(found.root));
  auto done = store->stat(found.files, options.call(), refuse);
  if (!done && done.error().kind == ErrorKind::cancelled)
    return fail(ErrorKind::cancelled,
                fmt::format("listing of file list {} was cancelled", found.name));
  if (!done) return tl::unexpected(std::move(done).error());
  return Listing{std::move(found.files), std::move(found.labels), {}, {}};
}

}  // namespace foreload
