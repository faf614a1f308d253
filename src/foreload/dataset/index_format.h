// SPDX-License-Identifier: Apache-2.0
//
// The index file as structs: a header of 360 bytes, then sixteen sections, each aligned to 8 bytes.
// An index in memory is the same bytes, built or mapped, so saving is a write and loading a map.
// Private to DatasetIndex and IndexBuilder; docs/formats.md is the description for everybody else.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "foreload/base/hash.h"
#include "foreload/dataset/index.h"

namespace foreload {

static_assert(std::endian::native == std::endian::little, "the index is used as it lies on disk");
static_assert(sizeof(size_t) == 8, "an index may be larger than 4 GiB");

inline constexpr std::array<char, 8> kIndexMagic{'F', 'L', 'I', 'N', 'D', 'E', 'X', '\n'};
inline constexpr uint32_t kIndexVersion = 3;
inline constexpr uint32_t kIndexPlain = 1;  // flag: sample i is the whole of object i
inline constexpr uint32_t kIndexNamed = 2;  // flag: samples have names of their own
inline constexpr uint64_t kIndexAlignment = 8;
// So many names share one 64-bit base, which lets each keep its place in 32 bits.
inline constexpr uint64_t kNameBlock = 65'536;

enum class IndexSection : size_t {
  object_sizes,         // u64 per object
  object_versions,      // u64 per object
  name_bases,           // u64 per started block of objects + 1
  name_offsets,         // u32 per object, + 1 for where the last name ends
  names,                // text
  labels,               // u32 per sample
  first_parts,          // u64 per sample, + 1 for where the last sample ends; none if plain
  parts,                // StoredPart per part; none if plain
  part_names,           // string table
  class_names,          // string table
  folder_names,         // string table
  folder_times,         // u64 per folder
  store,                // string table of one: the URI of the store that the objects are in
  sample_name_bases,    // as of objects; none without names of their own
  sample_name_offsets,  // the same
  sample_names,         // text
};
inline constexpr size_t kIndexSections = 16;

struct SectionPlace {
  uint64_t offset;  // from the start of the file
  uint64_t bytes;   // without the padding behind it
};

struct IndexHeader {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t flags;
  uint64_t file_bytes;
  uint64_t objects;
  uint64_t samples;
  uint64_t parts;
  uint64_t part_names;
  uint64_t classes;
  uint64_t folders;
  uint64_t fingerprint_high;
  uint64_t fingerprint_low;
  std::array<SectionPlace, kIndexSections> sections;
  uint64_t body_checksum;    // of everything behind the header
  uint64_t header_checksum;  // of the header up to here

  const SectionPlace& place(IndexSection section) const {
    return sections[static_cast<size_t>(section)];
  }
};
static_assert(sizeof(IndexHeader) == 360);

struct StoredPart {
  uint64_t offset;
  uint64_t length;
  uint32_t object;
  uint32_t name;
};
static_assert(sizeof(StoredPart) == 24);

inline uint64_t header_checksum(const IndexHeader& header) {
  return checksum64(
      std::as_bytes(std::span(&header, 1)).first(offsetof(IndexHeader, header_checksum)));
}

// Why `length` bytes from `offset` are no part of an object of `size` bytes; null if they are.
constexpr const char* part_flaw(uint64_t offset, uint64_t length, uint64_t size) {
  if (length == kUnknownSize) {
    return size == kUnknownSize ? nullptr
                                : "has no length although the size of its object is known";
  }
  // An end at kUnknownSize could not be told from an unknown one.
  const uint64_t limit = size == kUnknownSize ? kUnknownSize - 1 : size;
  if (offset > limit || length > limit - offset) return "lies outside its object";
  return nullptr;
}

// Adds one part to the size of its sample. False if the size no longer fits into 64 bits.
constexpr bool add_length(uint64_t& sum, uint64_t length) {
  if (length == kUnknownSize) return true;
  if (length > kUnknownSize - 1 - sum) return false;
  sum += length;
  return true;
}

// A few strings: count + 1 places in the text behind them, string i from place i to place i + 1.
struct StringTable {
  const uint64_t* places = nullptr;
  const char* text = nullptr;

  std::string_view operator[](size_t i) const {
    return {text + places[i], places[i + 1] - places[i]};
  }
};

// Many strings: those of a block share a base.
struct NameTable {
  const uint64_t* bases = nullptr;
  const uint32_t* offsets = nullptr;
  const char* text = nullptr;

  uint64_t place(uint64_t i) const { return bases[i / kNameBlock] + offsets[i]; }
  std::string_view operator[](uint64_t i) const {
    const uint64_t begin = place(i);
    return {text + begin, place(i + 1) - begin};
  }
};

// The bytes of an index and where things are in them.
struct DatasetIndex::Storage {
  Storage() = default;
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();  // unmaps

  // Sets the pointers below. REQUIRES: the header's sections lie inside `bytes`.
  void find_sections();

  std::unique_ptr<std::byte[]> built;  // where the bytes are if they were built,
  void* mapped = nullptr;              // where they are if they were loaded
  std::span<const std::byte> bytes;

  const IndexHeader* header = nullptr;
  bool plain = false;
  bool named = false;
  const uint64_t* object_sizes = nullptr;
  const uint64_t* object_versions = nullptr;
  NameTable names;
  NameTable sample_names;
  StringTable store;  // one string
  const uint32_t* labels = nullptr;
  const uint64_t* first_parts = nullptr;
  const StoredPart* parts = nullptr;
  StringTable part_names;
  StringTable class_names;
  StringTable folder_names;
  const uint64_t* folder_times = nullptr;
};

}  // namespace foreload
