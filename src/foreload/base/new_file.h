// SPDX-License-Identifier: Apache-2.0
//
// A file that takes the place of `file` when it is whole: until commit() it lies beside it under a
// temporary name. Several processes may make one for the same file at once; the last one wins.
// Errors are errno values, 0 for none. For one thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "foreload/base/descriptor.h"

namespace foreload {

class NewFile {
 public:
  explicit NewFile(std::filesystem::path file) : file_(std::move(file)) {}
  ~NewFile() { abort(); }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int create();
  int write(std::span<const std::byte> bytes);
  // Syncs it, renames it, and syncs the folder; aborts on failure.
  int commit();
  void abort();  // removes it, unless it was committed

 private:
  const std::filesystem::path file_;
  std::string temporary_;
  Descriptor folder_, new_;
};

}  // namespace foreload
