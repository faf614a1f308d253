// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/jpeg_scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <span>

#include "foreload/decode/jpeg_inside.h"
#include "foreload/decode/jpeg_progressive.h"

namespace foreload {

BlockWindow BlockWindow::times(int across, int down) const {
  const auto x = static_cast<uint32_t>(across), y = static_cast<uint32_t>(down);
  return {left * x, top * y, right * x, bottom * y};
}

#if FORELOAD_JPEG_INSIDE
namespace {

uint32_t rounded_up(uint32_t value, int step) {
  const auto by = static_cast<uint32_t>(step);
  return (value + by - 1) / by * by;
}

// Blocks of a channel in a row, and rows of them, with those that fill up the last block groups.
uint32_t stored_width(const jpeg_component_info& channel) {
  return rounded_up(channel.width_in_blocks, channel.h_samp_factor);
}
uint32_t stored_height(const jpeg_component_info& channel) {
  return rounded_up(channel.height_in_blocks, channel.v_samp_factor);
}

bool assign_table(std::array<HuffmanTable, NUM_HUFF_TBLS>& tables,
                  JHUFF_TBL* const (&given)[NUM_HUFF_TBLS], int number) {
  if (number < 0 || number >= NUM_HUFF_TBLS || given[number] == nullptr) return false;
  tables[static_cast<size_t>(number)].assign(given[number]->bits, given[number]->huffval);
  return true;
}

// The rest from the next marker on that does not belong to the scan.
std::span<const uint8_t> next_segment(std::span<const uint8_t> rest) {
  for (;;) {
    const auto* const found =
        static_cast<const uint8_t*>(std::memchr(rest.data(), 0xFF, rest.size()));
    if (found == nullptr) return rest.last(0);
    rest = rest.subspan(static_cast<size_t>(found - rest.data()));
    if (rest.size() < 2) return rest.last(0);
    const uint8_t marker = rest[1];
    if (marker != 0x00 && marker != 0xFF && (marker < JPEG_RST0 || marker > JPEG_RST0 + 7)) {
      return rest;
    }
    rest = rest.subspan(marker == 0xFF ? 1 : 2);
  }
}

}  // namespace

class ScanReader {
 public:
  ScanReader(jpeg_decompress_struct& info, JpegScans& scans)
      : info_(info),
        scans_(scans),
        band_{static_cast<unsigned>(info.Ss), static_cast<unsigned>(info.Se),
              static_cast<unsigned>(info.Al)},
        first_(info.Ah == 0),
        reader_({info.src->next_input_byte, info.src->bytes_in_buffer}),
        until_restart_(info.restart_interval) {}

  bool read() {
    if (!find_tables()) return false;
    const bool all = scans_.window_.bottom >= info_.total_iMCU_rows;
    if (!(info_.comps_in_scan == 1 ? read_channel() : read_groups())) return false;
    if (all && !reader_.at_end()) return false;
    const std::span<const uint8_t> rest = all ? reader_.rest() : next_segment(reader_.rest());
    info_.src->next_input_byte = rest.data();
    info_.src->bytes_in_buffer = rest.size();
    info_.input_iMCU_row = info_.total_iMCU_rows;
    return true;
  }

 private:
  bool find_tables() {
    for (int i = 0; i < info_.comps_in_scan; ++i) {
      const jpeg_component_info& channel = *info_.cur_comp_info[i];
      if (band_.first > 0) {
        if (!assign_table(scans_.tables_->ac, info_.ac_huff_tbl_ptrs, channel.ac_tbl_no))
          return false;
      } else if (first_) {
        if (!assign_table(scans_.tables_->dc, info_.dc_huff_tbl_ptrs, channel.dc_tbl_no))
          return false;
      }
    }
    return true;
  }

  // To be called before each block group; `groups` of them follow at most before the next call.
  bool restart_if_due(uint32_t& groups) {
    if (info_.restart_interval == 0) return true;
    if (until_restart_ == 0) {
      if (!reader_.restart(next_restart_)) return false;
      next_restart_ = (next_restart_ + 1) % 8;
      until_restart_ = info_.restart_interval;
      before_ = {};
    }
    groups = std::min<uint32_t>(groups, until_restart_);
    until_restart_ -= groups;
    return true;
  }

  bool read_dc(const jpeg_component_info& channel, int in_scan, int16_t* block) {
    if (!first_) return reader_.refine_dc(band_.low, block);
    return reader_.read_dc(scans_.tables_->dc[static_cast<size_t>(channel.dc_tbl_no)], band_.low,
                           before_[static_cast<size_t>(in_scan)], block);
  }

  const JpegCoefficients& stored(const jpeg_component_info& channel) const {
    return scans_.channels_[static_cast<size_t>(channel.component_index)];
  }

  // One channel, block by block, without those that fill up groups.
  bool read_channel() {
    const jpeg_component_info& channel = *info_.cur_comp_info[0];
    const BlockWindow wanted = scans_.window_.times(channel.h_samp_factor, channel.v_samp_factor);
    const uint32_t width = channel.width_in_blocks;
    const uint32_t height = std::min<uint32_t>(channel.height_in_blocks, wanted.bottom);
    uint64_t* used = stored(channel).used;
    for (uint32_t y = 0; y < height; ++y, used += stored(channel).width) {
      const bool in_window = y >= wanted.top;
      const std::array<uint32_t, 3> ends{in_window ? std::min(wanted.left, width) : width,
                                         std::min(wanted.right, width), width};
      uint32_t x = 0;
      for (size_t part = 0; part < ends.size(); ++part) {
        while (x < ends[part]) {
          uint32_t count = ends[part] - x;
          if (!restart_if_due(count)) return false;
          const BlockRun run{stored(channel).rows[y][x], used + x, count, part == 1};
          if (!read_run(channel, run)) return false;
          x += count;
        }
      }
    }
    return true;
  }

  bool read_run(const jpeg_component_info& channel, const BlockRun& run) {
    if (band_.first > 0) {
      const HuffmanTable& table = scans_.tables_->ac[static_cast<size_t>(channel.ac_tbl_no)];
      return first_ ? reader_.read_ac(table, band_, run) : reader_.refine_ac(table, band_, run);
    }
    for (size_t i = 0; i < run.count; ++i) {
      if (!read_dc(channel, 0, run.blocks + i * DCTSIZE2)) return false;
    }
    return true;
  }

  // Several channels, whose DC coefficients only can share a scan, group by group.
  bool read_groups() {
    const uint32_t height = std::min<uint32_t>(info_.MCU_rows_in_scan, scans_.window_.bottom);
    std::array<JBLOCKARRAY, MAX_COMPS_IN_SCAN> rows;
    for (uint32_t y = 0; y < height; ++y) {
      for (int c = 0; c < info_.comps_in_scan; ++c) {
        const jpeg_component_info& channel = *info_.cur_comp_info[c];
        rows[static_cast<size_t>(c)] =
            stored(channel).rows + size_t{y} * static_cast<size_t>(channel.v_samp_factor);
      }
      for (uint32_t x = 0; x < info_.MCUs_per_row; ++x) {
        uint32_t one = 1;
        if (!restart_if_due(one)) return false;
        for (int c = 0; c < info_.comps_in_scan; ++c) {
          if (!read_group_of(c, rows[static_cast<size_t>(c)], x)) return false;
        }
      }
    }
    return true;
  }

  bool read_group_of(int in_scan, JBLOCKARRAY rows, uint32_t x) {
    const jpeg_component_info& channel = *info_.cur_comp_info[in_scan];
    for (int v = 0; v < channel.v_samp_factor; ++v) {
      JBLOCKROW const blocks = rows[v] + size_t{x} * static_cast<size_t>(channel.h_samp_factor);
      for (int h = 0; h < channel.h_samp_factor; ++h) {
        if (!read_dc(channel, in_scan, blocks[h])) return false;
      }
    }
    return true;
  }

  jpeg_decompress_struct& info_;
  JpegScans& scans_;
  const ProgressiveBand band_;
  const bool first_;  // of the scans of this band; the others bring one more bit
  ProgressiveReader reader_;
  std::array<int, MAX_COMPS_IN_SCAN> before_{};  // DC coefficients of the blocks before
  uint32_t until_restart_;
  unsigned next_restart_ = 0;
};

bool JpegScans::possible() {
  return true;
}

void JpegScans::prepare(jpeg_decompress_struct& info, const BlockWindow& window,
                        HuffmanTables& tables, JpegBlocks& blocks) {
  constexpr size_t kAlignment = 64;  // bytes
  constexpr size_t kSpare = kAlignment / sizeof(int16_t);
  window_ = window;
  tables_ = &tables;
  requested_ = 0;
  const auto read_rows = [&window](const jpeg_component_info& channel) {
    return std::min(stored_height(channel), window.times(1, channel.v_samp_factor).bottom);
  };
  size_t count = 0, all_rows = 0, widest = 0;
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& channel = info.comp_info[i];
    count += size_t{stored_width(channel)} * read_rows(channel);
    all_rows += stored_height(channel);
    widest = std::max<size_t>(widest, stored_width(channel));
  }
  blocks.used.assign(count, 0);
  blocks.coefficients.assign((count + widest) * DCTSIZE2 + kSpare, 0);
  blocks.rows.resize(all_rows);
  void* begin = blocks.coefficients.data();
  size_t room = blocks.coefficients.size() * sizeof(int16_t);
  auto* next =
      static_cast<JBLOCK*>(std::align(kAlignment, (count + widest) * sizeof(JBLOCK), begin, room));
  JBLOCKROW const nothing = next + count;  // what is not read is zero
  uint64_t* used = blocks.used.data();
  JBLOCKROW* row = blocks.rows.data();
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& channel = info.comp_info[i];
    const uint32_t width = stored_width(channel);
    channels_[static_cast<size_t>(i)] = {.rows = row, .width = width, .used = used};
    used += size_t{width} * read_rows(channel);
    for (uint32_t y = 0; y < stored_height(channel); ++y) {
      const bool is_read = y < read_rows(channel);
      *row++ = is_read ? next : nothing;
      if (is_read) next += width;
    }
  }
}

jvirt_barray_ptr JpegScans::request(uint32_t width) {
  if (requested_ == channels_.size()) return nullptr;
  JpegCoefficients& channel = channels_[requested_++];
  return channel.width == width ? reinterpret_cast<jvirt_barray_ptr>(&channel) : nullptr;
}

JBLOCKARRAY JpegScans::access(jvirt_barray_ptr array, uint32_t first) {
  return reinterpret_cast<const JpegCoefficients*>(array)->rows + first;
}

void JpegScans::take_over(jpeg_decompress_struct& info, int (*read)(jpeg_decompress_struct*)) {
  info.coef->consume_data = read;
  info.inputctl->consume_input = read;
}

bool JpegScans::read(jpeg_decompress_struct& info) {
  if (!ScanReader(info, *this).read()) return false;
  info.inputctl->finish_input_pass(&info);
  return true;
}
#else
bool JpegScans::possible() {
  return false;
}

void JpegScans::prepare(jpeg_decompress_struct& /*info*/, const BlockWindow& /*window*/,
                        HuffmanTables& /*tables*/, JpegBlocks& /*blocks*/) {}

void JpegScans::take_over(jpeg_decompress_struct& /*info*/,
                          int (* /*read*/)(jpeg_decompress_struct*)) {}

bool JpegScans::read(jpeg_decompress_struct& /*info*/) {
  return false;
}

jvirt_barray_ptr JpegScans::request(uint32_t /*width*/) {
  return nullptr;
}

JBLOCKARRAY JpegScans::access(jvirt_barray_ptr /*array*/, uint32_t /*first*/) {
  return nullptr;
}
#endif

}  // namespace foreload
