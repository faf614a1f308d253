// SPDX-License-Identifier: Apache-2.0
//
// Which input pixels make an output pixel along one axis, and with what weights: Pillow's rule, in
// its order of floating-point operations, so that the fixed-point weights are the same bits. The
// weights may be computed for a stretch of the outputs only, which is how a crop after a resize
// costs no more than the crop.
//
// Pure functions; any thread may call them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "foreload/decode/resample.h"

namespace foreload {

// Weights have this many bits after the point; those of one output add up to about 1.
inline constexpr int kWeightBits = 22;

// How one axis is resized. `from` and `to` are the edges of the box in the input.
struct Axis {
  uint32_t input = 0;  // pixels there are; nothing outside them is used
  double from = 0;
  double to = 0;
  uint32_t outputs = 0;  // pixels of the whole result
  uint32_t first = 0;    // the stretch of outputs wanted
  uint32_t count = 0;
  ResizeRule rule = ResizeRule::pillow;  // of torch, boxes are whole images

  // Whether outputs are inputs, one for one.
  bool identity() const { return outputs == input && from == 0 && to == outputs; }
};

// A half-open range of input pixels.
struct InputRange {
  uint32_t begin = 0;
  uint32_t end = 0;
};

// The inputs that an axis's outputs use. REQUIRES: axis.count > 0.
InputRange inputs_of(const Axis& axis, Interpolation interpolation);

// Weights of `outputs` outputs, `stride` each, of which the first counts[i] are used, for the
// inputs from starts[i] on; unused ones are 0. Lies in somebody else's memory.
struct AxisWeights {
  uint32_t outputs = 0;
  uint32_t stride = 0;  // a multiple of 4
  std::span<const uint32_t> starts;
  std::span<const uint32_t> counts;
  std::span<const int32_t> weights;
};

// Words of memory that the weights of an axis take. REQUIRES: not nearest.
struct WeightRoom {
  size_t weights = 0;
  size_t bounds = 0;
};
WeightRoom room_for(const Axis& axis, Interpolation interpolation);

// The weights for the outputs of an axis, those of the last output first if `mirrored`, in memory
// of at least room_for(). Input positions are given relative to `origin`. Kernels may read `stride`
// inputs from each start on: starts are moved down, with weights of 0 in front, where that would go
// to `readable` or beyond (relative to origin too), as far as there are inputs. REQUIRES: not
// nearest; origin <= inputs_of(axis).begin.
AxisWeights compute_weights(const Axis& axis, Interpolation interpolation, bool mirrored,
                            uint32_t origin, uint32_t readable, std::span<int32_t> weights,
                            std::span<uint32_t> bounds);

// The same for one output as it is before it becomes fixed-point, for images of other types.
struct Taps {
  uint32_t start = 0;  // the first input
  std::vector<double> weights;
};
// REQUIRES: not nearest.
std::vector<Taps> compute_taps(const Axis& axis, Interpolation interpolation);

// For nearest: the input of each output, relative to `origin`.
void compute_nearest(const Axis& axis, bool mirrored, uint32_t origin, std::span<uint32_t> inputs);

}  // namespace foreload
