// SPDX-License-Identifier: Apache-2.0
//
// From the bytes of a file to pixels. What a file is, its content says, not its name. Only the
// region asked for is decoded where the format allows it, and it is bit for bit what a full decode
// gives there. Pixels are those of Pillow's Image.open(file).convert("RGB") (or "L").
//
// All functions are pure; any thread may call them, each with a Scratch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "foreload/base/result.h"
#include "foreload/decode/pixels.h"

namespace foreload {

struct ImageFormat;  // image_format.h
// All that are decoded here.
std::span<const ImageFormat> image_formats();
// By the first bytes. Null: none of them.
const ImageFormat* format_of(std::span<const std::byte> file);
// Those of other libraries that decide about pixels, with their versions.
std::string decoder_libraries();
// "not a JPEG, PNG, WebP or GIF image".
std::string no_known_format();

enum class ColorMode : uint8_t { rgb, grey, rgba };
uint32_t channels_of(ColorMode mode);

struct DecodeOptions {
  ColorMode mode = ColorMode::rgb;
  bool exif_orientation = false;  // turn the image as its EXIF tag says, before anything else
  // Two bytes for each value, in the machine's order, so that 16-bit images stay what they are;
  // values of 8 bits are multiplied by 257. The buffer then has twice as many "channels".
  bool wide = false;
  // Of a JPEG file decoded at a fraction of its size, coefficients that hardly show are left out.
  bool rough = false;
  // Images that declare more pixels than this are refused before memory is taken: twice Pillow's
  // MAX_IMAGE_PIXELS, where Pillow raises DecompressionBombError.
  uint64_t most_pixels = 2 * 89'478'485;
};

struct ImageHeader {
  const ImageFormat* format = nullptr;  // null: somebody else has decoded it
  ImageSize size;                       // as stored
  int orientation = 1;                  // the EXIF tag, 1 to 8; read only if the options ask for it
  bool shrinks = false;  // can be decoded at a half, a quarter or an eighth of its size
  // The size after turning.
  ImageSize upright() const;
};

// Reads the header only. Fails with `invalid` and says what is wrong with the image ("not a JPEG,
// PNG, WebP or GIF image", "declares 400000 x 400000 pixels, ..."); the caller adds the name of the
// sample.
Result<ImageHeader> read_header(std::span<const std::byte> file, const DecodeOptions& options);

// Decodes a region (of the upright image, whole pixels) of a file whose header was read. `shrink`
// is 1, 2, 4 or 8: JPEG decodes at that fraction (DCT scaling), the region then is one of the
// shrunk image, whose sides are those of the upright one divided by `shrink` and rounded up; where
// the header does not say that it shrinks, 1 only. Fails with `invalid`: truncated (libjpeg's
// premature end too), corrupt, or a kind that is not decoded here; with `unsupported` where the
// library that is linked cannot do what Pillow does. REQUIRES: the region is not empty and lies
// inside.
Result<void> decode(std::span<const std::byte> file, const ImageHeader& header,
                    const DecodeOptions& options, const Region& region, unsigned shrink,
                    PixelBuffer& out, Scratch& scratch);

// Decodes a tiny picture. libjpeg asks for environment variables when a thread first uses it, and
// must not while another thread changes the environment: glibc frees what it looks at. Who starts
// threads lets each call this before anything else goes on; then decoding asks no more.
void warm_up(Scratch& scratch);

}  // namespace foreload
