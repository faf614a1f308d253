// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/new_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include <fmt/format.h>

#include "foreload/base/files.h"

namespace foreload {
namespace {

// Creates a file that was not there beside `file`. Another process, possibly on another node with
// the same process number, may be writing the same file: hence the attempts. -1 and errno on error.
int create_beside(const std::filesystem::path& file, std::string& name) {
  constexpr int kAttempts = 1000;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    name = fmt::format("{}.{}-{}.tmp", file.native(), ::getpid(), attempt);
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

int sync_folder(int folder) {
  // Some file systems cannot sync a folder and say EINVAL; the rename is all they offer.
  return ::fsync(folder) != 0 && errno != EINVAL ? errno : 0;
}

}  // namespace

int NewFile::create() {
  const std::filesystem::path parent = file_.has_parent_path() ? file_.parent_path() : ".";
  folder_ = Descriptor(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_) return errno;
  new_ = Descriptor(create_beside(file_, temporary_));
  return new_ ? 0 : errno;
}

int NewFile::write(std::span<const std::byte> bytes) {
  return write_all(new_.get(), bytes);
}

int NewFile::commit() {
  int error = ::fsync(new_.get()) != 0 ? errno : 0;
  if (new_.close() != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary_.c_str(), file_.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(temporary_.c_str());
  return error != 0 ? error : sync_folder(folder_.get());
}

void NewFile::abort() {
  if (new_) ::unlink(temporary_.c_str());
  new_.close();
}

}  // namespace foreload
