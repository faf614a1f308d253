// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_reads.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace foreload::disk_cache {
namespace {

constexpr unsigned kPoolThreads = 8;
// Memory of this many reads, none larger than that, is kept for the next ones.
constexpr size_t kKeptBlocks = 64;
constexpr uint64_t kKeptBytes = uint64_t{1} << 20;

// Copies the payload and checks the copy; false if the record is not the one that was asked for.
bool copy_record(const BlockRead& read, const DiskSettings& settings) {
  const DiskRead& asked = read.asked.read;
  const std::span<const std::byte> record(read.blocks.get() + (read.place.offset - read.start),
                                          sizeof(RecordHeader) + read.place.size);
  const auto header = read_record_header(record, read.place.segment->header.mark);
  if (!header || header->sample != asked.sample || header->version != read.place.version ||
      header->size != asked.size || header->form != settings.form ||
      header->fingerprint_high != settings.fingerprint.high ||
      header->fingerprint_low != settings.fingerprint.low)
    return false;
  const std::span<std::byte> into(asked.into, asked.size);
  if (!into.empty()) std::memcpy(into.data(), record.data() + sizeof(RecordHeader), into.size());
  if (asked.checksum != nullptr) *asked.checksum = header->payload_checksum;
  return checksum64(into) == header->payload_checksum;
}

}  // namespace

// The bytes of a write that was not answered yet are in memory: the disk need not be asked.
bool DiskReads::answer_from_queue(const QueuedRead& asked) {
  const std::optional<DiskWrite> write = core_->writes.find(asked.read.sample);
  if (!write || write->size != asked.read.size) return false;
  if (write->size > 0) std::memcpy(asked.read.into, write->from, write->size);
  if (asked.read.checksum != nullptr) *asked.read.checksum = write->checksum;
  const bool right = checksum64({asked.read.into, asked.read.size}) == write->checksum;
  core_->answers.answer(asked.ticket, right ? DiskAnswer::done : DiskAnswer::corrupt);
  return true;
}

std::unique_ptr<BlockRead> DiskReads::begin(QueuedRead asked) {
  if (answer_from_queue(asked)) return nullptr;
  auto read = std::make_unique<BlockRead>();
  read->asked = std::move(asked);
  const DiskRead& wanted = read->asked.read;
  for (std::optional<RecordPlace> tried;;) {
    const std::optional<RecordPlace> place = core_->index.find(wanted.sample);
    if (!place || place->size != wanted.size) {
      core_->answers.answer(read->asked.ticket, DiskAnswer::miss);
      return nullptr;
    }
    if (tried && tried->same_place(*place)) {
      core_->answers.answer(read->asked.ticket, DiskAnswer::failed);
      return nullptr;
    }
    tried = place;
    read->place = *place;
    // A segment that was given up after we looked: its record has moved, or is gone.
    read->file = core_->files.open(*place->segment);
    if (read->file) break;
  }
  const uint64_t end = read->place.offset + sizeof(RecordHeader) + read->place.size;
  read->start = read->place.offset / kBlockBytes * kBlockBytes;
  read->bytes = round_up(end, kBlockBytes) - read->start;
  read->needed = end - read->start;
  if (!take_blocks(*read)) {
    core_->answers.answer(read->asked.ticket, DiskAnswer::failed);
    return nullptr;
  }
  read->began = std::chrono::steady_clock::now();
  return read;
}

void DiskReads::finish(std::unique_ptr<BlockRead> read, int error) {
  core_->count(Operation::read, read->began, read->done, error != 0);
  DiskAnswer answer = DiskAnswer::done;
  if (error != 0) {
    answer = DiskAnswer::failed;
  } else if (read->done < read->needed || !copy_record(*read, core_->settings)) {
    core_->index.drop_at(read->asked.read.sample, read->place);
    answer = DiskAnswer::corrupt;
  }
  read->file->forget(read->start, read->bytes);
  give_blocks(*read);
  const uint64_t ticket = read->asked.ticket;
  read.reset();
  core_->answers.answer(ticket, answer);
}

void DiskReads::serve_queue() {
  while (std::optional<QueuedRead> asked = core_->reads.pop()) {
    std::unique_ptr<BlockRead> read = begin(std::move(*asked));
    if (!read) continue;
    const int64_t n = read->file->read(read->start, {read->blocks.get(), read->bytes});
    const int error = n < 0 ? errno : 0;
    read->done = n < 0 ? 0 : static_cast<uint64_t>(n);
    finish(std::move(read), error);
  }
  abandon_queue();
}

void DiskReads::abandon_queue() {
  for (const QueuedRead& left : core_->reads.drain()) {
    core_->answers.answer(left.ticket, DiskAnswer::failed);
  }
}

bool DiskReads::take_blocks(BlockRead& read) {
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = free_.size(); i-- > 0;) {
      if (free_[i].first < read.bytes) continue;
      std::swap(free_[i], free_.back());
      std::tie(read.capacity, read.blocks) = std::move(free_.back());
      free_.pop_back();
      return true;
    }
  }
  read.capacity = read.bytes <= kKeptBytes ? std::bit_ceil(read.bytes) : read.bytes;
  read.blocks = make_blocks(read.capacity);
  return read.blocks != nullptr;
}

void DiskReads::give_blocks(BlockRead& read) {
  if (read.capacity > kKeptBytes) return;
  const std::lock_guard lock(mutex_);
  if (free_.size() < kKeptBlocks) free_.emplace_back(read.capacity, std::move(read.blocks));
}

std::vector<DiskThread> start_pool(const std::shared_ptr<DiskReads>& reads) {
  std::vector<DiskThread> threads;
  for (unsigned i = 0; i < kPoolThreads; ++i) {
    try {
      threads.emplace_back([reads] { reads->serve_queue(); });
    } catch (const std::system_error&) {
      break;  // fewer will do
    }
  }
  return threads;
}

}  // namespace foreload::disk_cache
