// SPDX-License-Identifier: Apache-2.0
//
// Samples as they lie in batches, for transforms that draw nothing: the file is decoded once, and
// from then on samples are copied. A copy into the batch is still made: the loop may change its
// batch in place while a tier is being given the kept bytes.
#pragma once

#include "foreload/decode/form.h"

namespace foreload {

// Refuses transforms that are random, give samples of several sizes, or leave some to a GPU.
Result<std::shared_ptr<const Form>> finished_form(std::shared_ptr<const Transform> transform);

}  // namespace foreload
