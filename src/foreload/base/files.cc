// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include <fmt/format.h>

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

std::string system_message(int error) {
  return std::generic_category().message(error);
}

int write_all(int fd, std::span<const std::byte> bytes) {
  // Linux writes at most 2 GiB at once in any case.
  constexpr size_t kMost = size_t{1} << 30;
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kMost));
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return 0;
}

int replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes) {
  const std::filesystem::path parent = file.has_parent_path() ? file.parent_path() : ".";
  const int folder = ::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return errno;
  std::string temporary;
  const int fd = create_beside(file, temporary);
  int error = fd < 0 ? errno : write_all(fd, bytes);
  if (fd >= 0) {
    if (error == 0 && ::fsync(fd) != 0) error = errno;
    if (::close(fd) != 0 && error == 0) error = errno;
    if (error == 0 && ::rename(temporary.c_str(), file.c_str()) != 0) error = errno;
    if (error != 0) ::unlink(temporary.c_str());
  }
  if (error == 0) error = sync_folder(folder);
  ::close(folder);
  return error;
}

}  // namespace foreload
