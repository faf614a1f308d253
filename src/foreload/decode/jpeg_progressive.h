// SPDX-License-Identifier: Apache-2.0
//
// Huffman decoding of the scans of progressive JPEG files. A scan adds a band of coefficients, or
// one more bit of each, to all blocks. Which coefficients of a block are not zero is kept in a word
// beside it, so that a scan of further bits goes from one of them to the next instead of looking at
// all 63, and passes over the blocks that have none.
//
// Like jpeg_huffman.h it knows only intact data, and reports whatever is out of the ordinary. For
// one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "foreload/decode/jpeg_huffman.h"

namespace foreload {

// Which coefficients of the zigzag a scan has, first to last, and how many bits below the ones that
// it brings are still missing.
struct ProgressiveBand {
  unsigned first = 0;
  unsigned last = 0;
  unsigned low = 0;
};

// Blocks of 64 coefficients that lie one behind the other. `used` has a word for each, with a bit
// for each coefficient that is not zero; it is kept from scan to scan. Coefficients of blocks that
// are not wanted are read and not written.
struct BlockRun {
  int16_t* blocks = nullptr;
  uint64_t* used = nullptr;
  size_t count = 0;
  bool wanted = true;
};

class ProgressiveReader {
 public:
  ProgressiveReader() = default;
  // `data`: entropy-coded, with whatever follows it.
  explicit ProgressiveReader(std::span<const uint8_t> data) : bits_(data) {}

  // The functions below return false for data out of the ordinary. REQUIRES: 1 <= first <= last <
  // 64 in scans of AC coefficients, low <= 13.

  // The upper bits of a block's DC coefficient. `before` is the one of the block before.
  bool read_dc(const HuffmanTable& table, unsigned low, int& before, int16_t* block);
  // One more bit of it.
  bool refine_dc(unsigned low, int16_t* block);
  // The upper bits of AC coefficients. REQUIRES: the band was zero until now.
  bool read_ac(const HuffmanTable& table, const ProgressiveBand& band, const BlockRun& run);
  // One more bit of them.
  bool refine_ac(const HuffmanTable& table, const ProgressiveBand& band, const BlockRun& run);
  // Goes on behind restart marker `number`, 0 to 7, if that comes next.
  bool restart(unsigned number);
  // Whether the scan ends here, with a marker.
  bool at_end() { return blocks_to_pass_ == 0 && bits_.ends_here(); }
  // What has not been looked at yet; no marker lies before it.
  std::span<const uint8_t> rest() const { return bits_.rest(); }

 private:
  struct Symbol;
  template <bool kWanted>
  bool read_some(const HuffmanTable& table, const ProgressiveBand& band, size_t count,
                 int16_t* blocks, uint64_t* used);
  template <bool kWanted>
  bool refine_some(const HuffmanTable& table, const ProgressiveBand& band, size_t count,
                   int16_t* blocks, uint64_t* used);

  JpegBits bits_;
  uint32_t blocks_to_pass_ = 0;  // that have nothing more in this band
};

}  // namespace foreload
