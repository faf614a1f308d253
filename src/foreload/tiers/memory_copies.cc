// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_copies.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/tiers/memory_limit.h"

namespace foreload {
namespace {

using namespace memory_layout;

// Below this an arena fits a few huge pages at most, and half of the last one would be wasted.
constexpr uint64_t kHugePagesFrom = uint64_t{64} << 20;
// Of which a range is checked without reading the others.
constexpr uint64_t kBlock = 64 << 10;
// Entries cost nothing before they are used, so there are enough for copies as small as this.
constexpr uint64_t kSmallestMean = 512;
constexpr uint64_t kMostCopies = UINT32_MAX / 2;

Result<void> check_budget(uint64_t budget) {
  const MemoryLimit limit = memory_limit();
  if (budget <= limit.bytes) return {};
  return fail(ErrorKind::invalid,
              fmt::format("cannot use a memory budget of {}: {} is {}; lower the memory budget, or "
                          "give the job more memory",
                          format_bytes(budget), limit.who, format_bytes(limit.bytes)));
}

tl::unexpected<Error> refused(uint64_t budget, int error) {
  return fail(ErrorKind::invalid,
              fmt::format("cannot get a memory budget of {} from the system: {}; lower the memory "
                          "budget",
                          format_bytes(budget), std::generic_category().message(error)));
}

}  // namespace

MemoryCopies::MemoryCopies(const Settings& settings) : settings_(settings) {
  const uint64_t of_mean_size = settings.budget / std::max<uint64_t>(settings.mean_size, 1) + 1;
  copies_ = std::min(std::max(settings.copies, of_mean_size), kMostCopies);
  while (settings.budget / unit_ + copies_ >= UINT32_MAX) unit_ *= 2;
  entry_count_ = std::min(std::max(settings.budget / kSmallestMean, copies_) + 1024, kMostEntries);
}

Result<std::shared_ptr<MemoryCopies>> MemoryCopies::create(const Settings& settings) {
  FORELOAD_CHECK(check_budget(settings.budget));
  std::shared_ptr<MemoryCopies> copies(new MemoryCopies(settings));
  FORELOAD_CHECK(copies->map());
  return copies;
}

Result<void> MemoryCopies::map() {
  const uint64_t budget = settings_.budget;
  const uint64_t mean = std::max<uint64_t>(settings_.mean_size, 1);
  const uint64_t buckets = std::bit_ceil(std::clamp<uint64_t>(budget / mean, 1024, 1u << 31));
  const Layout layout = layout_of(buckets, entry_count_);
  // Each copy may have one byte in its last unit.
  const uint64_t arena = (budget + copies_ * (unit_ - 1)) / unit_ * unit_;
  const uint64_t bytes = layout.arena + arena;
  if (settings_.shared) {
    memory_fd_ = Descriptor(::memfd_create("foreload-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!memory_fd_ || ::ftruncate(memory_fd_.get(), static_cast<off_t>(bytes)) != 0)
      return refused(budget, errno);
  }
  const int kind = settings_.shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_NORESERVE, memory_fd_.get(), 0);
  if (memory == MAP_FAILED) return refused(budget, errno);
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  // Fewer page faults and TLB misses; a system without huge pages says no, which is fine.
  if (budget >= kHugePagesFrom) ::madvise(memory_ + layout.arena, arena, MADV_HUGEPAGE);
  range_ = Range::at(memory_, layout);
  Header& header = *range_.header;
  header.magic = kMagic;
  header.version = kVersion;
  header.unit = static_cast<uint32_t>(unit_);
  header.buckets = buckets;
  header.entries = entry_count_;
  header.arena_bytes = arena;
  room_.emplace(range_.arena, unit_, static_cast<uint32_t>(arena / unit_));
  return {};
}

MemoryCopies::~MemoryCopies() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

// Copying out.

void MemoryCopies::expect(std::span<const Get> gets) const {
  for (const Get& get : gets) __builtin_prefetch(&range_.bucket_of(get.key));
  for (const Get& get : gets) {
    const uint32_t link = range_.bucket_of(get.key).load(std::memory_order_acquire);
    if (link != 0) __builtin_prefetch(&range_.entries[link - 1]);
  }
}

MemoryCopies::Entry* MemoryCopies::begin_reading(const CopyKey& key) const {
  while (true) {
    const uint64_t unlinked = range_.header->unlinked.load(std::memory_order_acquire);
    uint32_t link = range_.bucket_of(key).load(std::memory_order_acquire);
    while (link != 0) {
      Entry& entry = range_.entries[link - 1];
      link = entry.next.load(std::memory_order_acquire);
      if (key_of(entry) != key) continue;
      uint64_t word = entry.word.load(std::memory_order_relaxed);
      while (state_of(word) == kFull &&
             !entry.word.compare_exchange_weak(word, word + kReader, std::memory_order_acquire,
                                               std::memory_order_relaxed)) {
      }
      if (state_of(word) != kFull) continue;
      // From here on it cannot become another copy; it may have before.
      if (key_of(entry) == key) return &entry;
      const_cast<MemoryCopies*>(this)->end_reading(entry);
      break;
    }
    // Somebody may have led this search into another chain.
    if (range_.header->unlinked.load(std::memory_order_acquire) == unlinked) return nullptr;
  }
}

void MemoryCopies::end_reading(Entry& entry) {
  uint64_t word = entry.word.load(std::memory_order_relaxed);
  uint64_t left = 0;
  do {
    left = word - kReader;
    if (left == without_readers(left) && state_of(left) == kDropped)
      left = left - kDropped + kEmpty;
  } while (!entry.word.compare_exchange_weak(word, left, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  if (state_of(left) != kEmpty) return;
  const std::scoped_lock lock(mutex_);
  release(entry);
}

Copied MemoryCopies::get(const CopyKey& key, uint64_t size, uint64_t offset,
                         std::span<std::byte> into, uint64_t& checksum) {
  Entry* entry = begin_reading(key);
  if (entry == nullptr) return Copied::miss;
  Copied copied = Copied::miss;
  const uint64_t has = entry->size.load(std::memory_order_relaxed);
  if (has == size && offset <= size && into.size() <= size - offset) {
    if (into.size() == size) {
      copied = copy_whole(*entry, into, checksum);
    } else {
      copied = copy_range(*entry, offset, into);
      checksum = checksum64(into);
    }
  }
  if (copied == Copied::corrupt) {
    const std::scoped_lock lock(mutex_);
    // Unless somebody dropped it meanwhile.
    if (state_of(entry->word.load(std::memory_order_relaxed)) == kFull) remove(*entry);
  }
  end_reading(*entry);
  return copied;
}

Copied MemoryCopies::copy_whole(const Entry& entry, std::span<std::byte> into,
                                uint64_t& checksum) const {
  if (entry.more.load(std::memory_order_relaxed) == 0) {
    const Run run = unpacked(entry.run.load(std::memory_order_relaxed));
    checksum = checked_copy(range_.arena + run.first * unit_, into);
  } else {
    Checksum64 sum;
    size_t done = 0;
    visit_runs(range_, entry, 0, into.size(), [&](const std::byte* from, uint64_t bytes) {
      checked_copy(from, into.subspan(done, bytes), sum);
      done += bytes;
    });
    checksum = sum.value();
  }
  const bool right = checksum == entry.checksum.load(std::memory_order_relaxed);
  return right ? Copied::hit : Copied::corrupt;
}

Copied MemoryCopies::copy_range(const Entry& entry, uint64_t offset, std::span<std::byte> into) {
  if (into.empty()) return Copied::hit;
  const Blocks blocks = blocks_of(entry);
  if (!blocks) return Copied::corrupt;
  const uint64_t size = entry.size.load(std::memory_order_relaxed);
  std::vector<std::byte> block;
  const uint64_t end = offset + into.size();
  for (uint64_t number = offset / kBlock; number * kBlock < end; ++number) {
    const uint64_t first = number * kBlock;
    const uint64_t last = std::min(size, first + kBlock);
    const uint64_t from = std::max(first, offset);
    const uint64_t to = std::min(last, end);
    const bool in_place = from == first && to == last;
    if (!in_place) block.resize(last - first);
    const std::span<std::byte> place =
        in_place ? into.subspan(first - offset, last - first) : std::span(block);
    size_t done = 0;
    visit_runs(range_, entry, first, place.size(), [&](const std::byte* at, uint64_t bytes) {
      std::memcpy(place.data() + done, at, bytes);
      done += bytes;
    });
    if (checksum64(place) != (*blocks)[number]) return Copied::corrupt;
    if (!in_place)
      std::memcpy(into.data() + (from - offset), block.data() + (from - first), to - from);
  }
  return Copied::hit;
}

MemoryCopies::Blocks MemoryCopies::blocks_of(const Entry& entry) {
  const uint64_t size = entry.size.load(std::memory_order_relaxed);
  const uint64_t right = entry.checksum.load(std::memory_order_relaxed);
  if (size <= kBlock) return std::make_shared<const std::vector<uint64_t>>(1, right);
  {
    const std::scoped_lock lock(mutex_);
    if (sides_[number_of(entry)].blocks) return sides_[number_of(entry)].blocks;
  }
  std::vector<uint64_t> sums;
  std::vector<std::byte> block(kBlock);
  Checksum64 whole;
  for (uint64_t first = 0; first < size; first += kBlock) {
    const auto place = std::span(block).first(std::min(kBlock, size - first));
    size_t done = 0;
    visit_runs(range_, entry, first, place.size(), [&](const std::byte* at, uint64_t bytes) {
      checked_copy(at, place.subspan(done, bytes), whole);
      done += bytes;
    });
    sums.push_back(checksum64(place));
  }
  if (whole.value() != right) return nullptr;
  auto blocks = std::make_shared<const std::vector<uint64_t>>(std::move(sums));
  const std::scoped_lock lock(mutex_);
  sides_[number_of(entry)].blocks = blocks;
  return blocks;
}

bool MemoryCopies::holds(const CopyKey& key) const {
  Entry* entry = begin_reading(key);
  if (entry != nullptr) const_cast<MemoryCopies*>(this)->end_reading(*entry);
  return entry != nullptr;
}

// Copying in.

bool MemoryCopies::put(const CopyKey& key, std::span<const std::byte> bytes,
                       std::optional<uint64_t> checksum, Who who) {
  if (want_also(who, key)) return false;
  Entry* entry = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    entry = begin_filling(key, bytes.size());
    if (entry == nullptr) return false;
    sides_[number_of(*entry)].wanted = want_all_ | who;
  }
  Checksum64 found;
  visit_runs(range_, *entry, 0, bytes.size(), [&](const std::byte* at, uint64_t count) {
    std::byte* const into = const_cast<std::byte*>(at);
    if (checksum)
      std::memcpy(into, bytes.data(), count);
    else
      checked_copy(bytes.data(), {into, count}, found);
    bytes = bytes.subspan(count);
  });
  entry->checksum.store(checksum ? *checksum : found.value(), std::memory_order_relaxed);
  const uint64_t size = entry->size.load(std::memory_order_relaxed);
  payload_.fetch_add(size, std::memory_order_relaxed);
  uint64_t word = entry->word.load(std::memory_order_relaxed);
  if (state_of(word) == kFilling &&
      entry->word.compare_exchange_strong(word, word - kFilling + kFull, std::memory_order_release,
                                          std::memory_order_relaxed))
    return true;
  // It was dropped meanwhile.
  payload_.fetch_sub(size, std::memory_order_relaxed);
  const std::scoped_lock lock(mutex_);
  entry->word.store(word - kDropped + kEmpty, std::memory_order_relaxed);
  release(*entry);
  return true;
}

MemoryCopies::Entry* MemoryCopies::begin_filling(const CopyKey& key, uint64_t size) {
  if (size > settings_.budget || find(key) != nullptr || !make_room(size)) return nullptr;
  // Each run but the first needs a place of its own in the table.
  runs_.clear();
  if (!room_->take(units_of(size), runs_)) return nullptr;
  const size_t more = runs_.empty() ? 0 : runs_.size() - 1;
  if ((free_entries_.empty() && sides_.size() == entry_count_) ||
      free_more_.size() + (entry_count_ - more_used_) < more) {
    for (const Run run : runs_) room_->give_back(run);
    return nullptr;
  }
  Entry& entry = range_.entries[new_entry()];
  // Acquire pairs with the release of readers that have left: their loads come before our stores.
  const uint64_t word = entry.word.load(std::memory_order_acquire);
  entry.word.store(word + kGeneration - kEmpty + kFilling, std::memory_order_relaxed);
  // Whoever maps this memory and sees anything of the new copy sees the new word too.
  fence(std::memory_order_release);
  entry.content_high.store(key.content.high, std::memory_order_relaxed);
  entry.content_low.store(key.content.low, std::memory_order_relaxed);
  entry.form.store(key.form, std::memory_order_relaxed);
  entry.size.store(size, std::memory_order_relaxed);
  taken_ += size;
  set_runs(entry);
  link(entry, key);
  return &entry;
}

bool MemoryCopies::make_room(uint64_t size) {
  while (taken_ + size > settings_.budget || room_->free_units() < units_of(size)) {
    if (unwanted_.empty()) return false;
    const Unwanted first = unwanted_.front();
    unwanted_.pop_front();
    Entry& entry = range_.entries[first.number];
    const uint64_t word = entry.word.load(std::memory_order_relaxed);
    const Side& side = sides_[first.number];
    if (generation_of(word) != first.generation || state_of(word) != kFull || side.wanted != 0 ||
        side.pins > 0)
      continue;
    remove(entry);
    reclaimed_.fetch_add(1, std::memory_order_relaxed);
  }
  return true;
}

uint32_t MemoryCopies::new_entry() {
  if (free_entries_.empty()) {
    sides_.emplace_back();
    return static_cast<uint32_t>(sides_.size() - 1);
  }
  const uint32_t number = free_entries_.back();
  free_entries_.pop_back();
  sides_[number] = {};
  return number;
}

void MemoryCopies::set_runs(Entry& entry) {
  entry.run.store(runs_.empty() ? 0 : packed(runs_.front()), std::memory_order_relaxed);
  Link* link = &entry.more;
  for (size_t i = 1; i < runs_.size(); ++i) {
    uint32_t number = more_used_;
    if (free_more_.empty()) {
      ++more_used_;
    } else {
      number = free_more_.back();
      free_more_.pop_back();
    }
    range_.more[number].run.store(packed(runs_[i]), std::memory_order_relaxed);
    link->store(number + 1, std::memory_order_relaxed);
    link = &range_.more[number].next;
  }
  link->store(0, std::memory_order_relaxed);
}

void MemoryCopies::link(Entry& entry, const CopyKey& key) {
  Link& bucket = range_.bucket_of(key);
  entry.next.store(bucket.load(std::memory_order_relaxed), std::memory_order_release);
  bucket.store(number_of(entry) + 1, std::memory_order_release);
}

void MemoryCopies::unlink(Entry& entry) {
  Link* link = &range_.bucket_of(key_of(entry));
  while (link->load(std::memory_order_relaxed) != number_of(entry) + 1)
    link = &range_.entries[link->load(std::memory_order_relaxed) - 1].next;
  link->store(entry.next.load(std::memory_order_relaxed), std::memory_order_release);
  range_.header->unlinked.fetch_add(1, std::memory_order_release);
}

MemoryCopies::Entry* MemoryCopies::find(const CopyKey& key) const {
  uint32_t link = range_.bucket_of(key).load(std::memory_order_relaxed);
  while (link != 0 && key_of(range_.entries[link - 1]) != key)
    link = range_.entries[link - 1].next.load(std::memory_order_relaxed);
  return link == 0 ? nullptr : &range_.entries[link - 1];
}

// Leaving.

void MemoryCopies::drop(const CopyKey& key) {
  const std::scoped_lock lock(mutex_);
  Entry* entry = find(key);
  if (entry == nullptr) return;
  Side& side = sides_[number_of(*entry)];
  if (side.pins > 0) {
    side.doomed = true;
  } else {
    remove(*entry);
  }
}

void MemoryCopies::remove(Entry& entry) {
  unlink(entry);
  const uint64_t size = entry.size.load(std::memory_order_relaxed);
  uint64_t word = entry.word.load(std::memory_order_relaxed);
  uint64_t gone = 0;
  do {
    const bool used = state_of(word) == kFilling || word != without_readers(word);
    gone = word - state_of(word) + (used ? kDropped : kEmpty);
  } while (!entry.word.compare_exchange_weak(word, gone, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  if (state_of(word) == kFull) payload_.fetch_sub(size, std::memory_order_relaxed);
  if (state_of(gone) == kEmpty) release(entry);
}

void MemoryCopies::release(Entry& entry) {
  // What is free is written to. Whoever maps this memory and sees that sees the new word too.
  fence(std::memory_order_release);
  taken_ -= entry.size.load(std::memory_order_relaxed);
  if (const Run run = unpacked(entry.run.load(std::memory_order_relaxed)); run.count > 0)
    room_->give_back(run);
  uint32_t more = entry.more.load(std::memory_order_relaxed);
  while (more != 0) {
    const MoreRun& next = range_.more[more - 1];
    room_->give_back(unpacked(next.run.load(std::memory_order_relaxed)));
    free_more_.push_back(more - 1);
    more = next.next.load(std::memory_order_relaxed);
  }
  sides_[number_of(entry)].blocks.reset();
  free_entries_.push_back(number_of(entry));
}

std::shared_ptr<const void> MemoryCopies::pin(const CopyKey& key) {
  const std::scoped_lock lock(mutex_);
  Entry* entry = find(key);
  if (entry == nullptr) return nullptr;
  const uint64_t word = entry->word.load(std::memory_order_relaxed);
  if (state_of(word) != kFull) return nullptr;
  const uint32_t number = number_of(*entry);
  ++sides_[number].pins;
  const auto unpin_it = [copies = shared_from_this(), number, generation = generation_of(word)](
                            const void*) { copies->unpin(number, generation); };
  return {entry, unpin_it};
}

void MemoryCopies::unpin(uint32_t number, uint64_t generation) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = range_.entries[number];
  const uint64_t word = entry.word.load(std::memory_order_relaxed);
  // A corrupt copy goes in spite of its pins.
  if (generation_of(word) != generation || state_of(word) != kFull) return;
  Side& side = sides_[number];
  if (--side.pins > 0) return;
  if (side.doomed)
    remove(entry);
  else if (side.wanted == 0)
    unwanted_.push_back({number, generation});
}

std::vector<FoundCopy> MemoryCopies::found() const {
  const std::scoped_lock lock(mutex_);
  std::vector<FoundCopy> copies;
  for (uint32_t number = 0; number < sides_.size(); ++number) {
    const Entry& entry = range_.entries[number];
    if (state_of(entry.word.load(std::memory_order_acquire)) == kFull)
      copies.push_back({key_of(entry), entry.size.load(std::memory_order_relaxed)});
  }
  return copies;
}

void MemoryCopies::want_all(Who who) {
  const std::scoped_lock lock(mutex_);
  want_all_ |= who;
  for (Side& side : sides_) side.wanted |= who;
}

bool MemoryCopies::want_also(Who who, const CopyKey& key) {
  const std::scoped_lock lock(mutex_);
  const Entry* entry = find(key);
  if (entry != nullptr) sides_[number_of(*entry)].wanted |= who;
  return entry != nullptr;
}

void MemoryCopies::want(Who who, const Tier::Wanted& wanted) {
  const std::scoped_lock lock(mutex_);
  want_all_ &= ~who;
  unwanted_.clear();
  for (uint32_t number = 0; number < sides_.size(); ++number) {
    const Entry& entry = range_.entries[number];
    const uint64_t word = entry.word.load(std::memory_order_relaxed);
    const bool full = state_of(word) == kFull;
    Side& side = sides_[number];
    if (!wanted || (full && !wanted(key_of(entry))))
      side.wanted &= ~who;
    else if (full)
      side.wanted |= who;
    if (full && side.wanted == 0) unwanted_.push_back({number, generation_of(word)});
  }
}

uint64_t MemoryCopies::capacity(uint64_t mean_size) const {
  if (mean_size == 0) return 0;
  if (settings_.budget / mean_size <= copies_) return settings_.budget;
  const uint64_t most =
      std::min(range_.header->arena_bytes / (mean_size + unit_ - 1), entry_count_);
  return std::min(most * mean_size, settings_.budget);
}

uint64_t MemoryCopies::overhead() const {
  const std::scoped_lock lock(mutex_);
  return sizeof *this + kHeaderBytes + range_.header->buckets * sizeof(Link) +
         sides_.size() * (sizeof(Entry) + sizeof(Side)) + more_used_ * sizeof(MoreRun) +
         room_->overhead();
}

std::byte& MemoryCopies::poke(const CopyKey& key, uint64_t offset) {
  const std::scoped_lock lock(mutex_);
  const std::byte* at = nullptr;
  visit_runs(range_, *find(key), offset, 1, [&](const std::byte* byte, uint64_t) { at = byte; });
  return *const_cast<std::byte*>(at);
}

size_t MemoryCopies::runs(const CopyKey& key) const {
  const std::scoped_lock lock(mutex_);
  const Entry& entry = *find(key);
  size_t count = 0;
  visit_runs(range_, entry, 0, entry.size, [&](const std::byte*, uint64_t) { ++count; });
  return count;
}

}  // namespace foreload
