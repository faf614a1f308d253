// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <thread>

#include <fmt/format.h>

#include "foreload/base/descriptor.h"
#include "foreload/base/files.h"
#include "foreload/base/text.h"
#include "foreload/peers/rendezvous.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

// One file name, which starts with no dot.
std::string file_name(const std::string& key) {
  return percent_encoded(key, "-_");
}

class FolderRendezvous final : public Rendezvous {
 public:
  explicit FolderRendezvous(std::filesystem::path folder) : folder_(std::move(folder)) {}

  Result<void> put(const std::string& key, const std::string& value) override {
    FORELOAD_CHECK(check_sizes(key, value.size()));
    const auto file = folder_ / file_name(key);
    if (const int error = replace_file(file, std::as_bytes(std::span(value)))) {
      return unreachable("write", file, error);
    }
    return {};
  }

  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    FORELOAD_CHECK(check_sizes(key, 0));
    const auto deadline = Clock::now() + timeout;
    const auto file = folder_ / file_name(key);
    std::chrono::milliseconds pause(2);
    for (;;) {
      const Descriptor in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
      if (in) return read_value(in, file);
      if (errno != ENOENT && errno != ESTALE) return unreachable("read", file, errno);
      const auto now = Clock::now();
      if (now >= deadline) {
        return fail(ErrorKind::cancelled, fmt::format("{} did not appear in time", file.string()));
      }
      std::this_thread::sleep_for(
          std::min<Clock::duration>(pause, deadline - now + std::chrono::milliseconds(1)));
      pause = std::min(2 * pause, std::chrono::milliseconds(50));
      // Network file systems remember for many seconds that a file was not there, but not across a
      // listing of its folder.
      if (DIR* listing = ::opendir(folder_.c_str())) {
        while (::readdir(listing) != nullptr) {
        }
        ::closedir(listing);
      }
    }
  }

 private:
  static tl::unexpected<Error> unreachable(const char* action, const std::filesystem::path& file,
                                           int error) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot {} {} of the rendezvous: {}. Check that all ranks share this "
                            "folder and may write to it",
                            action, file.string(), std::strerror(error)));
  }
  // Files appear whole, by a rename.
  static Result<std::string> read_value(const Descriptor& in, const std::filesystem::path& file) {
    struct stat found{};
    if (::fstat(in.get(), &found) != 0) return unreachable("read", file, errno);
    const auto bytes = static_cast<size_t>(found.st_size);
    if (bytes > kMostValueBytes) return unreachable("read", file, EFBIG);
    std::string value(bytes, '\0');
    const int64_t got = read_at(in.get(), 0, std::as_writable_bytes(std::span(value)));
    if (got != found.st_size) return unreachable("read", file, got < 0 ? errno : EIO);
    return value;
  }

  const std::filesystem::path folder_;
};

}  // namespace

Result<std::unique_ptr<Rendezvous>> folder_rendezvous(const std::filesystem::path& folder,
                                                      const std::string& job) {
  if (job.empty()) return fail(ErrorKind::invalid, "the rendezvous folder needs a name of the job");
  auto own = folder / file_name(job);
  std::error_code error;
  std::filesystem::create_directories(own, error);
  if (error) {
    return fail(
        ErrorKind::unreadable,
        fmt::format("cannot make the rendezvous folder {}: {}. Name a folder that all ranks "
                    "share and may write to",
                    own.string(), error.message()));
  }
  return std::make_unique<FolderRendezvous>(std::move(own));
}

}  // namespace foreload
