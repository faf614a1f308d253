// SPDX-License-Identifier: Apache-2.0
#include "foreload/sources/folder.h"

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/random.h"
#include "foreload/sources/folder_files.h"
#include "foreload/sources/thread_engine.h"
#include "foreload/sources/uring_engine.h"

namespace foreload {
namespace {

// Descriptors that reads leave to everything else in the process, where the limit is not tiny.
constexpr rlim_t kReserve = 64;
constexpr unsigned kMostInFlight = 4096;

unsigned allowed_in_flight(unsigned wanted) {
  rlim_t allowed = kMostInFlight;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    allowed = std::min(allowed, limit.rlim_cur - std::min(limit.rlim_cur / 2, kReserve));
  }
  return static_cast<unsigned>(std::clamp<rlim_t>(wanted, 1, std::max<rlim_t>(allowed, 1)));
}

}  // namespace

uint64_t file_version(uint64_t size, int64_t mtime_seconds, uint32_t mtime_nanoseconds) {
  const uint64_t nanoseconds =
      static_cast<uint64_t>(mtime_seconds) * 1'000'000'000 + mtime_nanoseconds;
  return mix64(mix64(size) ^ nanoseconds);
}

Result<std::unique_ptr<Source>> open_folder(FolderSettings settings, Source::Answered answered) {
  const std::string name = settings.root.native();
  if (!settings.objects) {
    return fail(
        ErrorKind::invalid,
        fmt::format("cannot read from folder {}: no catalog of its objects was given", name));
  }
  Descriptor root(::open(name.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (root.number() < 0) {
    return fail(ErrorKind::unreadable, fmt::format("cannot read from folder {}: {}; check the path",
                                                   name, std::generic_category().message(errno)));
  }
  const auto files = std::make_shared<const FolderFiles>(FolderFiles{
      std::move(root), name, std::move(settings.objects), std::move(settings.operations),
      settings.drop_page_cache, allowed_in_flight(settings.most_in_flight),
      kOpenFlags | (settings.waits_for_pipes ? 0 : O_NONBLOCK)});
  if (settings.engine != IoEngine::threads) {
    Result<std::unique_ptr<Source>> source = start_uring_engine(files, answered);
    if (source || settings.engine == IoEngine::io_uring) return source;
  }
  return start_thread_engine(files, std::move(answered));
}

}  // namespace foreload
