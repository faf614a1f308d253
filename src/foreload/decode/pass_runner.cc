// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/pass_runner.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <optional>
#include <utility>

#include "foreload/decode/erase.h"
#include "foreload/decode/picture_ops.h"
#include "foreload/decode/row_resampler.h"

namespace foreload {
namespace {

// How much of one side of a window shows the image.
struct Visible {
  uint32_t before = 0;  // outputs of padding in front
  uint32_t first = 0;   // the first visible output of the resized image
  uint32_t count = 0;
};

Visible visible_part(int64_t offset, uint32_t wanted, uint32_t there) {
  const int64_t begin = std::clamp<int64_t>(offset, 0, there);
  const int64_t end = std::clamp<int64_t>(offset + wanted, 0, there);
  if (end <= begin) return {wanted, 0, 0};
  return {static_cast<uint32_t>(begin - offset), static_cast<uint32_t>(begin),
          static_cast<uint32_t>(end - begin)};
}

// Where a side of the crop lies in an input decoded at 1 / shrink: whole pixels around it, and the
// edges relative to them.
struct Side {
  uint32_t begin = 0;
  uint32_t length = 0;
  double from = 0;
  double to = 0;
};

Side shrunk_side(uint32_t begin, uint32_t length, unsigned shrink) {
  const uint32_t first = begin / shrink;
  const uint32_t last = (begin + length + shrink - 1) / shrink;
  return {first, last - first, static_cast<double>(begin) / shrink - first,
          static_cast<double>(begin + length) / shrink - first};
}

void fill_pixels(uint8_t* out, uint32_t pixels, uint32_t channels,
                 const std::array<uint8_t, 3>& fill) {
  if (channels == 1) {
    std::memset(out, fill[0], pixels);
    return;
  }
  for (uint32_t x = 0; x < pixels; ++x) std::memcpy(out + size_t{3} * x, fill.data(), 3);
}

// One pass, row by row.
class PassRows {
 public:
  PassRows(const Pass& pass, unsigned shrink)
      : pass_(pass),
        columns_(visible_part(pass.left, pass.size.width, pass.resized.width)),
        rows_(visible_part(pass.top, pass.size.height, pass.resized.height)),
        x_(shrunk_side(pass.crop.x, pass.crop.width, shrink)),
        y_(shrunk_side(pass.crop.y, pass.crop.height, shrink)),
        resizing_{.x = {x_.length, x_.from, x_.to, pass.resized.width, columns_.first,
                        columns_.count, pass.rule},
                  .y = {y_.length, y_.from, y_.to, pass.resized.height, rows_.first, rows_.count,
                        pass.rule},
                  .interpolation = pass.interpolation,
                  .flip = pass.flip} {}

  bool empty() const { return columns_.count == 0 || rows_.count == 0; }
  // The part of the (shrunk) input that is used.
  Region needs() const {
    if (empty()) return {x_.begin, y_.begin, 1, 1};
    Region region = resizing_.needs();
    region.x += x_.begin;
    region.y += y_.begin;
    return region;
  }

  // Hands the rows to `use(y, row)`; `row_for(y)` says where row y may be put. `in` holds the input
  // from `origin` on.
  template <class RowFor, class Use>
  void run(PixelView in, const Region& origin, const PixelKernels& kernels, Scratch& scratch,
           RowFor row_for, Use use) const {
    const uint32_t channels = in.channels;
    Region in_crop;  // where `in` begins, relative to the crop
    if (origin.x < x_.begin) in.data += size_t{x_.begin - origin.x} * channels;
    if (origin.y < y_.begin) in.data += size_t{y_.begin - origin.y} * in.stride;
    in_crop.x = origin.x - std::min(origin.x, x_.begin);
    in_crop.y = origin.y - std::min(origin.y, y_.begin);
    std::optional<RowResampler> resampler;
    if (!empty()) resampler.emplace(in, in_crop, resizing_, kernels, scratch);
    const uint32_t after = pass_.size.width - columns_.before - columns_.count;
    const uint32_t left = pass_.flip ? after : columns_.before;
    const uint32_t right = pass_.flip ? columns_.before : after;
    for (uint32_t y = 0; y < pass_.size.height; ++y) {
      const uint32_t to = pass_.flip_rows ? pass_.size.height - 1 - y : y;
      uint8_t* row = row_for(to);
      if (empty() || y < rows_.before || y - rows_.before >= rows_.count) {
        fill_pixels(row, pass_.size.width, channels, pass_.fill);
      } else {
        resampler->next(row + size_t{left} * channels);
        fill_pixels(row, left, channels, pass_.fill);
        fill_pixels(row + size_t{left + columns_.count} * channels, right, channels, pass_.fill);
      }
      use(to, row);
    }
  }

 private:
  const Pass& pass_;
  Visible columns_;
  Visible rows_;
  Side x_;
  Side y_;
  Resizing resizing_;
};

// Parts of the picture, one after another.
void write_cuttings(const std::vector<Cutting>& cuttings, PixelBuffer& picture,
                    const PassSettings& settings, std::span<std::byte> into, PixelBuffer& spare) {
  if (cuttings.empty()) return;
  const RowWriter& writer = *settings.writer;
  const ImageSize size = cuttings.front().window.size;
  const uint32_t channels = picture.channels();
  const size_t plane = writer.plane_bytes(size);
  uint8_t* const row = spare.reset({size.width, 1}, channels);
  std::byte* out = into.data();
  for (const Cutting& cutting : cuttings) {
    const auto left = static_cast<uint32_t>(cutting.window.left);
    const auto top = static_cast<uint32_t>(cutting.window.top);
    for (uint32_t y = 0; y < size.height; ++y) {
      const uint32_t from_y = top + (cutting.flip_rows ? size.height - 1 - y : y);
      const uint8_t* from = picture.row(from_y) + size_t{left} * channels;
      for (uint32_t x = 0; x < size.width; ++x) {
        const uint32_t from_x = cutting.flip ? size.width - 1 - x : x;
        std::memcpy(row + size_t{x} * channels, from + size_t{from_x} * channels, channels);
      }
      settings.kernels->write(writer, row, size.width, out + y * writer.row_bytes(size), plane);
    }
    out += plane * writer.channels;
  }
}

}  // namespace

unsigned shrink_for(const Pass& pass) {
  if (!pass.resizes() || pass.interpolation == Interpolation::nearest) return 1;
  for (const unsigned shrink : {8u, 4u, 2u}) {
    const uint64_t quarters = shrink == 2 ? 3 : 4;  // of the result's sides
    if (pass.resized.width * quarters * shrink <= uint64_t{pass.crop.width} * 4 &&
        pass.resized.height * quarters * shrink <= uint64_t{pass.crop.height} * 4) {
      return shrink;
    }
  }
  return 1;
}

Result<void> run_passes(std::span<const std::byte> file, const ImageHeader& header,
                        const SamplePlan& plan, const PassSettings& settings,
                        std::span<std::byte> into, Scratch& scratch) {
  const RowWriter& writer = *settings.writer;
  const PixelKernels& kernels = *settings.kernels;
  const ImageSize size = plan.size();
  const size_t row_bytes = writer.row_bytes(size);
  const size_t plane = writer.plane_bytes(size);
  assert(into.size() == plane * writer.channels * std::max<size_t>(plan.cuttings.size(), 1));

  const Pass& first = plan.passes.front();
  const bool may_shrink = settings.fast && header.shrinks;
  const unsigned shrink = may_shrink ? shrink_for(first) : 1;
  Region origin = PassRows(first, shrink).needs();
  if (header.format == nullptr) {
    origin = {};  // somebody else has decoded the whole image
  } else {
    FORELOAD_CHECK(
        decode(file, header, settings.options, origin, shrink, scratch.decoded, scratch));
  }

  PixelBuffer* from = &scratch.decoded;
  PixelBuffer* to = &scratch.other;
  const auto write = [&](uint32_t y, const uint8_t* row) {
    kernels.write(writer, row, size.width, into.data() + y * row_bytes, plane);
  };
  for (const Pass& pass : plan.passes) {
    const bool is_last = &pass == &plan.passes.back();
    const PassRows rows(pass, &pass == &first ? shrink : 1);
    const uint32_t channels = from->channels();
    if (is_last && pass.ops.empty() && plan.cuttings.empty()) {
      uint8_t* row = to->reset({size.width, 1}, channels);
      rows.run(from->view(), origin, kernels, scratch, [row](uint32_t) { return row; }, write);
      break;
    }
    to->reset(pass.size, channels);
    rows.run(
        from->view(), origin, kernels, scratch, [to](uint32_t y) { return to->row(y); },
        [](uint32_t, const uint8_t*) {});
    for (const PictureOp& op : pass.ops) apply(op, to, from);
    if (is_last && plan.cuttings.empty()) {
      for (uint32_t y = 0; y < size.height; ++y) write(y, to->row(y));
    }
    std::swap(from, to);
    origin = {};
  }
  write_cuttings(plan.cuttings, *from, settings, into, *to);
  const OutputForm form{
      .size = size, .channels = writer.channels, .type = writer.type, .layout = writer.layout};
  for (const Erasure& erasure : plan.erasures) erase(erasure, form, size, into);
  return {};
}

}  // namespace foreload
