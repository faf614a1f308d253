// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/workload.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "foreload/dataset/index.h"
#include "foreload/plan/traffic.h"

namespace foreload::sim {

Result<Sizes> sizes_of(const DatasetSettings& dataset) {
  if (!dataset.index.empty()) {
    FORELOAD_TRY(const DatasetIndex index, DatasetIndex::load(dataset.index));
    return Sizes::of(index.sample_sizes());
  }
  if (dataset.sigma == 0) return Sizes::uniform(dataset.samples, dataset.mean);
  return Sizes::normal(dataset.samples, dataset.mean, dataset.sigma, dataset.seed);
}

Result<Workload> Workload::make(const Scenario& scenario) {
  FORELOAD_TRY(Sizes sizes, sizes_of(scenario.dataset));
  const uint64_t samples = sizes.samples();
  if (samples > UINT32_MAX)
    return fail(
        ErrorKind::invalid,
        fmt::format("dataset.samples is {}: the simulator takes at most {}", samples, UINT32_MAX));
  FORELOAD_TRY(auto order, make_order({scenario.training.order}, samples, scenario.training.seed));
  Workload workload(std::move(sizes), std::move(order));
  workload.sharding_ = {samples, scenario.cluster.ranks, Pad::repeat, 0};
  workload.batching_ = {scenario.training.batch_size, scenario.training.drop_last};
  workload.epochs_ = scenario.training.epochs;
  workload.reads_ = workload.sharding_.per_rank();
  if (scenario.training.drop_last)
    workload.reads_ -= workload.reads_ % scenario.training.batch_size;
  if (workload.reads_ == 0)
    return fail(ErrorKind::invalid,
                fmt::format("{} samples on {} ranks are less than one batch of {} each: make "
                            "training.batch_size smaller, or training.drop_last false",
                            samples, scenario.cluster.ranks, scenario.training.batch_size));
  return workload;
}

EpochLists Workload::lists(uint64_t epoch) const {
  EpochLists lists;
  lists.reads = reads_;
  lists.samples.resize(reads_ * sharding_.ranks);
  const auto order = std::move(*order_->epoch(epoch));
  // Positions are dealt to ranks in turn, so a stretch of the order is a few steps of all ranks.
  constexpr uint64_t kStretch = 1 << 14;
  std::vector<uint64_t> part;
  const uint64_t steps = std::max<uint64_t>(1, kStretch / sharding_.ranks);
  for (uint64_t first = 0; first < reads_; first += steps) {
    const uint64_t count = std::min(steps, reads_ - first);
    part.resize(count * sharding_.ranks);
    read_global_list(*order, sharding_, first * sharding_.ranks, part);
    for (uint64_t step = 0; step < count; ++step) {
      for (uint32_t rank = 0; rank < sharding_.ranks; ++rank)
        lists.samples[rank * reads_ + first + step] =
            static_cast<uint32_t>(part[step * sharding_.ranks + rank]);
    }
  }
  return lists;
}

uint64_t Workload::source_bytes_lower_bound(uint64_t capacity) const {
  std::vector<uint64_t> epoch_bytes(epochs_);
  std::vector<uint64_t> seen_bytes(epochs_);
  std::vector<uint32_t> last_epoch(sizes_.samples());  // 1 + the epoch that read it last
  uint64_t seen = 0;
  for (uint64_t epoch = 0; epoch < epochs_; ++epoch) {
    seen_bytes[epoch] = seen;
    for (const uint32_t sample : lists(epoch).samples) {
      if (last_epoch[sample] == epoch + 1) continue;
      if (last_epoch[sample] == 0) seen += sizes_[sample];
      last_epoch[sample] = static_cast<uint32_t>(epoch + 1);
      epoch_bytes[epoch] += sizes_[sample];
    }
  }
  return source_lower_bound(epoch_bytes, seen_bytes, capacity);
}

}  // namespace foreload::sim
