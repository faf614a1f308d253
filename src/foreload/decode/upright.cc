// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/upright.h"

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace foreload {
namespace {

// What becomes of a pixel at (x, y) of the upright image on its way to the stored one: first the
// coordinates change places, then either is counted from the other end.
struct Turn {
  bool swap;
  bool from_right;
  bool from_bottom;
};

constexpr std::array<Turn, 9> kTurns{{
    {},
    {false, false, false},
    {false, true, false},
    {false, true, true},
    {false, false, true},
    {true, false, false},
    {true, false, true},
    {true, true, true},
    {true, true, false},
}};

Turn turn_of(int orientation) {
  assert(1 <= orientation && orientation <= 8);
  return kTurns[static_cast<size_t>(orientation)];
}

// `step` is the distance in `in` from one pixel of a row of `out` to the next.
template <size_t kChannels>
void copy_row(const uint8_t* in, ptrdiff_t step, uint32_t width, uint8_t* out) {
  for (uint32_t x = 0; x < width; ++x, in += step, out += kChannels) {
    std::memcpy(out, in, kChannels);
  }
}

}  // namespace

bool swaps_sides(int orientation) {
  return turn_of(orientation).swap;
}

ImageSize upright_size(ImageSize stored, int orientation) {
  return swaps_sides(orientation) ? ImageSize{stored.height, stored.width} : stored;
}

Region stored_region(const Region& region, ImageSize stored, int orientation) {
  const Turn turn = turn_of(orientation);
  Region found = region;
  if (turn.swap) {
    std::swap(found.x, found.y);
    std::swap(found.width, found.height);
  }
  if (turn.from_right) found.x = stored.width - found.x - found.width;
  if (turn.from_bottom) found.y = stored.height - found.y - found.height;
  return found;
}

void turn_upright(const PixelView& in, int orientation, PixelBuffer& out) {
  const Turn turn = turn_of(orientation);
  const ImageSize size = upright_size(in.size, orientation);
  out.reset(size, in.channels);
  const auto pixel = static_cast<ptrdiff_t>(in.channels);
  const auto row = static_cast<ptrdiff_t>(in.stride);
  const ptrdiff_t right = turn.from_right ? -pixel : pixel;
  const ptrdiff_t down = turn.from_bottom ? -row : row;
  const uint8_t* const first = in.row(turn.from_bottom ? in.size.height - 1 : 0) +
                               (turn.from_right ? pixel * (ptrdiff_t{in.size.width} - 1) : 0);
  const ptrdiff_t along = turn.swap ? down : right;
  const ptrdiff_t across = turn.swap ? right : down;
  for (uint32_t y = 0; y < size.height; ++y) {
    const uint8_t* const from = first + across * ptrdiff_t{y};
    switch (in.channels) {
      case 1:
        copy_row<1>(from, along, size.width, out.row(y));
        break;
      case 2:
        copy_row<2>(from, along, size.width, out.row(y));
        break;
      case 3:
        copy_row<3>(from, along, size.width, out.row(y));
        break;
      case 4:
        copy_row<4>(from, along, size.width, out.row(y));
        break;
      case 6:
        copy_row<6>(from, along, size.width, out.row(y));
        break;
      default:
        assert(in.channels == 8);
        copy_row<8>(from, along, size.width, out.row(y));
    }
  }
}

}  // namespace foreload
