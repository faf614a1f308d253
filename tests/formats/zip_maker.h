// SPDX-License-Identifier: Apache-2.0
//
// Zip archives made byte by byte, odd ones too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace foreload {

struct ZipMade {
  std::string name, bytes;
  uint16_t flags = 0;
  uint16_t method = 0;
  bool in_64 = false;  // its sizes and place
  std::string local_extra = {};
};

inline std::string little(uint64_t value, size_t bytes) {
  std::string text;
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

inline std::string make_zip(const std::vector<ZipMade>& members, bool end_64 = false,
                            const std::string& comment = "") {
  std::string file, directory;
  for (const ZipMade& one : members) {
    const uint64_t place = file.size();
    const uint64_t size = one.bytes.size();
    file += "PK\x03\x04" + little(20, 2) + little(one.flags, 2) + little(one.method, 2) +
            little(0, 8) + little(size, 4) + little(size, 4) + little(one.name.size(), 2) +
            little(one.local_extra.size(), 2) + one.name + one.local_extra + one.bytes;
    const std::string extra = one.in_64 ? little(1, 2) + little(24, 2) + little(size, 8) +
                                              little(size, 8) + little(place, 8)
                                        : "";
    const uint64_t shown = one.in_64 ? 0xFFFFFFFF : size;
    directory += "PK\x01\x02" + little(20, 2) + little(20, 2) + little(one.flags, 2) +
                 little(one.method, 2) + little(0, 8) + little(shown, 4) + little(shown, 4) +
                 little(one.name.size(), 2) + little(extra.size(), 2) + little(0, 2) +
                 little(0, 2) + little(0, 2) + little(0, 4) +
                 little(one.in_64 ? 0xFFFFFFFF : place, 4) + one.name + extra;
  }
  const uint64_t begin = file.size();
  file += directory;
  const uint64_t end = file.size();
  if (end_64) {
    file += "PK\x06\x06" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) +
            little(members.size(), 8) + little(members.size(), 8) + little(directory.size(), 8) +
            little(begin, 8);
    file += "PK\x06\x07" + little(0, 4) + little(end, 8) + little(1, 4);
  }
  const uint64_t many = end_64 ? 0xFFFF : members.size();
  file += "PK\x05\x06" + little(0, 4) + little(many, 2) + little(many, 2) +
          little(end_64 ? 0xFFFFFFFF : directory.size(), 4) +
          little(end_64 ? 0xFFFFFFFF : begin, 4) + little(comment.size(), 2) + comment;
  return file;
}

}  // namespace foreload
