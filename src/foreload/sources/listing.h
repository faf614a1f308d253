// SPDX-License-Identifier: Apache-2.0
//
// Lists a folder of samples the way torchvision's ImageFolder does: the sub-folders of the root,
// sorted, are the classes; inside each, files are taken recursively (links followed), folders in
// the order of their full paths, names sorted, those with a wanted extension only. A root without
// sub-folders is flat: its own files, all with label 0.
//
// Names are compared as bytes, which for UTF-8 is the order of Python's sorted(). Folders are
// listed and files are stat'ed in parallel, because on a shared file system both are latency.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/metrics/operations.h"

namespace foreload {

// ImageFolder's extensions, compared without regard to case.
const std::vector<std::string>& image_extensions();

struct ListingOptions {
  // With the dot, in any case: ".jpg". Empty: every file counts.
  std::vector<std::string> extensions = image_extensions();
  // Requests in flight at once; latency, not CPUs, is what they hide.
  unsigned threads = 16;
  Progress progress;                       // files stat'ed, files in all
  std::shared_ptr<Operations> operations;  // folders listed and files stat'ed; may be null
};

struct ListedFile {
  std::string name;      // relative to the root, '/' between folders
  uint64_t size = 0;     // bytes
  uint64_t version = 0;  // from size and modification time (nanoseconds); changes when they do
  uint32_t label = 0;
};

struct ListedFolder {
  std::string name;   // relative to the root; empty: the root itself
  uint64_t time = 0;  // of its last change, nanoseconds since 1970
};

struct Listing {
  std::vector<ListedFile> files;      // in data-set order
  std::vector<std::string> classes;   // by label; empty for a flat folder
  std::vector<ListedFolder> folders;  // that were listed, the root first; none of a file list
};

// The first of the folders that is not as it was listed: something was added to it, removed from it
// or renamed in it, or it is gone. Files that were changed in place do not show. Looks at 10,000
// folders at most, evenly spread. Fails with `unreadable` if the root or a folder cannot be asked.
Result<std::optional<std::string>> changed_folder(const std::filesystem::path& root,
                                                  const std::vector<ListedFolder>& folders,
                                                  const ListingOptions& options = {});

// Takes over what statx said about a file, or that it is a link that leads nowhere (`error`).
void note_status(int error, const struct statx& status, ListedFile& file);
// Whether `error` of a stat means that the file is there, and is a link to nothing or to itself.
bool leads_nowhere(int folder, const std::string& name, int error);

// A link that leads nowhere, a pipe, a socket and a device are samples of no bytes that cannot be
// read, as in ImageFolder; their version says so (see folder.h).
// Fails with `unreadable` (naming the path and what the system said) if anything else under the
// root cannot be listed or stat'ed, `invalid` if no file matches or a class folder has none (as
// ImageFolder does), `cancelled` if progress says so.
Result<Listing> list_folder(const std::filesystem::path& root, const ListingOptions& options = {});

}  // namespace foreload
