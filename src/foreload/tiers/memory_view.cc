// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_view.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>

namespace foreload {
namespace {

using namespace memory_layout;

const char* what_is_wrong(const Header& header, uint64_t file_bytes) {
  if (header.magic != kMagic) return "it is not a memory cache";
  if (header.version != kVersion) return "another version of foreload wrote it";
  if (header.unit == 0 || !std::has_single_bit(header.buckets) || header.buckets > kMostEntries ||
      header.entries > kMostEntries ||
      layout_of(header.buckets, header.entries).arena > file_bytes ||
      header.arena_bytes > file_bytes - layout_of(header.buckets, header.entries).arena)
    return "it is smaller than its header says";
  return nullptr;
}

}  // namespace

Result<std::shared_ptr<const MemoryView>> MemoryView::map(int memory) {
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
  view->memory_ = static_cast<std::byte*>(mapped);
  view->bytes_ = static_cast<uint64_t>(about.st_size);
  const Header& header = *reinterpret_cast<const Header*>(view->memory_);
  if (const char* wrong = what_is_wrong(header, view->bytes_))
    return fail(ErrorKind::invalid,
                fmt::format("cannot use another rank's memory cache: {}; start all ranks with the "
                            "same version of foreload and the same settings",
                            wrong));
  view->range_ = Range::at(view->memory_, layout_of(header.buckets, header.entries));
  return view;
}

MemoryView::~MemoryView() {
  ::munmap(memory_, bytes_);
}

const Entry* MemoryView::find(const CopyKey& key) const {
  // Chains are short; a longer walk was led astray by the owner's changes.
  constexpr unsigned kMostSteps = 10'000;
  while (true) {
    const uint64_t unlinked = range_.header->unlinked.load(std::memory_order_acquire);
    uint32_t link = range_.bucket_of(key).load(std::memory_order_acquire);
    for (unsigned step = 0; link != 0 && link <= range_.header->entries; ++step) {
      const Entry& entry = range_.entries[link - 1];
      if (key_of(entry) == key) return &entry;
      if (step == kMostSteps) return nullptr;
      link = entry.next.load(std::memory_order_acquire);
    }
    if (range_.header->unlinked.load(std::memory_order_acquire) == unlinked) return nullptr;
  }
}

Copied MemoryView::get(const CopyKey& key, uint64_t size, std::span<std::byte> into) const {
  const Entry* entry = find(key);
  if (entry == nullptr || into.size() != size) return Copied::miss;
  const uint64_t before = entry->word.load(std::memory_order_acquire);
  if (state_of(before) != kFull) return Copied::miss;
  const uint64_t checksum = entry->checksum.load(std::memory_order_relaxed);
  if (key_of(*entry) != key || entry->size.load(std::memory_order_relaxed) != size)
    return Copied::miss;
  Checksum64 found;
  size_t done = 0;
  const bool whole =
      visit_runs(range_, *entry, 0, size, [&](const std::byte* from, uint64_t bytes) {
        checked_copy(from, into.subspan(done, bytes), found);
        done += bytes;
      });
  // Whatever of it was written anew, the word was changed before.
  fence(std::memory_order_acquire);
  const uint64_t after = entry->word.load(std::memory_order_relaxed);
  if (!whole || without_readers(before) != without_readers(after)) return Copied::miss;
  return found.value() == checksum ? Copied::hit : Copied::corrupt;
}

}  // namespace foreload
