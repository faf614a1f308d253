// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <system_error>

#include "foreload/base/descriptor.h"
#include "foreload/base/new_file.h"

namespace foreload {
namespace {

// Linux takes at most 2 GiB less a page in any case.
constexpr size_t kMostAtOnce = size_t{1} << 30;

}  // namespace

std::string system_message(int error) {
  return std::generic_category().message(error);
}

int64_t read_at(int fd, uint64_t offset, std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(fd, into.data() + done, std::min(into.size() - done, kMostAtOnce),
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<int64_t>(done);
}

int read_file(const std::filesystem::path& file, std::string& text, size_t most) {
  const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in) return errno;
  std::array<char, 65536> part;
  while (text.size() < most) {
    const ssize_t got = ::read(in.get(), part.data(), std::min(part.size(), most - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    text.append(part.data(), static_cast<size_t>(got));
  }
  return 0;
}

int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), std::min(bytes.size(), kMostAtOnce));
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
