// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/block_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "foreload/tiers/segment_format.h"

namespace foreload::disk_cache {

std::shared_ptr<BlockFile> BlockFile::open(int folder, const char* name, int flags, bool direct) {
  int fd = -1;
  if (direct) fd = ::openat(folder, name, flags | O_CLOEXEC | O_DIRECT, 0644);
  const bool got_direct = fd >= 0;
  if (fd < 0 && (!direct || errno == EINVAL)) {
    // A file system may make the file before it refuses direct I/O.
    fd = ::openat(folder, name, (direct ? flags & ~O_EXCL : flags) | O_CLOEXEC, 0644);
  }
  if (fd < 0) return nullptr;
  auto file = std::make_shared<BlockFile>();
  file->descriptor_ = Descriptor(fd);
  file->direct_ = got_direct;
  return file;
}

void BlockFile::give_up_direct() {
  const int flags = ::fcntl(get(), F_GETFL);
  if (flags >= 0) ::fcntl(get(), F_SETFL, flags & ~O_DIRECT);
  direct_.store(false, std::memory_order_relaxed);
}

int64_t BlockFile::read(uint64_t offset, std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = ::pread(get(), into.data() + done, std::min(into.size() - done, kMostAtOnce),
                              static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && direct()) {
      give_up_direct();
      continue;
    }
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<size_t>(n);
    if (direct() && done % kBlockBytes != 0) break;  // only the end of a file stops in a block
  }
  return static_cast<int64_t>(done);
}

int BlockFile::write(uint64_t offset, std::span<const std::byte> from) {
  size_t done = 0;
  while (done < from.size()) {
    const ssize_t n = ::pwrite(get(), from.data() + done, std::min(from.size() - done, kMostAtOnce),
                               static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EINVAL && direct()) {
      give_up_direct();
      continue;
    }
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    const size_t before = done;
    done += static_cast<size_t>(n);
    if (!direct() || done % kBlockBytes == 0 || done == from.size()) continue;
    // It stopped inside a block, which is written again from its beginning; if that was the first
    // one, through the page cache, which then says what is wrong.
    done -= done % kBlockBytes;
    if (done == before) give_up_direct();
  }
  return 0;
}

void BlockFile::forget(uint64_t offset, uint64_t size) const {
  if (direct()) return;
  ::posix_fadvise(get(), static_cast<off_t>(offset), static_cast<off_t>(size), POSIX_FADV_DONTNEED);
}

void FreeBlocks::operator()(std::byte* blocks) const {
  std::free(blocks);
}

Blocks make_blocks(uint64_t bytes) {
  return Blocks(static_cast<std::byte*>(std::aligned_alloc(kBlockBytes, bytes)));
}

}  // namespace foreload::disk_cache
