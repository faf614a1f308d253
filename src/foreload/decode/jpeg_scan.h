// SPDX-License-Identifier: Apache-2.0
//
// Reads the scans of a progressive file in the place of libjpeg, with the reader of
// jpeg_progressive.h, into coefficients whose memory is kept from image to image. Scans are read as
// far down as the region needs; what is below is passed over up to the next marker.
//
// Only for jpeg.cc. Where libjpeg does not show its insides, possible() is false.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "foreload/decode/jpeg_huffman.h"
#include "foreload/decode/jpeg_inside.h"

namespace foreload {

// Block groups, or blocks of a channel, that are wanted: from left and top to right and bottom,
// which are not among them.
struct BlockWindow {
  uint32_t left = 0;
  uint32_t top = 0;
  uint32_t right = 0;
  uint32_t bottom = 0;
  BlockWindow times(int across, int down) const;
};

// The coefficients of one channel.
struct JpegCoefficients {
  JBLOCKARRAY rows = nullptr;
  uint32_t width = 0;        // in blocks; with those that fill up the last block group
  uint64_t* used = nullptr;  // see ProgressiveReader; a word for each block, row by row
};

// Memory for them. Give it up when it has become large.
struct JpegBlocks {
  std::vector<int16_t> coefficients;
  std::vector<uint64_t> used;
  std::vector<JBLOCKROW> rows;
};

class JpegScans {
 public:
  static bool possible();

  // Makes room. What is below the window is not read, and what is beside and above it has only its
  // DC coefficients afterwards. REQUIRES: possible(), and the header was read. `tables` and
  // `blocks` outlive the decompression.
  void prepare(jpeg_decompress_struct& info, const BlockWindow& window, HuffmanTables& tables,
               JpegBlocks& blocks);
  // Has libjpeg call `read` for each scan, beginning with the one whose header it has just read.
  static void take_over(jpeg_decompress_struct& info, int (*read)(jpeg_decompress_struct*));
  // Reads the scan and tells libjpeg that it is complete. Returns false for data out of the
  // ordinary.
  bool read(jpeg_decompress_struct& info);

  // What libjpeg's functions request_virt_barray, for one channel after the other, and
  // access_virt_barray are to give. Null for a request that was not expected.
  jvirt_barray_ptr request(uint32_t width);
  static JBLOCKARRAY access(jvirt_barray_ptr array, uint32_t first);

 private:
  friend class ScanReader;

  BlockWindow window_;  // of block groups
  HuffmanTables* tables_ = nullptr;
  std::array<JpegCoefficients, MAX_COMPONENTS> channels_{};
  size_t requested_ = 0;  // of them
};

}  // namespace foreload
