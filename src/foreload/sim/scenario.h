// SPDX-License-Identifier: Apache-2.0
//
// What is simulated: a cluster, a data set, a training, and the policies to try. Read from a JSON
// file (docs/simulator.md explains every key), or put together in code. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/model/curve.h"
#include "foreload/plan/order.h"
#include "foreload/plan/sizes.h"
#include "foreload/policy/settings.h"

namespace foreload::sim {

// Seconds before a read's first byte: a constant, or drawn from a log-normal distribution of this
// mean with `spread` as the standard deviation of its logarithm.
struct Latency {
  double mean = 0;
  double spread = 0;
};

struct DeviceSettings {
  Curve curve = Curve::flat(1);  // readers against bytes per second of all of them together
  Latency latency;
  double cpu = 0;  // CPU seconds for each byte that is read
};

// A level of a node's own storage; its ranks share it.
struct TierSettings {
  std::string name;
  uint64_t capacity = 0;  // bytes of payload per node
  DeviceSettings read;
  std::optional<Curve> write;  // nothing: writing costs no time
  double write_cpu = 0;        // CPU seconds for each byte that is written
  unsigned threads = 2;        // of each rank, that fill it; rivals only
};

struct ClusterSettings {
  uint32_t ranks = 1;
  uint32_t ranks_per_node = 1;
  std::vector<TierSettings> tiers;  // fastest first
  DeviceSettings source;
  std::optional<double> source_link;       // bytes per second between a node and the source
  double network = 1e10;                   // bytes per second of a node's link to others, each way
  double network_latency = 0;              // seconds
  uint64_t staging = uint64_t{128} << 20;  // bytes of batches ahead, per rank
  unsigned staging_threads = 2;            // of each rank, that fill it; rivals only
  std::optional<double> preprocess;        // bytes per second of one thread; nothing: takes no time
  unsigned preprocess_threads = 2;         // of each rank
  unsigned preprocess_cpus = 0;            // of a node, for all of them; 0: one for each thread
  uint64_t preprocessed = 0;               // bytes of a sample then
  std::string_view eviction = "in turn";   // a rule of policy/eviction.h
  double fresh_cpu = 0;  // CPU seconds for each byte of batches in memory that was not used before

  uint32_t nodes() const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
  uint32_t node_of(uint32_t rank) const { return rank / ranks_per_node; }
  // Of one preprocessing thread while all of its node are busy; 0: it takes no time.
  double busy_preprocess_rate() const {
    const double threads = static_cast<double>(preprocess_threads) * ranks_per_node;
    const double share = preprocess_cpus == 0 ? 1 : std::min(1.0, preprocess_cpus / threads);
    return share * preprocess.value_or(0);
  }
  // A rank's part of its node's tier.
  uint64_t capacity(uint32_t tier) const { return tiers[tier].capacity / ranks_per_node; }
};

struct DatasetSettings {
  std::filesystem::path index;  // of a real data set; empty: drawn
  uint64_t samples = 0;
  uint64_t mean = 0;  // bytes
  uint64_t sigma = 0;
  uint64_t seed = 0;
};

struct TrainingSettings {
  uint64_t epochs = 1;
  uint64_t batch_size = 64;  // of one rank
  bool drop_last = true;
  double compute = 1e9;  // bytes per second that a rank consumes
  std::string order = "torch";
  uint64_t seed = 0;
  double exchange = 0;          // seconds for gradients after every step
  double jitter = 0;            // standard deviation of a batch's compute time, as a share
  double straggler_share = 0;   // of all ranks, slower than the others
  double straggler_factor = 1;  // times as long
  Objective objective = Objective::time;  // as loaders have it; foreload only
};

struct Sweep {
  std::string key;                  // "cluster.tiers.0.capacity"
  std::vector<std::string> values;  // JSON values
};

struct Scenario {
  std::string name;
  ClusterSettings cluster;
  DatasetSettings dataset;
  TrainingSettings training;
  std::vector<std::string> policies;  // empty: all
  std::vector<Sweep> sweeps;
};

// The sample sizes of a data set. Fails as DatasetIndex::load() and Sizes do.
Result<Sizes> sizes_of(const DatasetSettings& dataset);

// A scenario before it is understood, so that single values can be replaced.
class ScenarioFile {
 public:
  // Fails with `unreadable`, and with `invalid` where it is not a JSON object.
  static Result<ScenarioFile> load(const std::filesystem::path& file);
  // `folder` is where relative paths in it begin.
  static Result<ScenarioFile> parse(std::string_view json, const std::filesystem::path& folder);

  // Replaces one value: `key` is a path like cluster.tiers.0.capacity, `value` JSON, or text that
  // is none ("2GB"). Fails with `invalid` if a part of the path is no key of the schema.
  Result<void> set(std::string_view key, std::string_view value);
  // What it says. Fails with `invalid`, naming the key and, for an unknown one, the nearest known,
  // and of a file the line.
  Result<Scenario> read() const;

 private:
  std::string text_;     // JSON
  std::string written_;  // as the file has it; empty if there is none
  std::filesystem::path folder_;
};

}  // namespace foreload::sim
