// SPDX-License-Identifier: Apache-2.0
//
// How long a request on a path usually takes, so that one that takes far longer is noticed. A
// moving mean in which no request counts for more than four times the mean before it: a few that
// hang do not change what is usual.
#pragma once

#include <algorithm>

#include "foreload/policy/limiter.h"

namespace foreload {

class Pace {
 public:
  void add(RunTime took) {
    if (usual_ == RunTime{0}) {
      usual_ = took;
    } else {
      usual_ += (std::min(took, 4 * usual_) - usual_) / 16;
    }
  }
  // 0 before the first request.
  RunTime usual() const { return usual_; }

 private:
  RunTime usual_{0};
};

}  // namespace foreload
