// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/segment_scan.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "foreload/base/descriptor.h"
#include "foreload/base/files.h"
#include "foreload/tiers/slots.h"

namespace foreload::disk_cache {
namespace {

constexpr uint64_t kWindowBytes = uint64_t{1} << 20;

bool whole(const RecordEntry& record, uint64_t file_bytes) {
  return record.offset >= sizeof(SegmentHeader) && record.offset % kRecordAlignment == 0 &&
         record.offset <= file_bytes && file_bytes - record.offset >= sizeof(RecordHeader) &&
         record.size <= file_bytes &&
         stored_bytes(record.size) <= file_bytes - record.offset - sizeof(RecordHeader);
}

class Walk {
 public:
  Walk(int fd, ScannedSegment& scanned) : fd_(fd), scanned_(scanned) {}

  int from(uint64_t at) {
    while (at <= scanned_.file_bytes && scanned_.file_bytes - at >= sizeof(RecordHeader)) {
      std::array<std::byte, sizeof(RecordHeader)> bytes;
      if (read_at(fd_, at, bytes) != static_cast<int64_t>(bytes.size())) return errno;
      const auto header = read_record_header(bytes, scanned_.header.mark);
      if (header && whole(entry_of(*header, at), scanned_.file_bytes)) {
        scanned_.records.push_back(entry_of(*header, at));
        at += record_bytes(header->size);
        scanned_.end = at;
        continue;
      }
      at = next_mark(at + kRecordAlignment);
    }
    return 0;
  }

 private:
  // Where the mark stands next; the end of the file if nowhere. A damaged header hides where the
  // next record begins, so it has to be searched.
  uint64_t next_mark(uint64_t at) {
    if (window_.empty()) window_.resize(kWindowBytes);
    while (at < scanned_.file_bytes) {
      const int64_t n = read_at(fd_, at, window_);
      if (n < static_cast<int64_t>(sizeof(uint64_t))) break;
      const uint64_t mark = scanned_.header.mark;
      for (size_t i = 0; i + sizeof mark <= static_cast<size_t>(n); i += kRecordAlignment) {
        if (std::memcmp(window_.data() + i, &mark, sizeof mark) == 0) return at + i;
      }
      at += static_cast<uint64_t>(n) / kRecordAlignment * kRecordAlignment;
    }
    return scanned_.file_bytes;
  }

  int fd_;
  ScannedSegment& scanned_;
  std::vector<std::byte> window_;
};

// Takes over the sidecar's records. Whether it is right.
bool read_sidecar(int folder, uint64_t number, ScannedSegment& scanned, uint64_t& covered) {
  const Descriptor file(::openat(folder, sidecar_name(number).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return false;
  scanned.sidecar_bytes = std::max<uint64_t>(1, static_cast<uint64_t>(status.st_size));
  // One byte of a segment has at most one record, which bounds what a wrong size can make us read.
  if (static_cast<uint64_t>(status.st_size) >
      sidecar_bytes(scanned.file_bytes / sizeof(RecordEntry)))
    return false;
  std::vector<std::byte> bytes(static_cast<size_t>(status.st_size));
  SidecarHeader header;
  if (read_at(file.get(), 0, bytes) != status.st_size ||
      !right_sidecar(bytes, scanned.header.mark, header) ||
      header.covered < sizeof(SegmentHeader) || header.covered % kRecordAlignment != 0)
    return false;
  scanned.records.reserve(header.records);
  for (size_t at = sizeof header; at < bytes.size(); at += sizeof(RecordEntry)) {
    RecordEntry record;
    std::memcpy(&record, bytes.data() + at, sizeof record);
    if (whole(record, scanned.file_bytes)) scanned.records.push_back(record);
  }
  covered = std::min(header.covered, scanned.file_bytes);
  return header.covered <= scanned.file_bytes;
}

}  // namespace

int scan_segment(int folder, uint64_t number, ScannedSegment& scanned) {
  scanned = {};
  const Descriptor file(::openat(folder, segment_name(number).c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return errno;
  scanned.file_bytes = static_cast<uint64_t>(status.st_size);
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_RANDOM);
  std::array<std::byte, sizeof(SegmentHeader)> bytes;
  const int64_t n = read_at(file.get(), 0, bytes);
  if (n < 0) return errno;
  scanned.kind = kind_of_segment(std::span(bytes).first(static_cast<size_t>(n)), scanned.header);
  uint64_t covered = sizeof(SegmentHeader);
  const bool right = read_sidecar(folder, number, scanned, covered);
  if (scanned.kind != SegmentKind::ours) return 0;
  if (!right) {
    scanned.records.clear();
    covered = sizeof(SegmentHeader);
  }
  scanned.end = covered;
  const size_t listed = scanned.records.size();
  const int error = Walk(file.get(), scanned).from(covered);
  scanned.sidecar_right = right && scanned.records.size() == listed;
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return error;
}

int write_sidecar(int folder, uint64_t number, const SegmentHeader& segment, uint64_t covered,
                  std::span<const RecordEntry> records) {
  const std::string name = sidecar_name(number);
  const std::string temporary = name + ".tmp";
  const Descriptor file(
      ::openat(folder, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file) return errno;
  const SidecarHeader header = make_sidecar_header(segment.mark, covered, records);
  int error = write_all(file.get(), std::as_bytes(std::span(&header, 1)));
  if (error == 0) error = write_all(file.get(), std::as_bytes(records));
  if (error == 0 && ::fsync(file.get()) != 0) error = errno;
  if (error == 0 && ::renameat(folder, temporary.c_str(), folder, name.c_str()) != 0) error = errno;
  if (error != 0) {
    ::unlinkat(folder, temporary.c_str(), 0);
    return error;
  }
  return ::fsync(folder) == 0 ? 0 : errno;
}

}  // namespace foreload::disk_cache
