// SPDX-License-Identifier: Apache-2.0
//
// From the samples of a PNG image to the colours that were asked for. For png.cc only.
//
// Colours of one byte are Pillow's: 16-bit channels keep their high byte, except that greyscale of
// 16 bits is clipped at 255 (Pillow's I;16), palette entries that the file does not define are
// black, and the declared transparent colour is compared, by its low bytes, with what the pixel has
// become. Wide colours are the file's own, and the transparent colour is compared with the samples.
//
// Immutable after make(); any thread may use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/png_chunks.h"

namespace foreload {

class PngColors {
 public:
  // Fails with `invalid` where Pillow cannot convert: a palette that is too large, transparency of
  // entries that there cannot be.
  static Result<PngColors> make(const PngChunks& chunks, const DecodeOptions& options);

  // Bytes of a pixel as convert() takes them: a byte for each channel of up to 8 bits, or two, the
  // high one first.
  size_t sample_bytes() const { return layout_.channels() * (layout_.depth == 16 ? 2 : 1); }
  uint32_t bytes_per_pixel() const { return channels_of(mode_) * (wide_ ? 2 : 1); }
  void convert(const uint8_t* samples, uint32_t pixels, uint8_t* out) const;

 private:
  struct Color {
    uint16_t red, green, blue, alpha;
  };
  template <class ColorAt>
  void convert_by(const uint8_t* samples, uint32_t pixels, uint8_t* out,
                  const ColorAt& color_at) const;
  Color narrow(const uint8_t* sample) const;
  Color wide(const uint8_t* sample) const;

  PngLayout layout_;
  ColorMode mode_ = ColorMode::rgb;
  bool wide_ = false;
  uint16_t grey_factor_ = 1;  // from the file's range to 0..255
  PngTransparency transparency_;
  std::array<std::array<uint8_t, 4>, 256> palette_;
};

}  // namespace foreload
