// SPDX-License-Identifier: Apache-2.0
//
// Which chains of steps make sense, and what comes out of them. A chain is: Decode, then steps on
// 8-bit images (crops, resizes, turns, colors), then Normalize and ToDtype, and RandomErasing;
// ToLayout anywhere.
//
// Pure functions; any thread may call them.
#pragma once

#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/row_writer.h"
#include "foreload/decode/transform.h"

namespace foreload {

struct ChainResult {
  OutputForm form;
  ValueMath math;
  bool numbers = false;  // see step::Decode
};

// Puts a Decode in front of a chain that has none. Steps that change colors are not done to a
// `mask`, whatever its type. Fails with `invalid`, in one line that names the step and what to do.
Result<ChainResult> check_chain(Steps& steps, bool mask = false);

// The chain for masks: the same steps, to be planned with a MaskRule, from one channel of `type` to
// the same. REQUIRES: check_chain() has passed it.
Steps mask_chain(const Steps& steps, PixelType type);

}  // namespace foreload
