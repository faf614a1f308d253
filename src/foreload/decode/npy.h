// SPDX-License-Identifier: Apache-2.0
//
// Arrays in NumPy's .npy format (versions 1 to 3): header in, place of the data out. The data is
// used where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

struct NpyArray {
  std::string dtype;  // as written: "<f4", "|u1"
  bool fortran_order = false;
  std::vector<uint64_t> shape;
  std::span<const std::byte> data;
};

bool is_npy(std::span<const std::byte> file);
// Fails with `invalid` for what is not an array of numbers, is truncated, or has bytes left over.
Result<NpyArray> parse_npy(std::span<const std::byte> file);

}  // namespace foreload
