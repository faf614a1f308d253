// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/folder_files.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

#include "foreload/stores/file_store.h"

namespace foreload {
namespace {

Fault fault_of(int error_number) {
  switch (error_number) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case EINVAL:
      return Fault::permanent;
    default:
      return Fault::transient;  // EIO, ESTALE, ETIMEDOUT, ENOMEM, ...
  }
}

constexpr const char* kNoFile = "it is a named pipe, a socket or a device, not a file";
constexpr const char* kChanged = "it changed since it was listed (size or modification time)";

Outcome too_short(uint64_t bytes, uint64_t expected) {
  return {Fault::permanent, 0, fmt::format("it has {} bytes, {} were expected", bytes, expected)};
}

}  // namespace

std::string_view name_flaw(std::string_view name) {
  if (name.empty()) return "its name is empty";
  if (name.find('\0') != std::string_view::npos) return "its name holds a zero byte";
  if (name.front() == '/') return "its name is not relative to the folder";
  for (size_t start = 0; start <= name.size();) {
    const size_t end = std::min(name.find('/', start), name.size());
    if (name.substr(start, end - start) == "..") return "its name leads out of the folder";
    start = end + 1;
  }
  return "";
}

Result<void> check_name(std::string_view name) {
  const std::string_view flaw = name_flaw(name);
  if (flaw.empty()) return {};
  return fail(ErrorKind::invalid, fmt::format("cannot use the name '{}': {}", name, flaw));
}

void FolderFiles::count(Operation operation, SteadyTime start, int64_t result) const {
  const bool has_bytes = operation == Operation::read && result > 0;
  count_operation(operations, operation, start, has_bytes ? static_cast<uint64_t>(result) : 0,
                  result < 0);
}

Outcome FolderFiles::check_object(uint32_t object) const {
  const auto refuse = [](std::string_view what) {
    return Outcome{Fault::permanent, 0, std::string(what)};
  };
  const std::string_view flaw = name_flaw(objects->name(object));
  if (!flaw.empty()) return refuse(flaw);
  const uint64_t version = objects->version(object);
  if (version == kNotAFile) return refuse(kNoFile);
  if (version == kLinkToNothing) return refuse("it was a link to nothing when it was listed");
  return {};
}

Outcome FolderFiles::check_status(const struct statx& status, const Extent& extent) const {
  if (!S_ISREG(status.stx_mode) && !S_ISDIR(status.stx_mode)) return {Fault::permanent, 0, kNoFile};
  const uint64_t version = objects->version(extent.object);
  if (version != 0 &&
      version != file_version(status.stx_size, status.stx_mtime.tv_sec, status.stx_mtime.tv_nsec)) {
    return {Fault::changed, 0, kChanged};
  }
  if (extent.length > status.stx_size || extent.offset > status.stx_size - extent.length) {
    const uint64_t end = extent.offset + extent.length;
    return too_short(status.stx_size, end < extent.offset ? UINT64_MAX : end);
  }
  return {};
}

bool FolderFiles::close_idle() const {
  const bool folders_closed = folders->give_up();
  return open->close_all() || folders_closed;
}

bool FolderFiles::reads_part(const Extent& extent) const {
  return extent.length < objects->size(extent.object);
}

Outcome FolderFiles::ended_early(const Extent& extent, uint64_t bytes) const {
  if (objects->version(extent.object) != 0) return {Fault::changed, 0, kChanged};
  return too_short(extent.offset + bytes, extent.offset + extent.length);
}

Outcome failed_step(int error_number, std::string_view action) {
  return {fault_of(error_number), error_number,
          fmt::format("{} while {}", std::generic_category().message(error_number), action)};
}

std::vector<iovec> places_from(const SourceRead& read, uint64_t done) {
  std::vector<iovec> places;
  uint64_t left = std::min(read.extent.length - done, kMostPerRequest);
  for (size_t i = 0; i < read.into.size() && left > 0 && places.size() < kMostPlaces; ++i) {
    const Destination& into = read.into[i];
    if (done >= into.length) {
      done -= into.length;
      continue;
    }
    const uint64_t length = std::min(into.length - done, left);
    places.push_back({into.data + done, length});
    left -= length;
    done = 0;
  }
  return places;
}

Descriptor OpenFiles::take(uint32_t object, FileTime& changed) {
  const std::scoped_lock lock(mutex_);
  const auto found = std::find_if(idle_.rbegin(), idle_.rend(),
                                  [object](const Idle& idle) { return idle.object == object; });
  if (found == idle_.rend()) return Descriptor();
  Descriptor file = std::move(found->file);
  changed = found->changed;
  idle_.erase(std::next(found).base());
  return file;
}

Descriptor OpenFiles::keep(uint32_t object, FileTime changed, Descriptor file) {
  const std::scoped_lock lock(mutex_);
  idle_.push_back({object, changed, std::move(file)});
  if (idle_.size() <= kMost) return Descriptor();
  Descriptor oldest = std::move(idle_.front().file);
  idle_.pop_front();
  return oldest;
}

bool OpenFiles::close_all() {
  std::deque<Idle> closing;
  const std::scoped_lock lock(mutex_);
  closing.swap(idle_);
  return !closing.empty();
}

bool is_local(int folder) {
  struct statfs system{};
  if (::fstatfs(folder, &system) != 0) return false;
  switch (system.f_type) {
    case EXT4_SUPER_MAGIC:
    case XFS_SUPER_MAGIC:
    case BTRFS_SUPER_MAGIC:
    case F2FS_SUPER_MAGIC:
    case TMPFS_MAGIC:
      return true;
    default:
      return false;
  }
}

bool out_of_descriptors(int error_number) {
  return error_number == EMFILE || error_number == ENFILE;
}

}  // namespace foreload
