// SPDX-License-Identifier: Apache-2.0
//
// On which path a place waits: that of the nearest copy, or the source where the copy would come
// too late. Keeps the outlook's account of who waits where.
//
// For one thread.
#pragma once

#include "foreload/policy/demand.h"
#include "foreload/policy/paths.h"
#include "foreload/policy/window.h"

namespace foreload {

class Choice {
 public:
  Choice(const Desk& desk, Paths& paths, BatchWindow& window, const Demand& demand)
      : saves_time_(desk.settings.objective == Objective::time),
        paths_(paths),
        window_(window),
        demand_(demand) {}

  // The place waits for that path, or in front of all others for the source.
  void line_up(Origin from, BatchPlace place);
  void go_first(BatchPlace place);
  // There is a copy: the place waits for it, or for the source (Entry::detour).
  void line_up_for(Origin copy, BatchPlace place);
  // The first in line. REQUIRES: somebody waits for the path.
  BatchPlace take(Origin from);
  // It was taken out of its line by other means.
  void leave_line(BatchPlace place);

 private:
  bool is_too_late(Origin copy, BatchPlace place);

  const bool saves_time_;  // otherwise the nearest copy it is, and nothing is counted
  Paths& paths_;
  BatchWindow& window_;
  const Demand& demand_;
};

}  // namespace foreload
