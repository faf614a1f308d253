// SPDX-License-Identifier: Apache-2.0
//
// Small jobs and their plans.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "foreload/plan/plan.h"

namespace foreload {

inline std::shared_ptr<const Plan> plan_of(Job job, Sizes sizes) {
  return std::make_shared<const Plan>(std::move(*Plan::make(job, std::move(sizes))));
}

inline Job job_of(uint64_t epochs, uint64_t memory, uint64_t disk = 0, uint64_t batch = 4) {
  Job job;
  job.epochs = epochs;
  job.batching.batch_size = batch;
  job.tiers = {{{"memory", memory, 2}, {"disk", disk, 1}}};
  return job;
}

inline std::vector<uint64_t> reading_list(const Plan& plan, uint64_t epoch, uint32_t rank = 0) {
  const auto order = std::move(*plan.order().epoch(epoch));
  std::vector<uint64_t> list(plan.sharding(epoch).per_rank());
  read_list(*order, plan.sharding(epoch), rank, 0, list);
  return list;
}

}  // namespace foreload
