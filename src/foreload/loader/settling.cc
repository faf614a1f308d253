// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/settling.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "foreload/loader/disk_order.h"
#include "foreload/loader/probe.h"
#include "foreload/loader/starting_point.h"
#include "foreload/stores/shaped.h"

namespace foreload {

Job job_of(const LoaderSettings& settings) {
  Job job;
  job.order = settings.order;
  job.seed = settings.seed;
  job.ranks = settings.ranks;
  job.epochs = settings.epochs;
  job.pad = settings.pad;
  job.batching = settings.batching;
  job.first_epoch = settings.first_epoch;
  job.start = settings.start;
  return job;
}

void share_budgets(LoaderSettings& settings) {
  if (settings.per_rank) return;
  settings.memory /= settings.ranks_per_node;
  for (DiskBudget& disk : settings.disks) disk.bytes /= settings.ranks_per_node;
}

void slow_down_source(LoaderSettings& settings) {
  if (settings.source_bandwidth == 0 && settings.source_latency_ms == 0) return;
  Shape shape;
  shape.bytes_per_second = static_cast<double>(settings.source_bandwidth);
  shape.latency = std::chrono::microseconds(std::llround(settings.source_latency_ms * 1000));
  settings.wrap_source = [shape](auto make, auto answered) {
    return shape_source(std::move(make), shape, std::move(answered));
  };
}

uint64_t usual_staging(const LoaderSettings& settings, const Sizes& sizes, const Sizes* made_from) {
  constexpr uint64_t kUsual = uint64_t{128} << 20;
  const uint64_t decoded = settings.transform ? settings.transform.fixed_bytes() : 0;
  if (decoded == 0) return kUsual;
  const uint64_t batches = settings.decoded_memory ? 6 : 3;
  const uint64_t samples = batches * settings.batching.batch_size;
  const uint64_t file = std::min((made_from ? *made_from : sizes).mean(), kUsual / samples);
  const uint64_t made = made_from ? sizes.mean() : 0;
  // The eighth beyond is for batches of larger files: memory that is a little too small would be
  // given back, and cleared by the system before it comes again, which costs more than all the rest
  // of the engine.
  const uint64_t bytes = samples * (file + made + decoded);
  return std::max(kUsual, bytes + bytes / 8);
}

void settle_tiers(LoaderSettings& settings, const MachineProfile& machine, LoaderStart& start) {
  std::vector<std::filesystem::path> folders;
  for (const DiskBudget& disk : settings.disks) folders.push_back(disk.folder);
  // Ranks must come to the same plan, and each of them would measure something else.
  const MeasureDisk measure = settings.ranks == 1 ? &quick_disk_rate : MeasureDisk();
  start.tiers.push_back({.folder = {}, .bytes = settings.memory, .why = settings.memory_why});
  std::vector<DiskBudget> sorted;
  for (const RankedDisk& disk : order_disks(folders, machine, measure)) {
    sorted.push_back(settings.disks[disk.number]);
    start.tiers.push_back({.folder = sorted.back().folder,
                           .bytes = sorted.back().bytes,
                           .rate = disk.rate,
                           .speed_from = disk.from,
                           .why = sorted.back().why});
  }
  settings.disks = std::move(sorted);
}

uint64_t needed_bytes(const Sizes& sizes, const LoaderSettings& settings) {
  const uint64_t share = sizes.total() / settings.ranks + 2 * sizes.largest();
  return settings.join ? std::min(share, sizes.total()) : sizes.total();
}

void cut_budgets(const Sizes& sizes, LoaderSettings& settings, LoaderStart& start) {
  const uint64_t needed = needed_bytes(sizes, settings);
  settings.memory = std::min(settings.memory, needed);
  start.tiers.at(0).bytes = settings.memory;
  uint64_t left = needed;
  size_t used = 0;
  for (; used < settings.disks.size() && left > 0; ++used) {
    uint64_t& budget = settings.disks[used].bytes;
    budget = std::min(budget, disk_budget_for(left, sizes.mean()));
    left -= std::min(left, disk_payload(budget, sizes.mean()));
    start.tiers[1 + used].bytes = budget;
  }
  settings.disks.resize(used);
  start.tiers.resize(1 + used);
}

void settle_limiters(const LoaderSettings& settings, const MachineProfile& machine,
                     const std::filesystem::path& root, uint32_t local, LoaderStart& start,
                     PolicySettings& policy) {
  policy.source_limiter.first = 8;
  const auto best = best_concurrency(measured_at(machine, DeviceKind::source, root));
  policy.source_limiter =
      shared_among(settings.ranks, best, local < settings.ranks ? BestOf::node : BestOf::path,
                   policy.source_limiter);
  start.source_first = policy.source_limiter.first;
  policy.tier_limiters.resize(1 + settings.disks.size());
  policy.tier_limiters[0] = {256, 256, 256};  // memory: nothing to find out
  for (size_t tier = 1; tier < policy.tier_limiters.size(); ++tier) {
    Limiter::Settings& limiter = policy.tier_limiters[tier] = {1, 64, 16};
    const auto of_disk =
        best_concurrency(measured_at(machine, DeviceKind::disk, settings.disks[tier - 1].folder));
    if (of_disk) limiter.first = part_of(*of_disk, local, limiter);
  }
  for (size_t tier = 0; tier < start.tiers.size(); ++tier)
    start.tiers[tier].first = policy.tier_limiters[tier].first;
}

namespace {

// One of so many ranks' part of a device; nothing of what was not measured.
PathSpeed share_of(const MachineProfile& machine, DeviceKind kind,
                   const std::filesystem::path& path, uint32_t ranks) {
  const DeviceProfile* device = measured_at(machine, kind, path);
  return device == nullptr ? PathSpeed{} : PathSpeed{best_rate(*device) / ranks, device->latency};
}

// That of the source, if all ranks are on this node and the user did not make it slower.
PathSpeed source_share(const LoaderSettings& settings, const MachineProfile& machine,
                       const std::filesystem::path& root, uint32_t local) {
  const bool known =
      local >= settings.ranks && settings.source_bandwidth == 0 && settings.source_latency_ms == 0;
  return known ? share_of(machine, DeviceKind::source, root, settings.ranks) : PathSpeed{};
}

}  // namespace

void leave_out_slow_disks(const LoaderSettings& settings, const MachineProfile& machine,
                          const LoaderStart& start, Job& job) {
  if (settings.objective == Objective::traffic) return;
  const uint32_t local = std::min(settings.ranks, settings.ranks_per_node);
  std::vector<PlannedTier>& tiers = job.tiers.at(0);
  for (size_t tier = 1; tier < tiers.size(); ++tier)
    tiers[tier].rate = share_of(machine, DeviceKind::disk, start.tiers.at(tier).folder, local).rate;
  leave_out_slow_tiers(tiers, source_share(settings, machine, start.root, local).rate);
}

void settle_speeds(const LoaderSettings& settings, const MachineProfile& machine,
                   const std::filesystem::path& root, uint32_t local, PolicySettings& policy) {
  policy.speeds.source = source_share(settings, machine, root, local);
  policy.speeds.tiers = {{}};  // memory
  for (const DiskBudget& disk : settings.disks)
    policy.speeds.tiers.push_back(share_of(machine, DeviceKind::disk, disk.folder, local));
}

}  // namespace foreload
