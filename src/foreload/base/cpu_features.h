// SPDX-License-Identifier: Apache-2.0
//
// Which wide instructions the processor has and the system lets programs use. Asked of the
// processor itself: not every compiler comes with the run-time part of __builtin_cpu_supports().
// Any thread.
#pragma once

namespace foreload {

struct CpuFeatures {
  bool avx2 = false;    // with FMA and F16C, as every processor that has AVX2
  bool avx512 = false;  // F, BW, VL, DQ and VNNI, and all of the above
};

const CpuFeatures& cpu_features();

}  // namespace foreload
