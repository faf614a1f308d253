// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/plan.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/cpus.h"
#include "foreload/base/wide.h"

namespace foreload {
namespace {

// Changes whenever the same job would be planned differently, so that ranks of different versions
// notice.
constexpr uint32_t kPlanVersion = 3;
// Counting more epochs than this says nothing new about who reads what most often.
constexpr uint64_t kMostCountedEpochs = 4096;
constexpr uint32_t kMostRanks = 1 << 24;

Result<void> check(const Job& job, const Sizes& sizes) {
  auto refuse = [](std::string message) { return fail(ErrorKind::invalid, std::move(message)); };
  if (job.ranks == 0) return refuse("a job needs at least one rank");
  if (job.ranks > kMostRanks)
    return refuse(fmt::format("{} ranks are too many: at most {}", job.ranks, kMostRanks));
  if (job.epochs == 0) return refuse("a job needs at least one epoch");
  if (job.batching.batch_size == 0) return refuse("a batch needs at least one sample");
  const Sharding whole{sizes.samples(), job.ranks, Pad::repeat, 0};
  const uint64_t epochs = job.epochs.value_or(kHorizon);
  uint64_t ignored = 0;
  if (__builtin_mul_overflow(whole.total(), epochs, &ignored) ||
      __builtin_add_overflow(job.first_epoch, epochs, &ignored))
    return refuse(fmt::format("{} samples x {} epochs do not fit 64 bits: plan fewer epochs",
                              sizes.samples(), epochs));
  // Padding repeats at most ranks - 1 samples per epoch.
  uint128_t bytes = sizes.total();
  bytes += static_cast<uint128_t>(job.ranks) * sizes.largest();
  if (bytes * epochs > UINT64_MAX)
    return refuse(fmt::format("{} epochs of {} bytes do not fit 64 bits: plan fewer epochs", epochs,
                              sizes.total()));
  if (!job.held.empty() && job.placement != PlacementKind::cover)
    return refuse("samples already held need the placement 'cover': use it, or leave held out");
  return {};
}

Result<void> check_order(const Job& job, const Order& order) {
  if (order.expected() == nullptr)
    return fail(ErrorKind::invalid,
                "a job cannot be planned ahead with a given order: use a seeded one");
  const uint64_t entries = order.expected()->shape(job.first_epoch).entries;
  if (job.start > entries)
    return fail(ErrorKind::invalid,
                fmt::format("cannot start after {} samples: an epoch has {}; start within it",
                            job.start, entries));
  return {};
}

Result<void> check_held(const Job& job, const Sizes& sizes, const Capacities& capacities) {
  for (const Held& held : job.held) {
    if (held.sample >= sizes.samples() || held.rank >= job.ranks || held.tier >= capacities.tiers())
      return fail(ErrorKind::invalid,
                  fmt::format("sample {} cannot be held by rank {} on tier {}: the job has {} "
                              "samples, {} ranks and {} tiers, numbered from 0",
                              held.sample, held.rank, held.tier, sizes.samples(), job.ranks,
                              capacities.tiers()));
  }
  return {};
}

// The part of a whole that one stage of the work makes up, in percent.
Progress stage(const Progress& whole, uint64_t from, uint64_t to) {
  if (!whole) return {};
  return [&whole, from, to](uint64_t done, uint64_t total) {
    return whole(from + (to - from) * done / std::max<uint64_t>(1, total), 100);
  };
}

}  // namespace

Result<Plan> Plan::make(const Job& job, Sizes sizes, const PlanOptions& options) {
  FORELOAD_CHECK(check(job, sizes));
  Plan plan(job, std::move(sizes));
  FORELOAD_TRY(plan.order_, make_order(job.order, plan.sizes_.samples(), job.seed));
  FORELOAD_CHECK(check_order(job, *plan.order_));
  FORELOAD_TRY(plan.capacities_, Capacities::of(job.ranks, job.tiers));
  FORELOAD_CHECK(check_held(job, plan.sizes_, plan.capacities_));

  const uint64_t epochs = plan.epochs();
  const uint64_t row_bytes = ReaderTable::bytes(plan.sizes_.samples(), job.ranks, 1);
  const uint64_t counted = std::min({epochs, kMostCountedEpochs, options.table_bytes / row_bytes});
  if (counted < std::min<uint64_t>(epochs, 2)) {
    if (job.placement == PlacementKind::independent || !job.held.empty())
      return fail(ErrorKind::invalid,
                  fmt::format("{} samples are too many to count who reads them: use the placement "
                              "'computed'",
                              plan.sizes_.samples()));
    plan.job_.placement = PlacementKind::computed;
  }
  if (plan.job_.placement == PlacementKind::computed) {
    plan.placement_ = place_computed(plan.sizes_, plan.capacities_, job.seed);
    plan.traffic_ =
        expect_traffic(plan.sizes_, plan.capacities_, plan.placement_,
                       plan.sharding(job.first_epoch), plan.sharding(job.first_epoch + 1), epochs);
    plan.digest_ = plan.compute_digest();
    return plan;
  }

  const unsigned threads = options.threads == 0 ? available_cpus() : options.threads;
  FORELOAD_TRY(ReaderTable table,
               ReaderTable::build(*plan.order_->expected(), job.ranks, job.pad,
                                  {job.first_epoch, static_cast<uint32_t>(counted), job.start},
                                  threads, stage(options.progress, 0, 60)));
  plan.table_ = std::make_unique<const ReaderTable>(std::move(table));
  PlacementOptions placing{job.seed, threads, job.held, stage(options.progress, 60, 85)};
  FORELOAD_TRY(plan.placement_,
               job.placement == PlacementKind::cover
                   ? place_cover(*plan.table_, plan.sizes_, plan.capacities_, placing)
                   : place_independent(*plan.table_, plan.sizes_, plan.capacities_, placing));
  placing.progress = stage(options.progress, 85, 100);
  FORELOAD_TRY(plan.traffic_, measure_traffic(*plan.table_, plan.sizes_, plan.capacities_,
                                              plan.placement_, epochs, placing));
  plan.digest_ = plan.compute_digest();
  return plan;
}

Sharding Plan::sharding(uint64_t epoch) const {
  return {order_->expected()->shape(epoch).entries, job_.ranks, job_.pad,
          epoch == job_.first_epoch ? job_.start : 0};
}

Sharding Plan::dealt(uint64_t entries, uint64_t start) const {
  if (!order_->shared()) return {entries, 1, job_.pad, 0};
  return {entries, job_.ranks, job_.pad, start};
}

Digest Plan::compute_digest() const {
  const Digest order = order_->digest();
  Digester digest;
  digest.add(kPlanVersion)
      .add(order.high)
      .add(order.low)
      .add(job_.seed)
      .add(job_.ranks)
      .add(job_.epochs.has_value())
      .add(epochs())
      .add(job_.pad)
      .add(job_.batching.batch_size)
      .add(job_.batching.drop_last)
      .add(job_.first_epoch)
      .add(job_.start)
      .add(sizes_.samples())
      .add(sizes_.each())
      .add(sizes_.total())
      .add(capacities_.tiers())
      .add(capacities_.flat())
      .add(placement_.kind())
      .add(placement_.owner_ranks())
      .add(placement_.owner_tiers())
      .add(placement_.backing_tiers())
      .add(placement_.holdings().limits());
  return digest.digest();
}

}  // namespace foreload
