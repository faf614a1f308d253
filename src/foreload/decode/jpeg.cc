// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "foreload/decode/colors.h"
#include "foreload/decode/jpeg_huffman.h"
#include "foreload/decode/jpeg_inside.h"
#include "foreload/decode/jpeg_scan.h"

namespace foreload {

// What our own readers keep from image to image.
struct JpegTables {
  HuffmanTables huffman;
  JpegBlocks blocks;  // of progressive images
};

// How the blocks of a block group (MCU) are read by ourselves.
struct BlockGroups {
  struct Block {
    const HuffmanTable* dc;
    const HuffmanTable* ac;
    size_t channel;
    unsigned wanted;  // coefficients of the zigzag; the rest is not worth its time
  };
  HuffmanReader reader;
  std::array<Block, D_MAX_BLOCKS_IN_MCU> blocks;
  std::array<int, MAX_COMPS_IN_SCAN> last_dc;
  std::array<JCOEF, DCTSIZE2> unwanted;
};

// libjpeg's state, kept from image to image: making it anew asks for an environment variable, which
// is no thread's right while another one changes the environment, as training programs do.
//
// libjpeg leaves by longjmp, which runs no destructors: everything between setjmp and libjpeg is
// trivially destructible, and memory of ours is held outside.
struct JpegDecompression {
  jpeg_decompress_struct info{};  // there is one if info.mem is not null
  // Tables of ours that libjpeg fills; its own would add up until the state is given up.
  std::array<JQUANT_TBL, NUM_QUANT_TBLS> quantization;
  std::array<JHUFF_TBL, NUM_HUFF_TBLS> dc, ac;
  size_t tables_of_its_own = 0;
  jpeg_error_mgr errors;
  jpeg_source_mgr source;
  std::jmp_buf failed;
  BlockGroups groups;
  JpegScans scans;
  jpeg_progress_mgr progress;
  bool own_scans = false;  // `scans` is in use, and libjpeg's own functions are here:
  decltype(jpeg_memory_mgr::request_virt_barray) request_blocks;
  decltype(jpeg_memory_mgr::access_virt_barray) access_blocks;
  bool own_huffman = false;  // `groups` is in use
  bool all_rows = false;     // were read; what is missing behind them, nobody misses
  bool truncated = false;    // why it was left
  bool incomplete = false;   // likewise: scans of a progressive image are missing
  std::array<char, JMSG_LENGTH_MAX> message;
};
static_assert(std::is_trivially_destructible_v<JpegDecompression>);

namespace {

// Before version 3, libjpeg-turbo knows no lossless images, and guesses what missing scans of
// progressive ones hold in a way of its own.
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 3000000
constexpr bool kOldLibrary = false;
#else
constexpr bool kOldLibrary = true;
#endif
#if defined(LIBJPEG_TURBO_VERSION_NUMBER)
constexpr long kJpegLibrary = LIBJPEG_TURBO_VERSION_NUMBER;
#else
constexpr long kJpegLibrary = JPEG_LIB_VERSION;
#endif

struct JpegRequest {
  std::span<const std::byte> file;
  ImageSize size;  // of the stored image, shrunk
  ColorMode mode;
  Region region;
  unsigned shrink;
  bool rough;
  JpegTables* tables;
  // Everything is read, in the order in which Pillow has libjpeg read it. Otherwise what is not
  // needed is left out, which is good for intact files.
  bool like_pillow;
};

JpegDecompression& decompression_of(jpeg_common_struct* info) {
  return *static_cast<JpegDecompression*>(info->client_data);
}

[[noreturn]] void leave(jpeg_common_struct* info) {
  JpegDecompression& d = decompression_of(info);
  info->err->format_message(info, d.message.data());
  std::longjmp(d.failed, 1);
}

[[noreturn]] void leave_with(JpegDecompression& d, const char* message) {
  std::snprintf(d.message.data(), d.message.size(), "%s", message);
  std::longjmp(d.failed, 1);
}

[[noreturn]] void leave_truncated(JpegDecompression& d) {
  d.truncated = true;
  leave_with(d, "");
}

// Damaged data that libjpeg can go on after is shown as far as it goes, as in Pillow.
void count_warning(jpeg_common_struct* info, int level) {
  if (level < 0) ++info->err->num_warnings;
}

void no_work(jpeg_decompress_struct* /*info*/) {}

// The whole file lies in memory: whoever asks for more has come to its end. Pillow calls such a
// file truncated, where libjpeg's own sources would warn and make up an end.
boolean no_more_input(jpeg_decompress_struct* info) {
  leave_truncated(decompression_of(reinterpret_cast<jpeg_common_struct*>(info)));
}

void pass_over_input(jpeg_decompress_struct* info, long bytes) {
  if (bytes <= 0) return;
  jpeg_source_mgr& source = *info->src;
  if (static_cast<size_t>(bytes) > source.bytes_in_buffer) no_more_input(info);
  source.next_input_byte += bytes;
  source.bytes_in_buffer -= static_cast<size_t>(bytes);
}

// A file must not be read with tables of the one before: those that it does not have are taken
// away. `all` of one kind lie in `ours`; unused ones hold a pattern that no file has.
template <class Tables, class Pointers>
void lend(Tables& ours, Pointers& all) {
  std::memset(ours.data(), 0xFF, sizeof(ours));
  for (size_t i = 0; i < ours.size(); ++i) all[i] = &ours[i];
}

template <class Tables, class Pointers>
void take_away_unused(const Tables& ours, Pointers& all) {
  typename Tables::value_type unused;
  std::memset(&unused, 0xFF, sizeof(unused));
  for (size_t i = 0; i < ours.size(); ++i) {
    if (all[i] == &ours[i] && std::memcmp(&ours[i], &unused, sizeof(unused)) == 0) all[i] = nullptr;
  }
}

template <class Tables, class Pointers>
size_t tables_not_ours(const Tables& ours, const Pointers& all) {
  size_t count = 0;
  for (size_t i = 0; i < ours.size(); ++i) count += all[i] != nullptr && all[i] != &ours[i];
  return count;
}

// Gives libjpeg its own functions back.
void end_own_scans(JpegDecompression& d) {
  if (!std::exchange(d.own_scans, false)) return;
  d.info.mem->request_virt_barray = d.request_blocks;
  d.info.mem->access_virt_barray = d.access_blocks;
}

// Ready for the next file.
void close(JpegDecompression& d) {
  constexpr size_t kMostTables = 1000;  // a quarter of a megabyte
  if (d.info.mem == nullptr) return;
  end_own_scans(d);
  d.tables_of_its_own += tables_not_ours(d.quantization, d.info.quant_tbl_ptrs) +
                         tables_not_ours(d.dc, d.info.dc_huff_tbl_ptrs) +
                         tables_not_ours(d.ac, d.info.ac_huff_tbl_ptrs);
  if (d.tables_of_its_own <= kMostTables) return jpeg_abort_decompress(&d.info);
  jpeg_destroy_decompress(&d.info);
  d.tables_of_its_own = 0;
}

int read_own_scan(jpeg_decompress_struct* info) {
  JpegDecompression& d = decompression_of(reinterpret_cast<jpeg_common_struct*>(info));
  if (d.errors.num_warnings > 0 || !d.scans.read(*info)) leave_with(d, "damaged data");
  return JPEG_SCAN_COMPLETED;
}

// libjpeg reads all scans of a progressive file inside jpeg_start_decompress(). It reports progress
// before the first one, which is the moment to put our own function in the place of its.
void take_over_at_first_progress(jpeg_common_struct* common) {
  auto* const info = reinterpret_cast<jpeg_decompress_struct*>(common);
  info->progress = nullptr;
  JpegScans::take_over(*info, read_own_scan);
}

jvirt_barray_ptr request_own_blocks(jpeg_common_struct* common, int /*pool*/, boolean /*zero*/,
                                    JDIMENSION width, JDIMENSION /*rows*/, JDIMENSION /*access*/) {
  JpegDecompression& d = decompression_of(common);
  jvirt_barray_ptr const array = d.scans.request(width);
  if (array == nullptr) leave_with(d, "two headers that contradict each other");
  return array;
}

JBLOCKARRAY access_own_blocks(jpeg_common_struct* /*common*/, jvirt_barray_ptr array,
                              JDIMENSION first, JDIMENSION /*rows*/, boolean /*writable*/) {
  return JpegScans::access(array, first);
}

void prepare_own_scans(JpegDecompression& d, const JpegRequest& request) {
  // Pixels depend on colours around them, which may lie in the next block group.
  constexpr uint32_t kAround = 16;
  const auto groups = [&request, kAround](uint32_t begin, uint32_t length, int factor) {
    const uint32_t first = begin * request.shrink;
    const uint32_t last = (begin + length) * request.shrink + kAround;
    const uint32_t size = static_cast<uint32_t>(factor) * uint32_t{DCTSIZE};
    return std::pair{(first - std::min(first, uint32_t{kAround})) / size, last / size + 1};
  };
  const Region& region = request.region;
  const auto [left, right] = groups(region.x, region.width, d.info.max_h_samp_factor);
  const auto [top, bottom] = groups(region.y, region.height, d.info.max_v_samp_factor);
  try {
    d.scans.prepare(d.info, {left, top, right, bottom}, request.tables->huffman,
                    request.tables->blocks);
  } catch (const std::bad_alloc&) {
    return;  // libjpeg says so in its own way, or finds what it needs
  }
  d.own_scans = true;
  d.request_blocks = std::exchange(d.info.mem->request_virt_barray, request_own_blocks);
  d.access_blocks = std::exchange(d.info.mem->access_virt_barray, access_own_blocks);
  d.progress.progress_monitor = take_over_at_first_progress;
  d.info.progress = &d.progress;
}

void open(JpegDecompression& d, const JpegRequest& request) {
  if (d.info.mem == nullptr) jpeg_create_decompress(&d.info);
  lend(d.quantization, d.info.quant_tbl_ptrs);
  lend(d.dc, d.info.dc_huff_tbl_ptrs);
  lend(d.ac, d.info.ac_huff_tbl_ptrs);
  d.source = {.next_input_byte = reinterpret_cast<const JOCTET*>(request.file.data()),
              .bytes_in_buffer = request.file.size(),
              .init_source = no_work,
              .fill_input_buffer = no_more_input,
              .skip_input_data = pass_over_input,
              .resync_to_restart = jpeg_resync_to_restart,
              .term_source = no_work};
  d.info.src = &d.source;
  // A file may begin with an image that has tables only.
  while (jpeg_read_header(&d.info, FALSE) == JPEG_HEADER_TABLES_ONLY) {
  }
  take_away_unused(d.quantization, d.info.quant_tbl_ptrs);
  take_away_unused(d.dc, d.info.dc_huff_tbl_ptrs);
  take_away_unused(d.ac, d.info.ac_huff_tbl_ptrs);
  switch (d.info.num_components) {
    case 1:
      // Lossless images come without any change of colours.
      d.info.out_color_space =
          request.like_pillow || request.mode == ColorMode::grey ? JCS_GRAYSCALE : JCS_RGB;
      break;
    case 3:
      d.info.out_color_space = JCS_RGB;
      break;
    case 4:
      d.info.out_color_space = JCS_CMYK;
      break;
    default:
      leave_with(d, "wrong number of colour channels");
  }
  d.info.scale_num = 1;
  d.info.scale_denom = request.shrink;
  d.info.dct_method = JDCT_ISLOW;
  d.info.do_fancy_upsampling = TRUE;
  d.info.progress = nullptr;
  if (d.info.progressive_mode && !d.info.arith_code && !request.like_pillow &&
      JpegScans::possible()) {
    prepare_own_scans(d, request);
  }
  jpeg_start_decompress(&d.info);
  if (d.info.output_width != request.size.width || d.info.output_height != request.size.height) {
    leave_with(d, "two headers that contradict each other");
  }
}

#if FORELOAD_JPEG_INSIDE
// Stands in for libjpeg's function of this name. `blocks` is null for a group that is skipped.
boolean decode_mcu(jpeg_decompress_struct* info, JBLOCKROW* blocks) {
  JpegDecompression& d = decompression_of(reinterpret_cast<jpeg_common_struct*>(info));
  BlockGroups& groups = d.groups;
  for (int i = 0; i < info->blocks_in_MCU; ++i) {
    const BlockGroups::Block& block = groups.blocks[static_cast<size_t>(i)];
    JCOEF* const out = blocks == nullptr ? groups.unwanted.data() : *blocks[i];
    int& dc = groups.last_dc[block.channel];
    const bool good = block.wanted == DCTSIZE2
                          ? groups.reader.read_block(*block.dc, *block.ac, out)
                          : groups.reader.read_beginning(*block.dc, *block.ac,
                                                         blocks == nullptr ? 1 : block.wanted, out);
    if (!good || __builtin_add_overflow(dc, int{out[0]}, &dc)) leave_with(d, "damaged data");
    out[0] = static_cast<JCOEF>(dc);
  }
  return TRUE;
}

// How many coefficients a channel that is decoded at a fraction of its size needs: those that its
// pixels, averages over as many of the whole image, show. Higher ones nearly cancel out.
unsigned wanted_coefficients(const jpeg_component_info& channel) {
#if JPEG_LIB_VERSION >= 70
  const int size = channel.DCT_h_scaled_size;
#else
  const int size = channel.DCT_scaled_size;
#endif
  switch (size) {
    case 1:
      return 1;
    case 2:
      return 6;
    case 4:
      return 21;
    default:
      return DCTSIZE2;
  }
}

// Puts our Huffman decoder in the place of libjpeg's, if the file is of the plain kind. REQUIRES:
// decompression has started and no row was read.
void take_over_huffman(JpegDecompression& d, HuffmanTables& tables, bool rough) {
  jpeg_decompress_struct& info = d.info;
  if (info.progressive_mode || info.arith_code || jpeg_has_multiple_scans(&info) ||
      info.restart_interval != 0 || info.unread_marker != 0) {
    return;
  }
  const auto assign = [](HuffmanTable& table, const JHUFF_TBL* from) {
    if (from == nullptr) return false;
    table.assign(from->bits, from->huffval);
    return true;
  };
  for (int i = 0; i < info.blocks_in_MCU; ++i) {
    const int channel = info.MCU_membership[i];
    const int dc = info.cur_comp_info[channel]->dc_tbl_no;
    const int ac = info.cur_comp_info[channel]->ac_tbl_no;
    if (dc < 0 || dc >= NUM_HUFF_TBLS || ac < 0 || ac >= NUM_HUFF_TBLS) return;
    HuffmanTable& dc_table = tables.dc[static_cast<size_t>(dc)];
    HuffmanTable& ac_table = tables.ac[static_cast<size_t>(ac)];
    if (!assign(dc_table, info.dc_huff_tbl_ptrs[dc])) return;
    if (!assign(ac_table, info.ac_huff_tbl_ptrs[ac])) return;
    const unsigned wanted = rough ? wanted_coefficients(*info.cur_comp_info[channel]) : DCTSIZE2;
    if (wanted < DCTSIZE2) ac_table.prepare_skipping();
    d.groups.blocks[static_cast<size_t>(i)] = {&dc_table, &ac_table, static_cast<size_t>(channel),
                                               wanted};
  }
  d.groups.reader = HuffmanReader({d.source.next_input_byte, d.source.bytes_in_buffer});
  d.groups.last_dc = {};
  d.own_huffman = true;
  info.entropy->decode_mcu = decode_mcu;
}
#else
void take_over_huffman(JpegDecompression& /*d*/, HuffmanTables& /*tables*/, bool /*rough*/) {}
#endif

// Coefficients that the scans of a progressive image leave imprecise are guessed from blocks around
// them, so that a part of such an image is not decoded as it is in the whole.
bool guesses_coefficients(const jpeg_decompress_struct& info) {
  if (info.coef_bits == nullptr) return false;
  const auto imprecise = [](const int (&bits)[DCTSIZE2]) {
    return std::any_of(bits, bits + DCTSIZE2, [](int missing) { return missing != 0; });
  };
  return std::any_of(info.coef_bits, info.coef_bits + info.num_components, imprecise);
}

// libjpeg-turbo gets columns in the middle wrong when it narrows rows of an image that is shrunk
// and has channels of a quarter or a third of the width (seen with sampling 4x2 and 2.1.5).
bool narrows_wrongly(const jpeg_decompress_struct& info) {
  return info.scale_denom > 1 && info.max_h_samp_factor > 2;
}

// Makes rows begin and end near the region and returns the column they begin at. A pixel depends on
// the colour of its neighbours, hence the margin; libjpeg treats very narrow rows differently.
uint32_t narrow_rows(JpegDecompression& d, const Region& region) {
  if (narrows_wrongly(d.info)) return 0;
  constexpr uint32_t kMargin = 2;
  constexpr uint32_t kNarrowest = 16;
  const uint32_t width = d.info.output_width;
  JDIMENSION first = region.x - std::min(region.x, kMargin);
  JDIMENSION end = std::min(region.x + region.width + kMargin, width);
  if (end - first < kNarrowest) {
    end = std::min(first + kNarrowest, width);
    first = std::min(first, end - std::min(end, kNarrowest));
  }
  JDIMENSION count = end - first;
  jpeg_crop_scanline(&d.info, &first, &count);
  return first;
}

constexpr uint32_t kRowsAtOnce = 32;  // as many as libjpeg makes in one step at most

// `row_of(i)` is where the i-th row from here goes; `done(i, n)` is told what is there.
template <class RowOf, class Done>
void read_rows(JpegDecompression& d, uint32_t count, const RowOf& row_of, const Done& done) {
  std::array<JSAMPROW, kRowsAtOnce> rows;
  for (uint32_t y = 0; y < count;) {
    const uint32_t wanted = std::min(kRowsAtOnce, count - y);
    for (uint32_t i = 0; i < wanted; ++i) rows[i] = row_of(y + i);
    const uint32_t got = jpeg_read_scanlines(&d.info, rows.data(), wanted);
    if (got == 0) leave_truncated(d);
    done(y, got);
    y += got;
  }
}

// Memory for kRowsAtOnce rows as libjpeg gives them, and how they become ours.
struct RawRows {
  uint8_t* memory;
  size_t stride;
  uint8_t* row(uint32_t y) const { return memory + y % kRowsAtOnce * stride; }
};

RawRows raw_rows(const JpegDecompression& d, Scratch& scratch) {
  const size_t stride = size_t{d.info.output_width} * static_cast<size_t>(d.info.output_components);
  const size_t needed = stride * kRowsAtOnce;
  if (scratch.bytes.size() < needed) scratch.bytes.resize(needed);
  return {scratch.bytes.data(), stride};
}

void convert_jpeg_row(const uint8_t* raw, int raw_channels, uint32_t pixels, uint32_t channels,
                      uint8_t* out) {
  if (raw_channels == 4) {
    if (channels == 3) {
      inverted_cmyk_to_rgb(raw, pixels, out);
    } else {
      inverted_cmyk_to_grey(raw, pixels, out);
    }
  } else if (raw_channels == 3 && channels == 1) {
    rgb_to_grey(raw, pixels, out);
  } else if (raw_channels == 1 && channels == 3) {
    for (uint32_t x = 0; x < pixels; ++x, out += 3) std::memset(out, raw[x], 3);
  } else {
    std::memcpy(out, raw, size_t{pixels} * channels);
  }
}

// Whether what was not read needs no reading, because nothing there could make Pillow refuse the
// file. A file of several scans is read to its end before the first row.
bool rest_is_sound(JpegDecompression& d) {
  constexpr int kNone = 0;
  if (d.errors.num_warnings > 0) return false;
  if (jpeg_has_multiple_scans(&d.info)) return true;
  if (d.own_huffman) return only_end_marker_ahead(std::as_bytes(d.groups.reader.rest()));
  const int marker = d.info.unread_marker;
  if (marker == JPEG_EOI) return true;
  if (marker != kNone && (marker < JPEG_RST0 || marker > JPEG_RST0 + 7)) return false;
  return only_end_marker_ahead(
      std::as_bytes(std::span(d.source.next_input_byte, d.source.bytes_in_buffer)));
}

// Rows from the first one on; `out` gets those of the region.
void read_whole(JpegDecompression& d, const JpegRequest& request, PixelBuffer& out,
                Scratch& scratch) {
  const Region& region = request.region;
  const int raw_channels = d.info.output_components;
  const RawRows raw = raw_rows(d, scratch);
  const auto raw_row = [&raw](uint32_t y) { return raw.row(y); };
  const auto nothing = [](uint32_t, uint32_t) {};
  read_rows(d, region.y, raw_row, nothing);
  read_rows(d, region.height, raw_row, [&](uint32_t y, uint32_t count) {
    for (uint32_t i = y; i < y + count; ++i) {
      convert_jpeg_row(raw.row(i) + size_t{region.x} * static_cast<size_t>(raw_channels),
                       raw_channels, region.width, out.channels(), out.row(i));
    }
  });
  if (!request.like_pillow) return;
  read_rows(d, d.info.output_height - d.info.output_scanline, raw_row, nothing);
  d.all_rows = true;
  jpeg_finish_decompress(&d.info);
}

// Only what the region needs.
void read_part(JpegDecompression& d, const JpegRequest& request, PixelBuffer& out,
               Scratch& scratch) {
  const Region& region = request.region;
  const uint32_t channels = out.channels();
  const int raw_channels = d.info.output_components;
  const uint32_t first = narrow_rows(d, region);
  const uint32_t before = region.x - first;
  const uint32_t after = first + d.info.output_width - (region.x + region.width);
  if (region.y > 0) jpeg_skip_scanlines(&d.info, region.y);
  // What libjpeg writes beside the region then falls into the space between rows.
  const bool fits = before <= 64 && size_t{after} * channels <= 64;
  if (fits && raw_channels == static_cast<int>(channels)) {
    const size_t lead = size_t{before} * channels;
    out.reset({region.width, region.height}, channels, lead);
    read_rows(
        d, region.height, [&](uint32_t y) { return out.row(y) - lead; }, [](uint32_t, uint32_t) {});
    return;
  }
  const RawRows raw = raw_rows(d, scratch);
  read_rows(
      d, region.height, [&raw](uint32_t y) { return raw.row(y); },
      [&](uint32_t y, uint32_t count) {
        for (uint32_t i = y; i < y + count; ++i) {
          convert_jpeg_row(raw.row(i) + size_t{before} * static_cast<size_t>(raw_channels),
                           raw_channels, region.width, channels, out.row(i));
        }
      });
}

void read_jpeg_region(JpegDecompression& d, const JpegRequest& request, PixelBuffer& out,
                      Scratch& scratch) {
  open(d, request);
  const bool guesses = guesses_coefficients(d.info);
  if (guesses && d.own_scans) leave_with(d, "missing scans");
  if (guesses && kOldLibrary) {
    d.incomplete = true;
    leave_with(d, "");
  }
  out.reset({request.region.width, request.region.height}, request.mode == ColorMode::grey ? 1 : 3);
  if (request.like_pillow) return read_whole(d, request, out, scratch);
  if (!jpeg_has_multiple_scans(&d.info)) d.errors.num_warnings = 0;
  take_over_huffman(d, request.tables->huffman, request.rough);
  if (guesses) {
    read_whole(d, request, out, scratch);
  } else {
    read_part(d, request, out, scratch);
  }
  if (!rest_is_sound(d)) leave_with(d, "damaged data");
}

// The frame that longjmp comes back to; what it needs afterwards lives in `d`.
bool attempt_jpeg(JpegDecompression& d, const JpegRequest& request, PixelBuffer& out,
                  Scratch& scratch) {
  d.own_huffman = d.all_rows = d.truncated = d.incomplete = false;
  if (setjmp(d.failed) == 0) {
    read_jpeg_region(d, request, out, scratch);
    return true;
  }
  // A second frame is refused however much of it is there; old versions read all of it first.
  const int marker = d.info.unread_marker;
  const bool second_frame = 0xC0 <= marker && marker <= 0xCF && marker != 0xC4 && marker != 0xCC;
  return d.truncated && d.all_rows && !second_frame;
}

tl::unexpected<Error> too_old(std::string_view kind) {
  return fail(ErrorKind::unsupported,
              fmt::format("{}, which libjpeg-turbo 3 or Pillow must decode", kind));
}

// Large images are rare, and what they need must not stay with every thread for ever.
void give_up_if_large(JpegBlocks& blocks) {
  constexpr size_t kMostBytes = size_t{32} << 20;
  if (blocks.coefficients.capacity() * sizeof(int16_t) > kMostBytes) blocks = {};
}

uint32_t shrunk_side(uint32_t side, unsigned shrink) {
  return (side + shrink - 1) / shrink;
}

}  // namespace

std::string jpeg_library() {
  return fmt::format("libjpeg-turbo {}", kJpegLibrary);
}

Result<void> decode_jpeg(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                         Scratch& scratch) {
  const bool lossless = !from.header.shrinks;
  if (lossless && kOldLibrary) return too_old("a lossless JPEG image");
  if (scratch.tables == nullptr) scratch.tables = std::make_shared<JpegTables>();
  if (scratch.jpeg == nullptr) {
    scratch.jpeg.reset(new JpegDecompression, [](JpegDecompression* d) {
      if (d->info.mem != nullptr) jpeg_destroy_decompress(&d->info);
      delete d;
    });
  }
  JpegDecompression& d = *scratch.jpeg;
  JpegRequest request{.file = from.file,
                      .size = {shrunk_side(from.header.size.width, from.shrink),
                               shrunk_side(from.header.size.height, from.shrink)},
                      .mode = options.mode,
                      .region = from.region,
                      .shrink = from.shrink,
                      .rough = options.rough,
                      .tables = scratch.tables.get(),
                      .like_pillow = lossless};
  for (;;) {
    d.info.err = jpeg_std_error(&d.errors);
    d.info.client_data = &d;
    d.errors.error_exit = leave;
    d.errors.emit_message = count_warning;
    const bool done = attempt_jpeg(d, request, out, scratch);
    close(d);
    give_up_if_large(scratch.tables->blocks);
    if (done) return {};
    if (d.incomplete) return too_old("a progressive JPEG image without its last scans");
    if (std::exchange(request.like_pillow, true)) break;
  }
  if (d.truncated) {
    return fail(ErrorKind::invalid,
                "truncated JPEG image: the file ends before the last pixel; copy it again");
  }
  return fail(ErrorKind::invalid, fmt::format("corrupt JPEG image: {}", d.message.data()));
}

}  // namespace foreload
