// SPDX-License-Identifier: Apache-2.0
//
// Files below a root folder as a store. Each read opens its file, compares size and modification
// time with what was listed (one statx), reads the range in one request, and closes; a file of
// which a part was read stays open for the next one, a few at a time. With io_uring these steps are
// in flight for many files at once, otherwise a pool of threads does them.
//
// A file that is written lies beside its place under a temporary name until it is whole.
#pragma once

#include <filesystem>

#include "foreload/stores/store.h"

namespace foreload {

class FileStore final : public Store {
 public:
  explicit FileStore(std::filesystem::path root) : root_(std::move(root)) {}

  std::string uri() const override;
  std::string where() const override { return root_.native(); }
  Result<std::optional<std::string>> first_bytes(size_t most) const override;
  Result<std::vector<StoredFolder>> list(std::string_view folder,
                                         const StoreCall& call) const override;
  Result<void> stat(std::span<StoredObject> objects, const StoreCall& call,
                    const Refuse& refuse) const override;
  Result<std::optional<std::string>> changed(std::span<const StoredFolder> folders,
                                             const StoreCall& call) const override;
  // Fails with `invalid` also if io_uring was asked for by name and is not there.
  Result<std::unique_ptr<Source>> open(SourceSettings settings,
                                       Source::Answered answered) const override;
  Result<std::unique_ptr<Sink>> create(std::string_view name) const override;
  Result<void> remove(std::string_view name) const override;

 private:
  std::filesystem::path root_;
};

// The version of a file, as stat() gives it and reads compare it.
uint64_t file_version(uint64_t size, int64_t mtime_seconds, uint32_t mtime_nanoseconds);
// What stands in its place for files that are listed, as ImageFolder lists them, and cannot be
// read. They are answered `permanent` at once and never opened.
inline constexpr uint64_t kLinkToNothing = 1;
inline constexpr uint64_t kNotAFile = 2;  // a named pipe, a socket or a device

}  // namespace foreload
