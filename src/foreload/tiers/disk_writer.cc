// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_writer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "foreload/base/random.h"
#include "foreload/tiers/segment_scan.h"

namespace foreload::disk_cache {
namespace {

constexpr uint64_t kBufferBytes = uint64_t{1} << 20;
constexpr std::chrono::milliseconds kFarewell{500};  // for what is queued when the tier ends

uint64_t now_nanoseconds() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

uint64_t random_mark(uint64_t salt) {
  uint64_t mark = 0;
  if (::getrandom(&mark, sizeof mark, GRND_NONBLOCK) != sizeof mark)
    mark = mix64(now_nanoseconds() ^ mix64(salt + static_cast<uint64_t>(::getpid())));
  return std::max<uint64_t>(mark, 1);
}

}  // namespace

DiskWriter::DiskWriter(std::shared_ptr<DiskCore> core, const Leftovers& leftovers)
    : core_(std::move(core)),
      born_(leftovers.born),
      next_number_(leftovers.next_number),
      unfinished_(leftovers.unfinished),
      buffer_(make_blocks(kBufferBytes)) {}

void DiskWriter::run() {
  if (!buffer_) die("no memory for the buffer", ENOMEM);
  while (!core_->puts.stopped()) {
    std::optional<QueuedPut> put = core_->puts.pop(unflushed_);
    if (put) {
      take(std::move(*put));
    } else if (unflushed_) {
      flush();
    }
  }
  // What was asked for before the end is worth half a second: the next run finds it.
  const auto end = std::chrono::steady_clock::now() + kFarewell;
  while (std::optional<QueuedPut> put = core_->puts.pop(true)) {
    if (std::chrono::steady_clock::now() < end)
      take(std::move(*put));
    else
      answer(*put, TierEnd::cancelled);
  }
  if (current_ && !core_->health.dead()) seal();
}

void DiskWriter::answer(QueuedPut& put, TierEnd end) {
  if (end == TierEnd::full) ++core_->refused;
  core_->puts.finish(put, {});
  core_->answers.answer({put.ticket, end});
}

void DiskWriter::take(QueuedPut put) {
  if (!core_->answers.begin(put.ticket)) return answer(put, TierEnd::cancelled);
  if (core_->health.dead()) return answer(put, TierEnd::failed);
  const CopyKey& key = put.put.key;
  const uint64_t size = put.put.from.size();
  if (put.refused || core_->index.holds(key)) {
    core_->index.want(put.borrower, key);
    return answer(put, TierEnd::full);
  }
  traffic_ = put.traffic;
  if (unfinished_) go_on(std::exchange(unfinished_, nullptr));
  // A copy that cannot be a segment of its own is not worth winning room for.
  if (size >= core_->settings.budget || !make_room(size)) {
    const bool stopped = core_->puts.stopped();
    return answer(put, core_->health.dead() ? TierEnd::failed
                       : stopped            ? TierEnd::cancelled
                                            : TierEnd::full);
  }
  if (!begin_segment()) return answer(put, TierEnd::failed);
  const std::span<const std::byte> payload = put.put.from;
  const uint64_t checksum = put.put.checksum ? *put.put.checksum : checksum64(payload);
  Unpublished record{{current_, {key, 0, size, checksum}}, {}};
  record.put = std::move(put);
  append(std::move(record), payload);
}

// REQUIRES: excess(payload.size()) == 0 and begin_segment().
bool DiskWriter::append(Unpublished record, std::span<const std::byte> payload) {
  static constexpr std::array<std::byte, kRecordAlignment> kZeros{};
  record.place.segment = current_;
  record.place.record.offset = base_ + fill_;
  const RecordEntry entry = record.place.record;
  const RecordHeader header = make_record_header(current_->header.mark, entry);
  const uint64_t padding =
      record_bytes(payload.size()) - sizeof header - stored_bytes(payload.size());
  unpublished_.push_back(std::move(record));
  ++records_;
  if (!put(std::as_bytes(std::span(&header, 1)))) return false;
  const uint64_t pieces = pieces_of(payload.size());
  for (uint64_t number = 0; number < pieces; ++number) {
    const auto rest = payload.subspan(number * kPieceBytes);
    const auto piece = rest.first(std::min<size_t>(kPieceBytes, rest.size()));
    if (pieces > 1) {
      const uint64_t checksum = piece_checksum(piece, entry, number);
      if (!put(std::as_bytes(std::span(&checksum, 1)))) return false;
    }
    if (!put(piece)) return false;
  }
  return put(std::span(kZeros).first(padding));
}

bool DiskWriter::put(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t n = std::min<size_t>(bytes.size(), kBufferBytes - fill_);
    std::memcpy(buffer_.get() + fill_, bytes.data(), n);
    fill_ += n;
    unflushed_ = true;
    bytes = bytes.subspan(n);
    if (fill_ == kBufferBytes && !flush()) return false;
  }
  return !core_->health.dead();
}

// Writes the buffer and keeps its last, unfinished block, which is written again with what follows:
// the bytes it has already do not change, so a torn write cannot hurt records before it.
bool DiskWriter::flush() {
  if (core_->health.dead()) return false;
  core_->gets.wait_for_turn(traffic_, fill_);
  struct stat status{};
  if (::fstat(file_->get(), &status) != 0 || status.st_nlink == 0) {
    die("its files were deleted", ENOENT);
    return false;
  }
  const uint64_t bytes = round_up(fill_, kBlockBytes);
  std::memset(buffer_.get() + fill_, 0, bytes - fill_);
  const auto start = std::chrono::steady_clock::now();
  const int error = file_->write(base_, {buffer_.get(), bytes});
  count_operation(core_->settings.operations, Operation::write, start, error == 0 ? bytes : 0,
                  error != 0);
  if (error != 0) {
    die("writing failed", error);
    return false;
  }
  core_->written_bytes += bytes;
  file_->forget(base_, bytes);
  const uint64_t file_bytes = base_ + bytes;
  core_->used += file_bytes - current_->file_bytes;
  core_->index.resize(*current_, base_ + fill_, file_bytes, 0);
  const uint64_t whole = fill_ / kBlockBytes * kBlockBytes;
  if (whole > 0) std::memmove(buffer_.get(), buffer_.get() + whole, fill_ - whole);
  base_ += whole;
  fill_ -= whole;
  unflushed_ = false;
  publish();
  return true;
}

void DiskWriter::publish() {
  std::vector<Ended> ended;
  while (!unpublished_.empty()) {
    const RecordEntry& first = unpublished_.front().place.record;
    if (first.offset + record_bytes(first.size) > base_ + fill_) break;
    Unpublished record = std::move(unpublished_.front());
    unpublished_.pop_front();
    const auto add = [&] {
      if (record.from.segment)
        core_->index.move(record.from, record.place);
      else
        core_->index.add(record.place, record.put->borrower);
    };
    if (!record.put) {
      add();
      continue;
    }
    core_->puts.finish(*record.put, add);
    ended.push_back({record.put->ticket, TierEnd::done});
  }
  core_->answers.answer(ended);
}

// Makes sure that there is a segment to write to. REQUIRES: if there is one, the next record goes
// into it, or there is room for another one.
bool DiskWriter::begin_segment() {
  if (current_) return true;
  const uint64_t mark = random_mark(next_number_);
  born_ = std::max(born_ + 1, now_nanoseconds());
  auto segment = std::make_shared<Segment>(core_->slots.front(), next_number_++,
                                           make_segment_header(mark, born_));
  file_ = core_->files.create(*segment);
  if (!file_) {
    die("a segment cannot be made", errno);
    return false;
  }
  current_ = segment;
  core_->index.add_segment(segment);
  base_ = 0;
  fill_ = 0;
  records_ = 0;
  return put(std::as_bytes(std::span(&segment->header, 1)));
}

// Appends to a segment of an earlier run, so that many short runs do not leave many small files.
// Its sidecar goes: until there is a new one, opening walks through the segment. Does nothing where
// that is not possible.
void DiskWriter::go_on(const std::shared_ptr<Segment>& segment) {
  const int folder = segment->slot.folder.get();
  const std::string name = segment_name(segment->number);
  auto file = BlockFile::open(folder, name.c_str(), O_RDWR, core_->settings.direct_io);
  const uint64_t base = segment->end / kBlockBytes * kBlockBytes;
  const uint64_t fill = segment->end - base;
  if (!file ||
      (fill > 0 && file->read(base, {buffer_.get(), kBlockBytes}) < static_cast<int64_t>(fill)))
    return;
  const std::string sidecar = sidecar_name(segment->number);
  if (::unlinkat(folder, sidecar.c_str(), 0) != 0 && errno != ENOENT) return;
  core_->used -= allocated_bytes(segment->sidecar_size);
  core_->index.resize(*segment, segment->end, segment->file_bytes, 0);
  current_ = segment;
  file_ = std::move(file);
  base_ = base;
  fill_ = fill;
  records_ = segment->keys.size();
}

bool DiskWriter::seal() {
  if (!current_) return true;
  if (unflushed_ && !flush()) return false;
  std::vector<RecordEntry> entries;
  for (const RecordPlace& place : core_->index.records_of(*current_))
    entries.push_back(place.record);
  // The sidecar must not speak of records that a power cut could still take.
  int error = ::fdatasync(file_->get()) == 0 ? 0 : errno;
  if (error == 0) {
    error = write_sidecar(current_->slot.folder.get(), current_->number, current_->header,
                          base_ + fill_, entries);
  }
  if (error != 0) {
    die("a segment cannot be finished", error);
    return false;
  }
  const uint64_t size = sidecar_bytes(entries.size());
  core_->used += allocated_bytes(size);
  core_->index.resize(*current_, base_ + fill_, current_->file_bytes, size);
  current_ = nullptr;
  file_ = nullptr;
  return true;
}

void DiskWriter::die(std::string_view what, int error) {
  core_->health.die(fmt::format(
      "the disk cache {} is off: {}: {}; check the disk, or choose another folder or budget",
      core_->settings.folder.native(), what, std::generic_category().message(error)));
  for (Unpublished& record : std::exchange(unpublished_, {})) {
    if (record.put) answer(*record.put, TierEnd::failed);
  }
  unflushed_ = false;
}

}  // namespace foreload::disk_cache
