// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/unsupported.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/files.h"
#include "foreload/base/text.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

// A row of the table: what it is called, what works instead, and how it is known.
struct Kind {
  std::string_view one;      // "a tar archive"
  std::string_view several;  // "tar archives"; empty: a folder of such files may be a data set
  std::string_view instead;  // {} is the path
  std::vector<std::string_view> endings;  // of names, or
  size_t offset = 0;                      // where the file has
  std::string_view magic;                 // these bytes
};

using namespace std::string_view_literals;

constexpr std::string_view kOwnFiles =
    "write each sample to a file of its own and give the folder, or keep torch's DataLoader";
constexpr std::string_view kOwnFilesOrLmdb =
    "write each sample to a file of its own and give the folder, or keep torch's DataLoader with "
    "lmdb";

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> table{
      {"a tar archive",
       "tar archives",
       "unpack it (tar -xf {} -C DIR) and give the folder",
       {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"},
       257,
       "ustar"},
      {"a numpy archive", "numpy archives", kOwnFiles, {".npz"}},
      {"a file of torch", "files of torch", kOwnFiles, {".pt", ".pth", ".ckpt", ".safetensors"}},
      {"a zip archive",
       "zip archives",
       "give one of them by itself, or unpack them all (unzip {} -d DIR) and give the folder",
       {".zip"}},
      {"an HDF5 file",
       "HDF5 files",
       "write each sample to a file of its own and give the folder, "
       "or keep torch's DataLoader with h5py",
       {".h5", ".hdf5", ".he5"},
       0,
       "\x89HDF\r\n\x1a\n"},
      {"a Parquet file", "Parquet files", kOwnFiles, {".parquet"}, 0, "PAR1"},
      {"an Arrow file", "Arrow files", kOwnFiles, {".arrow", ".feather"}, 0, "ARROW1"},
      {"a TFRecord file",
       "TFRecord files",
       "write each sample to a file of its own and give the "
       "folder, or keep the loader that reads it",
       {".tfrecord", ".tfrecords", ".tfrec"}},
      {"an MDS shard of MosaicML Streaming",
       "MDS shards of MosaicML Streaming",
       "write each sample to a file of its own and give the folder, or keep StreamingDataset with "
       "torch's DataLoader",
       {".mds", ".mds.zst", ".mds.zstd"}},
      {"an FFCV file",
       "FFCV files",
       "give the folder of images it was made from, or keep FFCV",
       {".beton"}},
      {"an LMDB database",
       "LMDB databases",
       kOwnFilesOrLmdb,
       {".mdb", ".lmdb"},
       16,
       "\xDE\xC0\xEF\xBE"sv},
      {"one numpy array",
       "",
       "one array per file is read: write each sample to a .npy file of its "
       "own, and give the folder and its extension (--extensions .npy)",
       {".npy"},
       0,
       "\x93NUMPY"},
      {"an SQLite database",
       "SQLite databases",
       "write each sample to a file of its own and give "
       "the folder",
       {".sqlite", ".sqlite3"},
       0,
       "SQLite format 3"},
      {"a pickle", "pickles", kOwnFiles, {".pkl", ".pickle"}},
      {"a JPEG image", "", "give the folder that it is in", {}, 0, "\xFF\xD8\xFF"},
      {"a PNG image", "", "give the folder that it is in", {}, 0, "\x89PNG"},
      {"a gzip file", "gzip files", "unpack it, and give the folder", {}, 0, "\x1F\x8B"},
  };
  return table;
}

// Tables that may also be file lists: what their first line holds tells.
const Kind& table_of_values() {
  static const Kind kind{
      "a table",
      "",
      "write a file list: the path of one sample per line, and a tab and the class "
      "behind it",
      {".csv", ".jsonl", ".ndjson", ".json"}};
  return kind;
}

bool ends_as(const Kind& kind, std::string_view lower) {
  return std::any_of(kind.endings.begin(), kind.endings.end(), [lower](std::string_view ending) {
    // Shards of TFRecord are called train.tfrecord-00000-of-01024.
    return lower.ends_with(ending) ||
           (ending == ".tfrecord" && lower.find(".tfrecord-") != std::string_view::npos);
  });
}

std::string message(const Kind& kind, const fs::path& path) {
  return fmt::format("cannot read {} as a data set: it is {}, which foreload does not read yet; {}",
                     path.native(), kind.one,
                     fmt::format(fmt::runtime(kind.instead), path.native()));
}

std::string start_of(const fs::path& file, size_t most) {
  std::string bytes;
  (void)read_file(file, bytes, most);
  return bytes;
}

// "path,label" or JSON, not a list of paths.
bool holds_values(const std::string& start) {
  const std::string line = start.substr(0, start.find('\n'));
  return line.starts_with('{') || line.starts_with('[') || line.find(',') != std::string::npos;
}

// Why a folder with such files in it is no data set; empty if nothing is known about it.
std::string why_not_folder(const fs::path& folder) {
  std::error_code error;
  if (fs::exists(folder / "data.mdb", error))
    return message({"an LMDB database", "", kOwnFilesOrLmdb, {}}, folder);
  const std::string index = start_of(folder / "index.json", 1 << 16);
  if (index.find("\"shards\"") != std::string::npos)
    return message({"a folder of MosaicML Streaming (MDS)",
                    "",
                    "give the files it was made from, or keep StreamingDataset with torch's "
                    "DataLoader",
                    {}},
                   folder);
  if (index.find("\"chunks\"") != std::string::npos)
    return message({"a folder of LitData",
                    "",
                    "give the files it was made from, or keep LitData's StreamingDataLoader",
                    {}},
                   folder);
  return "";
}

std::vector<std::pair<std::string, uint64_t>> by_count(const Endings& endings) {
  std::vector<std::pair<std::string, uint64_t>> sorted(endings.begin(), endings.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

}  // namespace

std::string why_not_dataset(const fs::path& path) {
  const std::string lower = lower_case(path.native());
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return "";
  const std::string start = start_of(path, 512);
  for (const Kind& kind : kinds()) {
    if (ends_as(kind, lower)) return message(kind, path);
  }
  for (const Kind& kind : kinds()) {
    if (!kind.magic.empty() && start.size() > kind.offset &&
        std::string_view(start).substr(kind.offset).starts_with(kind.magic))
      return message(kind, path);
  }
  if (ends_as(table_of_values(), lower) && holds_values(start))
    return message(table_of_values(), path);
  return "";
}

std::string ending_of(std::string_view name) {
  const std::string lower = lower_case(name);
  if (lower.find(".tfrecord-") != std::string::npos) return ".tfrecord";
  size_t dot = lower.rfind('.');
  if (dot == std::string::npos || dot == 0) return "";
  // What is packed says what it is in front of it: .tar.gz.
  const std::string_view last = std::string_view(lower).substr(dot);
  if (last == ".gz" || last == ".zst" || last == ".zstd" || last == ".xz" || last == ".bz2") {
    const size_t before = lower.rfind('.', dot - 1);
    if (before != std::string::npos && before > 0) dot = before;
  }
  return lower.substr(dot);
}

std::string why_not_dataset(const fs::path& folder, const Endings& endings) {
  if (endings.empty())
    return fmt::format("cannot use folder {}: there is no file in it; check the path",
                       folder.native());
  if (std::string why = why_not_folder(folder); !why.empty()) return why;
  const auto [ending, count] = by_count(endings).front();
  for (const Kind& kind : kinds()) {
    if (kind.several.empty() || !ends_as(kind, ending)) continue;
    return fmt::format(
        "cannot read {} as a data set: its files are {} ({} of {}), which foreload does not read "
        "yet; {}",
        folder.native(), kind.several, format_count(count), ending,
        fmt::format(fmt::runtime(kind.instead), "FILE"));
  }
  return "";
}

std::string most_frequent(const Endings& endings) {
  constexpr size_t kShown = 4;
  const auto sorted = by_count(endings);
  std::string text;
  uint64_t others = 0;
  for (size_t i = 0; i < sorted.size(); ++i) {
    const auto& [ending, count] = sorted[i];
    if (i >= kShown) {
      others += count;
      continue;
    }
    text += fmt::format("{}{} of {}", i == 0 ? "" : ", ", format_count(count),
                        ending.empty() ? "no extension" : ending);
  }
  return others == 0 ? text : fmt::format("{} and {} others", text, format_count(others));
}

}  // namespace foreload
