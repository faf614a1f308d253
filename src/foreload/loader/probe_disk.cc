// SPDX-License-Identifier: Apache-2.0
//
// The disk's part of the probe, on a file that has no name from the start (or, where the file
// system cannot do that, loses it at once).
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/random.h"
#include "foreload/loader/probe.h"
#include "foreload/loader/probe_level.h"
#include "foreload/tiers/block_file.h"
#include "foreload/tiers/segment_format.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using namespace probing;
using disk_cache::BlockFile;
using disk_cache::Blocks;
using disk_cache::kBlockBytes;
using disk_cache::make_blocks;

constexpr uint64_t kWrite = uint64_t{1} << 20;
static_assert(kBlock % kBlockBytes == 0);

class ScratchFile {
 public:
  static Result<ScratchFile> create(const fs::path& folder) {
    ScratchFile scratch;
    scratch.folder_ = folder.native();
    const Descriptor at(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!at) return scratch.cannot("measure", errno);
    scratch.file_ = BlockFile::open(at.get(), ".", O_RDWR | O_TMPFILE, true);
    if (!scratch.file_) {
      const std::string name = fmt::format(".foreload-probe-{}", ::getpid());
      ::unlinkat(at.get(), name.c_str(), 0);  // of a process of this number that was killed
      scratch.file_ = BlockFile::open(at.get(), name.c_str(), O_RDWR | O_CREAT | O_EXCL, true);
      if (!scratch.file_) return scratch.cannot("write to", errno);
      ::unlinkat(at.get(), name.c_str(), 0);
    }
    scratch.memory_ = make_blocks(kLevels.back() * kRoom);
    if (!scratch.memory_)
      return fail(ErrorKind::unreadable, "cannot measure a disk: there is no memory for it");
    return scratch;
  }

  // Writes up to `most` bytes, at least 1 MiB, for as long as `time`, and syncs. Returns the rate.
  Result<double> fill(uint64_t most, Seconds time) {
    const Blocks block = make_blocks(kWrite);
    if (!block) return cannot("write to", ENOMEM);
    // Nothing that a file system could store as less, and no two blocks the same.
    auto* words = reinterpret_cast<uint64_t*>(block.get());
    constexpr uint64_t kWords = kWrite / sizeof *words;
    for (uint64_t i = 0; i < kWords; ++i) words[i] = mix64(i);
    const auto begin = Clock::now();
    do {
      for (uint64_t i = 0; i < kWords; i += kBlockBytes / sizeof *words) words[i] += bytes_ + 1;
      if (const int error = file_->write(bytes_, {block.get(), kWrite}))
        return cannot("write to", error);
      bytes_ += kWrite;
    } while (bytes_ + kWrite <= most && Clock::now() - begin < time);
    if (::fdatasync(file_->get()) != 0) return cannot("write to", errno);
    return static_cast<double>(bytes_) / Seconds(Clock::now() - begin).count();
  }

  // One block of `size` bytes from a random place. REQUIRES: thread < 32; size at most kBlock.
  Result<uint64_t> read(unsigned thread, uint64_t random, uint64_t size) {
    const uint64_t offset = random % ((bytes_ - size) / kBlockBytes + 1) * kBlockBytes;
    const int64_t got = file_->read(offset, {memory_.get() + thread * kRoom, size});
    if (got < 0) return cannot("read from", errno);
    file_->forget(offset, size);
    return static_cast<uint64_t>(got);
  }
  void forget() const { file_->forget(0, bytes_); }
  bool direct() const { return file_->direct(); }

 private:
  // Of each thread; apart from each other by more than they need.
  static constexpr uint64_t kRoom = 128 * 1024;

  tl::unexpected<Error> cannot(std::string_view action, int error) const {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot {} folder {}: {}; a disk is measured in a folder that may be "
                            "written to and has some space left",
                            action, folder_, std::generic_category().message(error)));
  }

  std::string folder_;
  std::shared_ptr<BlockFile> file_;
  Blocks memory_;
  uint64_t bytes_ = 0;
};

Result<double> level_rate(ScratchFile& scratch, unsigned level, Seconds time, uint64_t seed) {
  scratch.forget();
  return blocking_rate(level, time, [&](unsigned thread, uint64_t number) {
    return scratch.read(thread, mix64(seed ^ (number * 64 + thread)), kBlock);
  });
}

// Of one small request at a time.
Result<double> latency_of(ScratchFile& scratch, Seconds time, uint64_t seed) {
  std::vector<double> times;
  const auto end = Clock::now() + time;
  do {
    const auto begin = Clock::now();
    FORELOAD_TRY([[maybe_unused]] const uint64_t got,
                 scratch.read(0, mix64(~seed ^ times.size()), kBlockBytes));
    times.push_back(Seconds(Clock::now() - begin).count());
  } while (Clock::now() < end);
  std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
  return times[times.size() / 2];
}

uint64_t scratch_bytes(const fs::path& folder) {
  struct statvfs room{};
  const uint64_t wanted = uint64_t{256} << 20;
  if (::statvfs(folder.c_str(), &room) != 0) return wanted;
  return std::clamp<uint64_t>(room.f_bavail * room.f_frsize / 4, kWrite, wanted);
}

}  // namespace

Result<DeviceProfile> probe_disk(const fs::path& folder, const ProbeSettings& settings) {
  const std::string whole = whole_path(folder);
  ProbeSteps steps(settings, whole, 2 + kLevels.size());
  DeviceProfile device{.name = "disk " + whole, .kind = DeviceKind::disk, .path = whole};
  FORELOAD_CHECK(steps.begin());
  FORELOAD_TRY(ScratchFile scratch, ScratchFile::create(whole));
  FORELOAD_TRY(device.write_rate, scratch.fill(scratch_bytes(whole), steps.share()));
  FORELOAD_CHECK(steps.begin());
  FORELOAD_TRY(device.latency, latency_of(scratch, steps.share() / 4, settings.seed));
  std::vector<Curve::Point> points;
  for (const unsigned level : kLevels) {
    FORELOAD_CHECK(steps.begin());
    FORELOAD_TRY(const double rate,
                 level_rate(scratch, level, steps.share(), settings.seed + level));
    points.push_back({static_cast<double>(level), rate});
  }
  FORELOAD_TRY(device.curve, Curve::create(std::move(points)));
  device.note =
      scratch.direct() ? "direct I/O" : "through the page cache, which may make it look faster";
  device.measured_at = now_in_utc();
  return device;
}

double quick_disk_rate(const fs::path& folder) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  auto scratch = ScratchFile::create(folder);
  if (!scratch) return 0;
  if (!scratch->fill(4 * kWrite, std::chrono::milliseconds(20))) return 0;
  return level_rate(*scratch, 4, std::chrono::milliseconds(20), 0).value_or(0);
}

}  // namespace foreload
