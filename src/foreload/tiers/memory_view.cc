// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_view.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include <fmt/format.h>

#include "foreload/tiers/checked_copy.h"

namespace foreload {
namespace {

using namespace memory_layout;

const char* what_is_wrong(const Header& header, uint64_t file_bytes, uint64_t samples,
                          const Digest& plan) {
  constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
  if (header.magic != kMagic) return "it is not a memory cache";
  if (header.version != kVersion) return "another version of foreload wrote it";
  if (Digest{header.plan_high, header.plan_low} != plan || header.samples != samples)
    return "it was made for another plan";
  if (header.samples > kMost || header.entries > kMost ||
      layout_of(header.samples, header.entries).arena > file_bytes ||
      header.arena_bytes > file_bytes - layout_of(header.samples, header.entries).arena)
    return "it is smaller than its header says";
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<const MemoryView>> MemoryView::map(int memory, uint64_t samples,
                                                          const Digest& plan) {
  struct stat about{};
  void* mapped = MAP_FAILED;
  if (::fstat(memory, &about) == 0 && about.st_size >= static_cast<off_t>(kHeaderBytes))
    mapped = ::mmap(nullptr, static_cast<size_t>(about.st_size), PROT_READ,
                    MAP_SHARED | MAP_NORESERVE, memory, 0);
  if (mapped == MAP_FAILED)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot map another rank's memory cache: {}; its samples are read over "
                            "the network",
                            std::generic_category().message(errno)));
  std::shared_ptr<MemoryView> view(new MemoryView());
  view->memory_ = static_cast<const std::byte*>(mapped);
  view->bytes_ = static_cast<uint64_t>(about.st_size);
  Header header;
  std::memcpy(&header, view->memory_, sizeof header);
  if (const char* wrong = what_is_wrong(header, view->bytes_, samples, plan))
    return fail(ErrorKind::invalid,
                fmt::format("cannot use another rank's memory cache: {}; start all ranks with the "
                            "same version of foreload and the same settings",
                            wrong));
  const Layout layout = layout_of(header.samples, header.entries);
  view->samples_ = header.samples;
  view->entry_count_ = header.entries;
  view->arena_bytes_ = header.arena_bytes;
  view->places_ = reinterpret_cast<const Place*>(view->memory_ + layout.places);
  view->entries_ = reinterpret_cast<const Entry*>(view->memory_ + layout.entries);
  view->arena_ = view->memory_ + layout.arena;
  return view;
}

MemoryView::~MemoryView() {
  ::munmap(const_cast<std::byte*>(memory_), bytes_);
}

Copied MemoryView::get(uint64_t sample, std::span<std::byte> into) const {
  if (sample >= samples_) return Copied::miss;
  const uint32_t place = places_[sample].load(std::memory_order_acquire);
  if (place == 0 || place > entry_count_) return Copied::miss;
  const Entry& entry = entries_[place - 1];
  const uint64_t before = entry.word.load(std::memory_order_acquire);
  if (state_of(before) != kFull) return Copied::miss;
  const uint64_t offset = entry.offset.load(std::memory_order_relaxed);
  const uint64_t checksum = entry.checksum.load(std::memory_order_relaxed);
  if (entry.sample.load(std::memory_order_relaxed) != sample ||
      entry.size.load(std::memory_order_relaxed) != into.size() || offset > arena_bytes_ ||
      into.size() > arena_bytes_ - offset)
    return Copied::miss;
  const uint64_t found = checked_copy(arena_ + offset, into);
  // Whatever of it was written anew, the word was changed before.
  fence(std::memory_order_acquire);
  const uint64_t after = entry.word.load(std::memory_order_relaxed);
  if (without_readers(before) != without_readers(after)) return Copied::miss;
  return found == checksum ? Copied::hit : Copied::corrupt;
}

}  // namespace foreload
