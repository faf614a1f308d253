// SPDX-License-Identifier: Apache-2.0
//
// The plan of a training job: what every rank reads and when, what is kept where, and what that
// costs. Computed once, before the first read, by every rank for itself; equal digests prove that
// they came to the same result. Immutable, but for lists that somebody gives to the order: any
// thread may use it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/plan/order.h"
#include "foreload/plan/placement.h"
#include "foreload/plan/readers.h"
#include "foreload/plan/sizes.h"
#include "foreload/plan/traffic.h"

namespace foreload {

// What the user wants.
struct Job {
  OrderSettings order;
  uint64_t seed = 0;
  uint32_t ranks = 1;
  std::optional<uint64_t> epochs;  // unknown: planned over kHorizon epochs
  Pad pad = Pad::repeat;
  Batching batching{64, false};
  uint64_t first_epoch = 0;
  uint64_t start = 0;  // samples of the first epoch already consumed by all ranks together
  PlacementKind placement = PlacementKind::cover;
  std::vector<std::vector<PlannedTier>> tiers;  // per rank, or one entry for all; none: no cache
  std::vector<Held> held;
};

// Epochs planned for when nobody says how many there will be.
inline constexpr uint64_t kHorizon = 32;

struct PlanOptions {
  unsigned threads = 0;  // 0: the CPUs this process may use
  // Bound on the reader table. Beyond it counts are taken over fewer epochs, and where not even
  // two fit, `cover` becomes `computed`.
  uint64_t table_bytes = uint64_t{3} << 30;
  Progress progress;
};

class Plan {
 public:
  // Fails with `invalid` for a job that makes no sense, `cancelled` if progress says so.
  static Result<Plan> make(const Job& job, Sizes sizes, const PlanOptions& options = {});

  const Job& job() const { return job_; }
  const Sizes& sizes() const { return sizes_; }
  const Order& order() const { return *order_; }
  GivenOrder* given() const { return order_->given(); }
  uint64_t epochs() const { return job_.epochs.value_or(kHorizon); }
  // How an epoch of the job is dealt out, as planned; the first one may be a rest.
  Sharding sharding(uint64_t epoch) const;
  // How what is left of an epoch with so many entries is dealt out after `start` of them.
  Sharding dealt(uint64_t entries, uint64_t start) const;
  const Capacities& capacities() const { return capacities_; }
  const Placement& placement() const { return placement_; }
  // Null for a `computed` placement.
  const ReaderTable* table() const { return table_.get(); }
  const PlannedTraffic& traffic() const { return traffic_; }
  Digest digest() const { return digest_; }

 private:
  Plan(const Job& job, Sizes sizes) : job_(job), sizes_(std::move(sizes)) {}
  Digest compute_digest() const;

  Job job_;
  Sizes sizes_;
  std::unique_ptr<Order> order_;
  Capacities capacities_;
  std::unique_ptr<const ReaderTable> table_;
  Placement placement_;
  PlannedTraffic traffic_;
  Digest digest_;
};

}  // namespace foreload
