// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/zip_directory.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace foreload {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kLocal = "PK\x03\x04"sv;
constexpr std::string_view kCentral = "PK\x01\x02"sv;
constexpr std::string_view kEnd = "PK\x05\x06"sv;
constexpr std::string_view kEnd64 = "PK\x06\x06"sv;
constexpr std::string_view kLocator64 = "PK\x06\x07"sv;
constexpr size_t kLocalBytes = 30;
constexpr size_t kCentralBytes = 46;
constexpr size_t kEndBytes = 22;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kLocator64Bytes = 20;
constexpr uint64_t kMostTail = kEndBytes + 0xFFFF + kLocator64Bytes + kEnd64Bytes;
constexpr uint32_t kIn64 = 0xFFFFFFFF;  // the number stands in the field of 64 bits
constexpr size_t kHeadersAtOnce = 8192;

// A number of so many bytes, the low one first. REQUIRES: it lies inside.
template <class Number>
Number number_at(std::string_view bytes, size_t at) {
  Number value;  // the machine's order is the archive's
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}
uint16_t half_at(std::string_view bytes, size_t at) {
  return number_at<uint16_t>(bytes, at);
}
uint32_t word_at(std::string_view bytes, size_t at) {
  return number_at<uint32_t>(bytes, at);
}
uint64_t long_at(std::string_view bytes, size_t at) {
  return number_at<uint64_t>(bytes, at);
}

struct Directory {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t entries = 0;
};

class ZipReader {
 public:
  ZipReader(const std::string& name, uint64_t size, const ReadZip& read)
      : name_(name), size_(size), read_(read) {}

  Result<std::vector<ZipMember>> members() {
    const ZipRange end{size_ - std::min(size_, kMostTail), std::min(size_, kMostTail)};
    FORELOAD_TRY(const std::string tail, read_one(end));
    FORELOAD_TRY(const Directory directory, find_directory(tail, end.offset));
    FORELOAD_TRY(const std::string bytes, read_one({directory.offset, directory.bytes}));
    FORELOAD_TRY(std::vector<ZipMember> found, entries_of(bytes, directory));
    FORELOAD_CHECK(find_bytes(found, directory));
    return found;
  }

 private:
  tl::unexpected<Error> refuse(std::string_view what) const {
    return fail(ErrorKind::invalid, fmt::format("cannot read {} as a data set: {}", name_, what));
  }
  tl::unexpected<Error> damaged(std::string_view what) const {
    return refuse(fmt::format("it is a damaged zip archive ({}); copy it again", what));
  }
  Result<std::string> read_one(const ZipRange& range) const {
    FORELOAD_TRY(std::vector<std::string> bytes, read_({range}));
    return std::move(bytes.front());
  }

  Result<Directory> find_directory(std::string_view tail, uint64_t tail_offset) const {
    // The last one whose comment goes on to the end.
    size_t end = tail.rfind(kEnd);
    while (
        end != std::string_view::npos &&
        (tail.size() - end < kEndBytes || half_at(tail, end + 20) != tail.size() - end - kEndBytes))
      end = end == 0 ? std::string_view::npos : tail.rfind(kEnd, end - 1);
    if (end == std::string_view::npos) return damaged("it has no directory at its end");
    Directory found{word_at(tail, end + 16), word_at(tail, end + 12), half_at(tail, end + 10)};
    uint32_t pieces = half_at(tail, end + 4) | half_at(tail, end + 6);
    uint64_t last = tail_offset + end;  // the directory ends there, or before
    const bool has_64 =
        end >= kLocator64Bytes && tail.substr(end - kLocator64Bytes).starts_with(kLocator64);
    if (has_64) {
      const uint64_t record = long_at(tail, end - kLocator64Bytes + 8);
      if (record < tail_offset || record - tail_offset > end - kLocator64Bytes ||
          end - kLocator64Bytes - (record - tail_offset) < kEnd64Bytes ||
          !tail.substr(record - tail_offset).starts_with(kEnd64))
        return damaged("its directory is not where it should be");
      const size_t at = record - tail_offset;
      pieces = word_at(tail, at + 16) | word_at(tail, at + 20);
      found = {long_at(tail, at + 48), long_at(tail, at + 40), long_at(tail, at + 32)};
      last = record;
    }
    if (pieces != 0)
      return refuse(
          "it is one of several pieces of a zip archive; join them (zip -s 0 IN --out OUT)");
    if (found.bytes > last || found.offset > last - found.bytes)
      return damaged("its directory is not where it should be");
    if (found.entries > found.bytes / kCentralBytes) return damaged("its directory is too short");
    return found;
  }

  Result<std::vector<ZipMember>> entries_of(std::string_view bytes,
                                            const Directory& directory) const {
    std::vector<ZipMember> members;
    std::set<std::string_view> names;
    members.reserve(directory.entries);
    for (uint64_t i = 0; i < directory.entries; ++i) {
      if (bytes.size() < kCentralBytes || !bytes.starts_with(kCentral))
        return damaged(fmt::format("entry {} of its directory", i));
      const size_t name = half_at(bytes, 28);
      const size_t extra = half_at(bytes, 30);
      const size_t all = kCentralBytes + name + extra + half_at(bytes, 32);
      if (bytes.size() < all) return damaged(fmt::format("entry {} of its directory", i));
      FORELOAD_TRY(ZipMember member, entry_of(bytes.substr(0, all), name, extra));
      bytes.remove_prefix(all);
      members.push_back(std::move(member));
    }
    for (const ZipMember& member : members)
      if (!names.insert(member.name).second)
        return refuse(fmt::format("member {} is there twice; pack it anew", member.name));
    return members;
  }

  Result<ZipMember> entry_of(std::string_view entry, size_t name_bytes, size_t extra_bytes) const {
    constexpr uint16_t kEncrypted = 1 << 0 | 1 << 6 | 1 << 13;
    ZipMember member{std::string(entry.substr(kCentralBytes, name_bytes)), word_at(entry, 42), 0,
                     word_at(entry, 24)};
    uint64_t packed = word_at(entry, 20);
    if (member.name.empty() || member.name.find('\0') != std::string::npos)
      return damaged("a member without a name");
    if ((half_at(entry, 8) & kEncrypted) != 0)
      return refuse(
          fmt::format("member {} is encrypted; pack it anew without a password "
                      "(zip -0 -r)",
                      member.name));
    FORELOAD_CHECK(read_64(entry.substr(kCentralBytes + name_bytes, extra_bytes), member, packed));
    if (member.name.ends_with('/')) {
      member.length = 0;
      return member;
    }
    if (half_at(entry, 10) != 0)
      return refuse(
          fmt::format("member {} is compressed, and only stored members can be read in "
                      "any order; pack it anew (unzip {} -d DIR && cd DIR && zip -0 -r "
                      "NEW.zip .)",
                      member.name, name_));
    if (packed != member.length) return damaged(fmt::format("sizes of member {}", member.name));
    return member;
  }

  // Numbers that did not fit, in the order of their fields.
  Result<void> read_64(std::string_view extra, ZipMember& member, uint64_t& packed) const {
    if (member.length != kIn64 && packed != kIn64 && member.header != kIn64) return {};
    while (extra.size() >= 4) {
      const size_t bytes = half_at(extra, 2);
      if (bytes > extra.size() - 4) break;
      if (half_at(extra, 0) == 1) {
        std::string_view field = extra.substr(4, bytes);
        for (uint64_t* number : {&member.length, &packed, &member.header}) {
          if (*number != kIn64) continue;
          if (field.size() < 8) return damaged(fmt::format("sizes of member {}", member.name));
          *number = long_at(field, 0);
          field.remove_prefix(8);
        }
        return {};
      }
      extra.remove_prefix(4 + bytes);
    }
    return {};  // so large by chance
  }

  // A member's own header is as long as only itself says.
  Result<void> find_bytes(std::vector<ZipMember>& members, const Directory& directory) const {
    for (size_t first = 0; first < members.size(); first += kHeadersAtOnce) {
      const size_t count = std::min(kHeadersAtOnce, members.size() - first);
      std::vector<ZipRange> ranges;
      for (size_t i = first; i < first + count; ++i) {
        if (members[i].header > directory.offset ||
            directory.offset - members[i].header < kLocalBytes)
          return damaged(fmt::format("place of member {}", members[i].name));
        ranges.push_back({members[i].header, kLocalBytes});
      }
      FORELOAD_TRY(const std::vector<std::string> headers, read_(ranges));
      for (size_t i = 0; i < count; ++i) {
        ZipMember& member = members[first + i];
        const std::string& header = headers[i];
        if (!header.starts_with(kLocal))
          return damaged(fmt::format("header of member {}", member.name));
        member.offset = member.header + kLocalBytes + half_at(header, 26) + half_at(header, 28);
        if (member.offset > directory.offset || member.length > directory.offset - member.offset)
          return damaged(fmt::format("place of member {}", member.name));
      }
    }
    return {};
  }

  const std::string& name_;
  const uint64_t size_;
  const ReadZip& read_;
};

}  // namespace

Result<std::vector<ZipMember>> read_zip(const std::string& name, uint64_t size,
                                        const ReadZip& read) {
  return ZipReader(name, size, read).members();
}

}  // namespace foreload
