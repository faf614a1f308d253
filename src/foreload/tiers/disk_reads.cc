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

// Pieces [first, last] hold the range.
struct Pieces {
  uint64_t first;
  uint64_t last;
};
Pieces pieces_for(const Get& get) {
  const uint64_t first = std::min(get.offset / kPieceBytes, pieces_of(get.size) - 1);
  const uint64_t end = get.offset + get.into.size();
  return {first, end == 0 ? 0 : std::max(first, (end - 1) / kPieceBytes)};
}

// Copies what is asked for and checks every piece of it; false if one is not what was put.
bool copy_pieces(const BlockRead& read) {
  const Get& get = read.asked.get;
  const RecordEntry& record = read.place.record;
  const Pieces pieces = pieces_for(get);
  const uint64_t payload = record.offset + sizeof(RecordHeader);
  if (pieces.first == 0) {
    const std::span<const std::byte> bytes(read.blocks.get() + (record.offset - read.start),
                                           sizeof(RecordHeader));
    const auto header = read_record_header(bytes, read.place.segment->header.mark);
    if (!header || header->key != record.key || header->size != record.size ||
        header->payload_checksum != record.payload_checksum)
      return false;
  }
  for (uint64_t number = pieces.first; number <= pieces.last; ++number) {
    const uint64_t stored = payload + piece_offset(record.size, number) - read.start;
    const Piece piece = read_piece(read.blocks.get() + stored, record, number);
    const uint64_t begin = number * kPieceBytes;
    const uint64_t from = std::max(begin, get.offset);
    const uint64_t to = std::min(begin + piece.bytes.size(), get.offset + get.into.size());
    const auto copy = get.into.subspan(from - get.offset, to - from);
    if (!copy.empty()) std::memcpy(copy.data(), piece.bytes.data() + (from - begin), copy.size());
    // What is checked is the copy, where there is one of all of it.
    const bool whole = copy.size() == piece.bytes.size();
    if (checksum64(whole ? std::span<const std::byte>(copy) : piece.bytes) != piece.checksum)
      return false;
  }
  return true;
}

bool whole(const Get& get) {
  return get.into.size() == get.size;
}

}  // namespace

// The bytes of a put that was not answered yet are in memory: the disk need not be asked.
std::optional<Ended> DiskReads::get_from_queue(const QueuedGet& asked) {
  const Get& get = asked.get;
  const std::optional<Put> put = core_->puts.find(get.key);
  if (!put || put->from.size() != get.size) return std::nullopt;
  const auto from = put->from.subspan(get.offset, get.into.size());
  if (!from.empty()) std::memcpy(get.into.data(), from.data(), from.size());
  const uint64_t checksum = checksum64(get.into);
  if (whole(get) && put->checksum && checksum != *put->checksum)
    return Ended{asked.ticket, TierEnd::corrupt};
  return Ended{asked.ticket, TierEnd::done, checksum};
}

std::unique_ptr<BlockRead> DiskReads::begin(QueuedGet asked, std::vector<Ended>& ended) {
  const uint64_t ticket = asked.ticket;
  const auto end = [&](TierEnd how) {
    ended.push_back({ticket, how});
    return nullptr;
  };
  if (!core_->answers.begin(ticket)) return end(TierEnd::cancelled);
  auto read = std::make_unique<BlockRead>();
  read->asked = std::move(asked);
  const Get& get = read->asked.get;
  if (get.offset > get.size || get.into.size() > get.size - get.offset) return end(TierEnd::miss);
  for (std::optional<RecordPlace> tried;;) {
    if (const auto got = get_from_queue(read->asked)) {
      ended.push_back(*got);
      return nullptr;
    }
    std::optional<RecordPlace> place = core_->index.find(get.key);
    if (!place || place->record.size != get.size) return end(TierEnd::miss);
    if (tried && tried->same_place(*place)) return end(TierEnd::failed);
    read->place = *place;
    tried = std::move(place);
    // A segment that was given up after we looked: its record has moved, or is gone.
    read->file = core_->files.open(*read->place.segment);
    if (read->file) break;
  }
  const RecordEntry& record = read->place.record;
  const Pieces pieces = pieces_for(get);
  const uint64_t payload = record.offset + sizeof(RecordHeader);
  const uint64_t from =
      pieces.first == 0 ? record.offset : payload + piece_offset(record.size, pieces.first);
  const uint64_t to = payload + piece_offset(record.size, pieces.last + 1);
  read->start = from / kBlockBytes * kBlockBytes;
  read->bytes = round_up(to, kBlockBytes) - read->start;
  read->needed = to - read->start;
  if (!take_blocks(*read)) return end(TierEnd::failed);
  read->began = std::chrono::steady_clock::now();
  return read;
}

Ended DiskReads::finish(std::unique_ptr<BlockRead> read, int error) {
  count_operation(core_->settings.operations, Operation::read, read->began, read->done, error != 0);
  core_->read_bytes += read->done;
  const Get& get = read->asked.get;
  Ended ended{read->asked.ticket, TierEnd::done};
  if (error != 0) {
    ended.end = TierEnd::failed;
  } else if (read->done < read->needed || !copy_pieces(*read)) {
    core_->index.drop_at(read->place);
    ++core_->corrupt;
    ended.end = TierEnd::corrupt;
  } else {
    ended.checksum = whole(get) ? read->place.record.payload_checksum : checksum64(get.into);
  }
  read->file->forget(read->start, read->bytes);
  give_blocks(*read);
  return ended;
}

void DiskReads::serve_queue() {
  std::vector<Ended> ended;
  while (std::optional<QueuedGet> asked = core_->gets.pop()) {
    if (std::unique_ptr<BlockRead> read = begin(std::move(*asked), ended)) {
      const int64_t n = read->file->read(read->start, {read->blocks.get(), read->bytes});
      const int error = n < 0 ? errno : 0;
      read->done = n < 0 ? 0 : static_cast<uint64_t>(n);
      ended.push_back(finish(std::move(read), error));
    }
    asked.reset();
    core_->answers.answer(ended);
    ended.clear();
  }
  abandon_queue();
}

void DiskReads::abandon_queue() {
  std::vector<Ended> ended;
  for (const QueuedGet& left : core_->gets.drain())
    ended.push_back({left.ticket, TierEnd::cancelled});
  core_->answers.answer(ended);
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

std::vector<PatientThread> start_pool(const std::shared_ptr<DiskReads>& reads) {
  std::vector<PatientThread> threads;
  const unsigned at_once = reads->core().settings.at_once;
  for (unsigned i = 0; i < (at_once > 0 ? at_once : kPoolThreads); ++i) {
    try {
      threads.emplace_back("foreload-disk", [reads] { reads->serve_queue(); });
    } catch (const std::system_error&) {
      break;  // fewer will do
    }
  }
  return threads;
}

}  // namespace foreload::disk_cache
