// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/scaled_down.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace foreload::sim {
namespace {

constexpr uint64_t kMostEpochs = 4;  // the first, and enough of the others
constexpr uint64_t kLeastSteps = 48;
constexpr uint64_t kLeastBatchesAhead = 8;

double deviation(const Sizes& sizes) {
  double sum = 0;
  for (uint64_t sample = 0; sample < sizes.samples(); ++sample)
    sum += std::pow(static_cast<double>(sizes[sample]) - static_cast<double>(sizes.mean()), 2);
  return std::sqrt(sum / static_cast<double>(sizes.samples()));
}

}  // namespace

Result<ScaledDown> scaled_down(const Scenario& scenario, uint64_t most_reads) {
  FORELOAD_TRY(const Sizes sizes, sizes_of(scenario.dataset));
  ScaledDown small{scenario, 1, 0};
  const uint64_t reads = sizes.samples() * scenario.training.epochs;
  if (reads <= most_reads) return small;
  TrainingSettings& training = small.scenario.training;
  training.epochs = std::min(training.epochs, kMostEpochs);
  small.epochs_left = scenario.training.epochs - training.epochs;
  const uint64_t step = training.batch_size * scenario.cluster.ranks;
  const uint64_t most_factor = std::max<uint64_t>(1, sizes.samples() / (step * kLeastSteps));
  small.factor =
      std::clamp<uint64_t>(sizes.samples() * training.epochs / most_reads, 1, most_factor);
  if (small.factor == 1) return small;
  DatasetSettings& dataset = small.scenario.dataset;
  if (!dataset.index.empty()) {
    dataset.index.clear();
    dataset.mean = sizes.mean();
    dataset.sigma = static_cast<uint64_t>(deviation(sizes));
  }
  dataset.samples = sizes.samples() / small.factor;
  for (TierSettings& tier : small.scenario.cluster.tiers) tier.capacity /= small.factor;
  uint64_t& staging = small.scenario.cluster.staging;
  const uint64_t sample = sizes.mean() + scenario.cluster.preprocessed;
  staging = std::max(staging / small.factor,
                     std::min(staging, kLeastBatchesAhead * training.batch_size * sample));
  return small;
}

double scaled_up_seconds(const ScaledDown& small, const Outcome& outcome) {
  const std::vector<double>& epochs = outcome.epoch_seconds;
  double seconds = outcome.seconds;
  if (epochs.size() > 1)
    seconds += static_cast<double>(small.epochs_left) *
               std::accumulate(epochs.begin() + 1, epochs.end(), 0.0) /
               static_cast<double>(epochs.size() - 1);
  return seconds * static_cast<double>(small.factor);
}

}  // namespace foreload::sim
