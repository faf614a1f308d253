// SPDX-License-Identifier: Apache-2.0
//
// What the ranks of a job report after `foreload read`: gathered at rank 0, summed, and printed as
// one table. For one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "foreload/loader/loader.h"

namespace foreload::cli {

// At rank 0: what all ranks report, in order; null for those that were lost. Elsewhere empty. All
// ranks stay until the last is done, because each holds what others read, or until the time is
// over.
std::vector<nlohmann::ordered_json> gather_reports(Rendezvous& rendezvous, uint32_t rank,
                                                   uint32_t ranks, const Loader& loader,
                                                   const nlohmann::ordered_json& own,
                                                   std::chrono::steady_clock::time_point until);

// The job as one report: the own one of rank 0 with the sums of all in place of its figures (times
// are those of the slowest), and all of them as "ranks". REQUIRES: the first is not null.
nlohmann::ordered_json report_of_job(const std::vector<nlohmann::ordered_json>& reports);

// One line for each epoch and rank, then what held up the slowest in each epoch, and what was lost.
void print_ranks(const std::vector<nlohmann::ordered_json>& reports);

}  // namespace foreload::cli
