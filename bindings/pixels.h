// SPDX-License-Identifier: Apache-2.0
//
// How decoded samples look as numpy arrays.
#pragma once

#include <vector>

#include <pybind11/numpy.h>

#include "foreload/decode/transform.h"

namespace foreload::python {

// numpy has no bfloat16: its bits come as uint16. REQUIRES: the GIL is held.
pybind11::dtype dtype_of(PixelType type);
// Of one sample: C, H, W or H, W, C.
std::vector<pybind11::ssize_t> shape_of(const OutputForm& form);

}  // namespace foreload::python
