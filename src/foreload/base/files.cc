// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/files.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "foreload/base/new_file.h"

namespace foreload {

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
  NewFile content(file);
  int error = content.create();
  if (error == 0) error = content.write(bytes);
  return error != 0 ? error : content.commit();
}

}  // namespace foreload
