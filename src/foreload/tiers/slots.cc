// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/slots.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "foreload/base/files.h"
#include "foreload/tiers/segment_format.h"

namespace foreload::disk_cache {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLockText = "foreload disk cache, format 2\n";
// What it holds is deleted when the slot is taken, not read.
constexpr std::string_view kOutdatedText = "foreload disk cache, format 1\n";
constexpr uint32_t kMostSlots = 1 << 16;

tl::unexpected<Error> cannot_use(const fs::path& path, int error) {
  return fail(ErrorKind::unreadable,
              fmt::format("cannot use disk cache folder {}: {}; check the path and its "
                          "permissions, or choose another folder",
                          path.native(), system_message(error)));
}

std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<std::vector<std::string>> names_in(const fs::path& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator i(path, error), end; !error && i != end; i.increment(error)) {
    names.push_back(i->path().filename().native());
  }
  if (error) return cannot_use(path, error.value());
  return names;
}

// Whether the path still leads to the file that is open, and not to another one made since.
bool same_file(int fd, int folder, const char* name) {
  struct stat opened{};
  struct stat named{};
  return ::fstat(fd, &opened) == 0 && ::fstatat(folder, name, &named, 0) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

std::optional<std::string> lock_text(int lock) {
  std::array<char, 512> text{};
  const ssize_t n = ::pread(lock, text.data(), text.size(), 0);
  if (n < 0) return std::nullopt;
  return std::string(text.data(), static_cast<size_t>(n));
}

// Whoever holds a slot wrote behind the first line: host, process, and bytes it will come to. One
// process may hold several.
void add_holder(const fs::path& slot, int lock, std::vector<DiskNeighbour>& others) {
  DiskNeighbour found;
  std::string text = lock_text(lock).value_or("");
  std::istringstream line(text.erase(0, kLockText.size()));
  std::string process;
  std::string reserved;
  line >> found.host >> process >> reserved;
  found.process = whole_number(process).value_or(0);
  found.reserved = whole_number(reserved).value_or(0);
  std::error_code error;
  for (fs::directory_iterator i(slot, error), end; !error && i != end; i.increment(error)) {
    struct stat status{};
    if (::stat(i->path().c_str(), &status) == 0)
      found.held += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  const auto known = std::find_if(others.begin(), others.end(), [&](const DiskNeighbour& other) {
    return other.host == found.host && other.process == found.process;
  });
  if (known == others.end()) return others.push_back(std::move(found));
  known->held += found.held;
  known->reserved += found.reserved;
}

Result<void> write_holder(const Slot& slot, uint64_t reserve) {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string text = fmt::format("{}{} {} {}\n", kLockText, host.data(), ::getpid(), reserve);
  if (::pwrite(slot.lock.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ::ftruncate(slot.lock.get(), static_cast<off_t>(text.size())) != 0)
    return cannot_use(slot.path / "lock", errno);
  return {};
}

bool foreign(const Slot& slot, const SlotFiles& files) {
  const auto text = lock_text(slot.lock.get());
  // A process that ended at once may have written less than all of it.
  if (!text || (!text->starts_with(kLockText) && !text->starts_with(kOutdatedText) &&
                !kLockText.starts_with(*text)))
    return true;
  for (const uint64_t number : files.segments) {
    const Descriptor file(
        ::openat(slot.folder.get(), segment_name(number).c_str(), O_RDONLY | O_CLOEXEC));
    std::array<std::byte, sizeof(SegmentHeader)> bytes;
    const ssize_t got = file ? ::pread(file.get(), bytes.data(), bytes.size(), 0) : -1;
    if (got < 0) continue;  // unreadable, which opening it will say again
    SegmentHeader header;
    if (kind_of_segment(std::span(bytes).first(static_cast<size_t>(got)), header) ==
        SegmentKind::foreign)
      return true;
  }
  return false;
}

// Nothing if the slot is somebody else's, who is a neighbour then, or not to be touched.
Result<std::optional<Slot>> take_slot(const fs::path& path, uint32_t number, uint64_t reserve,
                                      std::vector<DiskNeighbour>& others) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return cannot_use(path, errno);
  Slot slot{number, path, {}, {}};
  slot.folder = Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!slot.folder) return cannot_use(path, errno);
  slot.lock = Descriptor(::openat(slot.folder.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!slot.lock) return cannot_use(path / "lock", errno);
  if (::flock(slot.lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return cannot_use(path / "lock", errno);
    add_holder(path, slot.lock.get(), others);
    return std::nullopt;
  }
  if (!same_file(slot.lock.get(), slot.folder.get(), "lock")) return std::nullopt;
  FORELOAD_TRY(const SlotFiles files, list_slot(slot));
  if (foreign(slot, files)) return std::nullopt;
  FORELOAD_CHECK(write_holder(slot, reserve));
  return slot;
}

}  // namespace

Result<TakenSlots> take_slots(const fs::path& folder, uint32_t member, uint32_t members,
                              uint64_t reserve) {
  const fs::path root = folder / "foreload-1";
  std::error_code error;
  fs::create_directories(root, error);
  if (error) return cannot_use(root, error.value());
  FORELOAD_TRY(const std::vector<std::string> names, names_in(root));
  std::set<uint32_t> left;
  for (const std::string& name : names) {
    const auto number = whole_number(name);
    if (number && *number < kMostSlots && *number % members == member && name[0] != '+' &&
        std::to_string(*number) == name)
      left.insert(static_cast<uint32_t>(*number));
  }
  TakenSlots taken;
  std::vector<Slot>& slots = taken.own;
  for (uint32_t number = member; slots.empty() && number < kMostSlots; number += members) {
    FORELOAD_TRY(std::optional<Slot> slot,
                 take_slot(root / std::to_string(number), number, reserve, taken.others));
    left.erase(number);
    if (slot) slots.push_back(std::move(*slot));
  }
  if (slots.empty()) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot use disk cache folder {}: all of its sub-folders are in use "
                            "by other processes or hold files of others; choose another folder",
                            folder.native()));
  }
  for (const uint32_t number : left) {
    // What cannot be read is not worth failing for: it is only left over.
    // What it will come to was written down for the first one.
    auto slot = take_slot(root / std::to_string(number), number, 0, taken.others);
    if (slot && *slot) slots.push_back(std::move(**slot));
  }
  return taken;
}

std::string segment_name(uint64_t number) {
  return fmt::format("{:08}.segment", number);
}

std::string sidecar_name(uint64_t number) {
  return fmt::format("{:08}.index", number);
}

Result<SlotFiles> list_slot(const Slot& slot) {
  FORELOAD_TRY(const std::vector<std::string> names, names_in(slot.path));
  SlotFiles files;
  for (const std::string& name : names) {
    const size_t dot = name.find('.');
    const auto number = whole_number(std::string_view(name).substr(0, dot));
    if (!number) continue;
    if (name == segment_name(*number)) files.segments.push_back(*number);
    if (name == sidecar_name(*number)) files.sidecars.push_back(*number);
    if (name == sidecar_name(*number) + ".tmp") files.unfinished.push_back(name);
  }
  std::sort(files.segments.begin(), files.segments.end());
  std::sort(files.sidecars.begin(), files.sidecars.end());
  return files;
}

}  // namespace foreload::disk_cache
