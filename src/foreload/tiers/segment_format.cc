// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/segment_format.h"

#include <algorithm>
#include <cstring>

namespace foreload::disk_cache {
namespace {

constexpr char kSegmentMagic[8] = {'F', 'L', 'S', 'E', 'G', 'M', 'T', '\n'};
constexpr char kSidecarMagic[8] = {'F', 'L', 'S', 'I', 'D', 'E', 'C', '\n'};

// Headers end with the checksum of what comes before it.
template <class Header>
uint64_t checksum_of(const Header& header) {
  return checksum64(std::as_bytes(std::span(&header, 1)).first(sizeof(Header) - sizeof(uint64_t)));
}

}  // namespace

SegmentHeader make_segment_header(uint64_t mark, uint64_t born) {
  SegmentHeader header{};
  std::memcpy(header.magic, kSegmentMagic, sizeof kSegmentMagic);
  header.version = kDiskFormatVersion;
  header.mark = mark;
  header.born = born;
  header.checksum = checksum_of(header);
  return header;
}

SegmentKind kind_of_segment(std::span<const std::byte> bytes, SegmentHeader& header) {
  const size_t known = std::min(bytes.size(), sizeof header);
  header = {};
  if (known > 0) std::memcpy(&header, bytes.data(), known);
  // A header that was cut off, or whose block never reached the disk, begins with zeros or ends.
  const size_t magic = std::min(known, sizeof kSegmentMagic);
  const auto zero = [](std::byte b) { return b == std::byte{0}; };
  if (std::all_of(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(known), zero))
    return SegmentKind::torn;
  if (std::memcmp(header.magic, kSegmentMagic, magic) != 0) return SegmentKind::foreign;
  if (known < sizeof header) return SegmentKind::torn;
  if (header.version > kDiskFormatVersion) return SegmentKind::foreign;
  if (header.checksum != checksum_of(header) || header.mark == 0) return SegmentKind::torn;
  return header.version == kDiskFormatVersion ? SegmentKind::ours : SegmentKind::outdated;
}

RecordHeader make_record_header(uint64_t mark, const RecordEntry& entry) {
  RecordHeader header{};
  header.mark = mark;
  header.key = entry.key;
  header.size = entry.size;
  header.payload_checksum = entry.payload_checksum;
  header.header_checksum = checksum_of(header);
  return header;
}

std::optional<RecordHeader> read_record_header(std::span<const std::byte> bytes, uint64_t mark) {
  RecordHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.mark != mark || header.header_checksum != checksum_of(header)) return std::nullopt;
  return header;
}

RecordEntry entry_of(const RecordHeader& header, uint64_t offset) {
  return {header.key, offset, header.size, header.payload_checksum};
}

Piece read_piece(const std::byte* stored, const RecordEntry& record, uint64_t piece) {
  const uint64_t begin = piece * kPieceBytes;
  const uint64_t length = std::min(kPieceBytes, record.size - begin);
  if (pieces_of(record.size) == 1) return {{stored, length}, record.payload_checksum};
  uint64_t checksum = 0;
  std::memcpy(&checksum, stored, sizeof checksum);
  return {{stored + sizeof checksum, length}, checksum - record.payload_checksum - piece};
}

uint64_t piece_checksum(std::span<const std::byte> bytes, const RecordEntry& record,
                        uint64_t piece) {
  return checksum64(bytes) + record.payload_checksum + piece;
}

SidecarHeader make_sidecar_header(uint64_t mark, uint64_t covered,
                                  std::span<const RecordEntry> entries) {
  SidecarHeader header{};
  std::memcpy(header.magic, kSidecarMagic, sizeof kSidecarMagic);
  header.version = kDiskFormatVersion;
  header.mark = mark;
  header.covered = covered;
  header.records = entries.size();
  header.body_checksum = checksum64(std::as_bytes(entries));
  header.checksum = checksum_of(header);
  return header;
}

bool right_sidecar(std::span<const std::byte> bytes, uint64_t mark, SidecarHeader& header) {
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::span<const std::byte> body = bytes.subspan(sizeof header);
  return std::memcmp(header.magic, kSidecarMagic, sizeof kSidecarMagic) == 0 &&
         header.version == kDiskFormatVersion && header.mark == mark &&
         header.checksum == checksum_of(header) &&
         body.size() / sizeof(RecordEntry) == header.records &&
         body.size() % sizeof(RecordEntry) == 0 && checksum64(body) == header.body_checksum;
}

}  // namespace foreload::disk_cache
