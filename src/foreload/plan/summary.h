// SPDX-License-Identifier: Apache-2.0
//
// A plan in figures: a table for people, an object for machines. The program and the Python package
// show the same.
#pragma once

#include <optional>
#include <string>

#include "foreload/plan/plan.h"

namespace foreload {

struct SummaryOptions {
  double plan_seconds = 0;     // how long making the plan took
  std::optional<double> rate;  // samples per second that each rank consumes
};

// The figures that both forms share.
struct Summary {
  double coverage = 0;        // share of samples kept somewhere
  double coverage_bytes = 0;  // the same by size
  double local_read_fraction = 0;
  double peer_read_fraction = 0;
  double source_read_fraction = 0;
  uint64_t peak_rss_bytes = 0;  // of this process, so far
};
Summary summarise(const Plan& plan);

std::string to_text(const Plan& plan, const SummaryOptions& options = {});
std::string to_json(const Plan& plan, const SummaryOptions& options = {});

}  // namespace foreload
