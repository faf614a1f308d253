// SPDX-License-Identifier: Apache-2.0
//
// RandomErasing of finished samples: a box of a color, or of normal noise, in the output's type.
//
// Pure.
#pragma once

#include <cstddef>
#include <span>

#include "foreload/decode/sample_plan.h"
#include "foreload/decode/transform.h"

namespace foreload {

// Overwrites a part of the sample in `into`, of the type and layout that the form has. REQUIRES: a
// float type of 32 or 16 bits, at most three channels; the box lies in `size`.
void erase(const Erasure& erasure, const OutputForm& form, ImageSize size,
           std::span<std::byte> into);

}  // namespace foreload
