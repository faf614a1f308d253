// SPDX-License-Identifier: Apache-2.0
//
// The bytes of the disk cache: segments, records and sidecars, as docs/formats.md describes them.
// Everything here is a pure function of bytes; nothing opens a file. Whatever is behind the disk
// tier and not for its users is in the namespace disk_cache.
//
// A segment is a header and records behind each other. Its mark, a random number, stands in its
// header and in every record, so that bytes left from another file, or a record inside somebody's
// payload, are not taken for records of this one.
//
// A payload of more than a piece is stored in pieces, each behind a checksum of its own, so that a
// range of it can be read and checked without the rest. A piece's checksum also covers which piece
// of which payload it is.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "foreload/base/hash.h"
#include "foreload/tiers/tier.h"

namespace foreload::disk_cache {

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

inline constexpr uint32_t kDiskFormatVersion = 2;
inline constexpr uint64_t kRecordAlignment = 8;
inline constexpr uint64_t kBlockBytes = 4096;  // unit of direct I/O, and of counting room
inline constexpr uint64_t kPieceBytes = 64 << 10;

struct SegmentHeader {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t mark;         // never 0
  uint64_t born;         // nanoseconds since 1970; of two records of a copy the later born counts
  uint64_t reserved[3];  // 0
  uint64_t checksum;     // of the bytes before
};
static_assert(sizeof(SegmentHeader) == 64);

struct RecordHeader {
  uint64_t mark;
  CopyKey key;
  uint64_t size;              // of the payload, which follows
  uint64_t payload_checksum;  // XXH3 of the payload
  uint64_t header_checksum;   // of the bytes before
};
static_assert(sizeof(RecordHeader) == 56);

struct SidecarHeader {
  char magic[8];
  uint32_t version;
  uint32_t zero;
  uint64_t mark;     // of the segment
  uint64_t covered;  // bytes of the segment that the sidecar speaks of
  uint64_t records;
  uint64_t reserved;  // 0
  uint64_t body_checksum;
  uint64_t checksum;  // of the bytes before
};
static_assert(sizeof(SidecarHeader) == 64);

// A record as the sidecar lists it.
struct RecordEntry {
  CopyKey key;
  uint64_t offset;  // of the record's header in the segment
  uint64_t size;
  uint64_t payload_checksum;
};
static_assert(sizeof(RecordEntry) == 48);

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}
constexpr uint64_t pieces_of(uint64_t size) {
  return size <= kPieceBytes ? 1 : (size - 1) / kPieceBytes + 1;
}
// Where a piece begins behind the record's header, with its checksum if there are several; that of
// the piece behind the last is what the payload takes.
constexpr uint64_t piece_offset(uint64_t size, uint64_t piece) {
  const uint64_t checksums = pieces_of(size) > 1 ? piece * sizeof(uint64_t) : 0;
  return std::min(size, piece * kPieceBytes) + checksums;
}
constexpr uint64_t stored_bytes(uint64_t size) {
  return piece_offset(size, pieces_of(size));
}
// What a record takes of a segment. REQUIRES: size < 2^62.
constexpr uint64_t record_bytes(uint64_t size) {
  return round_up(sizeof(RecordHeader) + stored_bytes(size), kRecordAlignment);
}
// What a file of that many bytes counts against the budget.
constexpr uint64_t allocated_bytes(uint64_t bytes) {
  return round_up(bytes, kBlockBytes);
}
constexpr uint64_t sidecar_bytes(uint64_t records) {
  return sizeof(SidecarHeader) + records * sizeof(RecordEntry);
}

SegmentHeader make_segment_header(uint64_t mark, uint64_t born);

enum class SegmentKind : uint8_t {
  ours,
  torn,      // never finished, or damaged: nothing in it can be trusted
  outdated,  // of an earlier version, which nobody reads any more
  foreign,   // of a later version, or no segment at all: hands off
};
// `bytes` are the first bytes of a file, fewer than a header's if there are no more.
SegmentKind kind_of_segment(std::span<const std::byte> bytes, SegmentHeader& header);

RecordHeader make_record_header(uint64_t mark, const RecordEntry& entry);
// Nothing unless the checksum is right and the mark is this one.
// REQUIRES: bytes.size() >= sizeof(RecordHeader).
std::optional<RecordHeader> read_record_header(std::span<const std::byte> bytes, uint64_t mark);
RecordEntry entry_of(const RecordHeader& header, uint64_t offset);

// The bytes of a piece and the checksum they must have; `stored` is where the piece begins.
struct Piece {
  std::span<const std::byte> bytes;
  uint64_t checksum;
};
Piece read_piece(const std::byte* stored, const RecordEntry& record, uint64_t piece);
// What stands before a piece of `record`, if it has several.
uint64_t piece_checksum(std::span<const std::byte> bytes, const RecordEntry& record,
                        uint64_t piece);

SidecarHeader make_sidecar_header(uint64_t mark, uint64_t covered,
                                  std::span<const RecordEntry> entries);
// Whether `bytes`, a whole sidecar file, is right and belongs to the segment with this mark.
bool right_sidecar(std::span<const std::byte> bytes, uint64_t mark, SidecarHeader& header);

}  // namespace foreload::disk_cache
