// SPDX-License-Identifier: Apache-2.0
//
// A data set given as a list: a text file with the path of one sample per line, for splits that
// share a folder and orders that no folder has. Paths are absolute or relative to the folder of the
// list, or addresses in one store ("http://host/a.jpg", without escapes); a tab and a whole number
// behind the path is the sample's label, otherwise that is 0. Blank lines and lines that begin with
// # do not count. Samples keep the order of the list.
//
// A program that knows its files gives them without a text: file_list_of().
//
// Any thread may call these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/formats/listing.h"

namespace foreload {

// Bytes of one of the files of a list.
struct FileRange {
  uint64_t file = 0;  // its number in the list
  uint64_t offset = 0;
  uint64_t length = kToTheEnd;

  static constexpr uint64_t kToTheEnd = UINT64_MAX;
};

struct FileList {
  std::string name;  // of the list, for messages; empty: the files were given by the program
  // All files lie in it: the list's own folder if that holds them, otherwise the deepest one that
  // does. A path, or an address as open_store() takes it.
  std::string root;
  std::vector<StoredObject> files;  // names relative to the root; sizes and versions are not known
  std::vector<uint32_t> labels;     // of each file
  std::vector<size_t> lines;        // of each file, from 1; without a text, its number from 0
  uint64_t checksum = 0;            // of the text, or of all paths and ranges
  // What each sample is made of; empty: each file is one.
  std::vector<std::vector<FileRange>> samples;
  std::vector<std::string> part_names;  // of the ranges of every sample; empty: their numbers
};

// Reads the list and none of the files it names. Fails with `unreadable` if it cannot be read, with
// `invalid` and the line if a line makes no sense or no line names a file.
// A path, or an address.
Result<FileList> read_file_list(const std::filesystem::path& list);

// The same for files that are given one by one; relative paths begin at the working folder, labels
// are 0. Fails with `invalid` and the number of the file if a path makes no sense or there is none.
Result<FileList> file_list_of(const std::vector<std::string>& paths);
// The same for samples that are made of ranges of these files; `samples` empty: each file is one.
// Also fails with `invalid` for a range of a file that is not in the list, and for a sample that
// has not as many ranges as there are names, if there are any.
Result<FileList> file_list_of(const std::vector<std::string>& paths,
                              std::vector<std::vector<FileRange>> samples,
                              std::vector<std::string> part_names = {});

// The files of the list with their sizes and versions; no classes. Of the options, extensions do
// not matter. Fails as read_file_list() does, with `unreadable` and the line for a file that cannot
// be stat'ed or is a folder, `cancelled` if progress says so.
Result<Listing> list_files(FileList list, const ListingOptions& options);

}  // namespace foreload
