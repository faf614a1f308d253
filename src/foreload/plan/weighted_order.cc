// SPDX-License-Identifier: Apache-2.0
//
// Samples drawn one after another without replacement, each time with chances in proportion to the
// weights of those that are left: what numpy's choice(replace=False, p=weights) and torch's
// WeightedRandomSampler(replacement=False) do. Efraimidis and Spirakis: every sample has the key
// u^(1/w), u uniform, and the largest keys come first. Here -log(u)/w, the smallest first; u is a
// function of seed, epoch and sample, so that every rank draws the same.
//
// This file is compiled without contraction to fused multiplications, and uses no function of the
// maths library: keys are the same on every machine.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/random.h"
#include "foreload/plan/stored_epoch.h"

namespace foreload {
namespace {

// Tells its random numbers from others of the same seed.
constexpr uint64_t kStream = 0x7765696768746564;

// -log(u) for a u in (0, 1) with 53 bits from the words. u = m * 2^-exponent with m in [0.7, 1.4),
// and log m is a series in s = (m - 1) / (m + 1).
double exponential(uint64_t words) {
  constexpr double kLog2 = 0.69314718055994530942;
  double m = (static_cast<double>(words >> 11) + 0.5) * 0x1p-53;
  int exponent = 0;
  while (m < 0.70710678118654752440) {
    m += m;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double square = s * s;
  double series = 0;
  for (int power = 21; power >= 1; power -= 2) series = series * square + 1.0 / power;
  return exponent * kLog2 - 2 * s * series;
}

class WeightedOrder final : public Order {
 public:
  // REQUIRES: 1 <= draws <= the number of weights above 0.
  WeightedOrder(std::shared_ptr<const std::vector<double>> weights, uint64_t draws, uint64_t seed)
      : Order("weighted", weights->size(), seed), weights_(std::move(weights)), draws_(draws) {}

  EpochShape shape(uint64_t) const override { return {draws_}; }

  Result<std::shared_ptr<const EpochOrder>> epoch(uint64_t epoch) const override {
    std::vector<std::pair<double, uint64_t>> keys;
    for (uint64_t sample = 0; sample < samples(); ++sample) {
      if ((*weights_)[sample] == 0) continue;
      const auto words = philox(seed() ^ kStream, sample, epoch);
      keys.emplace_back(exponential(uint64_t{words[0]} << 32 | words[1]) / (*weights_)[sample],
                        sample);
    }
    const auto end = keys.begin() + static_cast<std::ptrdiff_t>(draws_);
    if (end != keys.end()) std::nth_element(keys.begin(), end, keys.end());
    std::sort(keys.begin(), end);
    std::vector<uint64_t> ids(draws_);
    std::transform(keys.begin(), end, ids.begin(), [](const auto& key) { return key.second; });
    return std::make_shared<StoredEpoch<uint64_t>>(std::move(ids));
  }

  Digest digest() const override {
    const Digest seeded = Order::digest();
    return Digester()
        .add(seeded.high)
        .add(seeded.low)
        .add(std::span(*weights_))
        .add(draws_)
        .digest();
  }

 private:
  const std::shared_ptr<const std::vector<double>> weights_;
  const uint64_t draws_;
};

}  // namespace

MadeOrder weighted_order(const OrderSettings& settings, uint64_t samples, uint64_t seed) {
  auto refuse = [](std::string message) { return fail(ErrorKind::invalid, std::move(message)); };
  if (!settings.weights) return refuse("a weighted order needs weights: give one for each sample");
  const std::vector<double>& weights = *settings.weights;
  if (weights.size() != samples)
    return refuse(
        fmt::format("{} weights are given, but the data set has {} samples: give one for "
                    "each",
                    weights.size(), samples));
  for (uint64_t sample = 0; sample < samples; ++sample) {
    if (!std::isfinite(weights[sample]) || weights[sample] < 0)
      return refuse(fmt::format("the weight of sample {} is {}: give numbers from 0 on", sample,
                                weights[sample]));
  }
  const auto zeros = static_cast<uint64_t>(std::count(weights.begin(), weights.end(), 0.0));
  const uint64_t most = samples - zeros;
  if (most == 0) return refuse("all weights are 0: give some sample a weight above 0");
  if (settings.draws > most)
    return refuse(
        fmt::format("{} draws are asked for, but {} samples have a weight above 0: draw "
                    "at most so many",
                    settings.draws, most));
  return std::make_unique<WeightedOrder>(settings.weights,
                                         settings.draws == 0 ? most : settings.draws, seed);
}

}  // namespace foreload
