// SPDX-License-Identifier: Apache-2.0
//
// Lists a folder of samples the way torchvision's ImageFolder does: the sub-folders of the root,
// sorted, are the classes; inside each, files are taken recursively (links followed), folders in
// the order of their full paths, names sorted, those with a wanted extension only. A root without
// sub-folders is flat: its own files, all with label 0.
//
// Names are compared as bytes, which for UTF-8 is the order of Python's sorted().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/stores/store.h"

namespace foreload {

// ImageFolder's extensions, compared without regard to case.
const std::vector<std::string>& image_extensions();
// To the identity of a data set: order, case and repetition do not count.
void add_extensions(const std::vector<std::string>& extensions, Digester& identity);

struct ListingOptions {
  // With the dot, in any case: ".jpg". Empty: every file counts.
  std::vector<std::string> extensions = image_extensions();
  unsigned threads = 16;  // the rest: see StoreCall
  Progress progress;
  std::shared_ptr<Operations> operations;

  StoreCall call() const { return {threads, progress, operations}; }
};

struct Listing {
  std::vector<StoredObject> files;    // in data-set order
  std::vector<uint32_t> labels;       // of each
  std::vector<std::string> classes;   // by label; empty for a flat folder
  std::vector<StoredFolder> folders;  // that were listed, the root first; none of a file list
};

// The samples among the objects of these folders, the root among them, level by level or by name;
// `root` is for messages. Fails with `invalid` as list_folder() does.
Result<Listing> sort_by_class(const std::string& root, std::vector<StoredFolder> folders,
                              const ListingOptions& options);

// A link that leads nowhere, a pipe, a socket and a device are samples of no bytes that cannot be
// read, as in ImageFolder; their version says so (see file_store.h).
// Fails with `unreadable` (naming the path and what the system said) if anything else under the
// root cannot be listed or stat'ed, `invalid` if no file matches or a class folder has none (as
// ImageFolder does), `cancelled` if progress says so.
Result<Listing> list_folder(const Store& store, const ListingOptions& options = {});

}  // namespace foreload
