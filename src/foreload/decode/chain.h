// SPDX-License-Identifier: Apache-2.0
//
// Which chains of steps make sense, and what comes out of them. A chain is: Decode, then steps on
// 8-bit images (crops, resizes, flips, colors), then Normalize and ToDtype; ToLayout anywhere.
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

// Puts a Decode in front of a chain that has none. Fails with `invalid`, in one line that names the
// step and what to do.
Result<ChainResult> check_chain(std::vector<Step>& steps);

}  // namespace foreload
