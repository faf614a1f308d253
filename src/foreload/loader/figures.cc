// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/figures.h"

#include <algorithm>

#include "foreload/base/cpus.h"

namespace foreload {
namespace {

// What is left of a budget after all that is asked for.
uint64_t left_of(uint64_t budget, std::initializer_list<uint64_t> parts) {
  for (const uint64_t part : parts) budget -= std::min(budget, part);
  return budget;
}

uint64_t bytes_from_peers(const EngineStats& stats) {
  uint64_t bytes = 0;
  for (const PeerStats& peer : stats.peers) bytes += peer.bytes;
  return bytes;
}

// Seconds of threads that copy, where nothing is decoded.
double copy_seconds(const EngineStats& stats) {
  return stats.stages.empty() ? 0 : stats.stages.back().totals.in_flight_seconds;
}

double busy_source(const EngineStats& stats) {
  return stats.stages.empty() ? 0 : stats.stages.front().totals.busy_seconds;
}

}  // namespace

EpochFigures lasting_figures(const LoaderSettings& settings, const EngineParts& parts,
                             const LoaderStart& start, uint32_t local, uint64_t memory_limit) {
  const Plan& plan = *parts.plan;
  EpochFigures figures;
  figures.cpus = available_cpus();
  figures.decode_threads = parts.transform ? parts.hands->threads() : 0;
  figures.data_bytes = plan.sizes().total();
  if (parts.policy.made_from) figures.made_from_bytes = parts.policy.made_from->total();
  figures.kept_decoded = parts.form && !parts.form->finish_decodes();
  const Capacities& capacities = plan.capacities();
  uint64_t in_memory = 0;
  if (settings.join) {
    figures.kept_bytes = capacities.total();
    in_memory = capacities.tiers() > 0 ? capacities.of_tier(0) : 0;
    figures.nodes = std::max(1u, settings.ranks / local);
  } else {
    figures.kept_bytes = capacities.of_rank(settings.rank);
    in_memory = capacities.tiers() > 0 ? capacities.at(settings.rank, 0) : 0;
  }
  figures.disk_bytes = figures.kept_bytes - in_memory;
  for (const TierStart& tier : start.tiers)
    if (!tier.folder.empty() && tier.rate > 0)
      figures.disk_rate =
          figures.disk_rate > 0 ? std::min(figures.disk_rate, tier.rate) : tier.rate;
  figures.memory_bytes = settings.memory * local;
  figures.memory_left = left_of(memory_limit, {settings.memory * local, settings.staging * local,
                                               parts.index->bytes() * local});
  if (plan.order().shared()) {
    const uint64_t entries = plan.order().shape(plan.job().first_epoch).entries;
    figures.epoch_samples = plan.dealt(entries, 0).per_rank();
  }
  return figures;
}

void set_counters(const EngineStats& before, const EngineStats& now, const EpochFigures& lasting,
                  EpochFigures& figures) {
  auto stage = [&figures](Limit limit) -> StageFigures& {
    return figures.stages[static_cast<size_t>(limit)];
  };
  stage(Limit::source) = {busy_source(now) - busy_source(before),
                          now.source_bytes - before.source_bytes};
  stage(Limit::network) = {now.peer_requests.busy_seconds - before.peer_requests.busy_seconds,
                           bytes_from_peers(now) - bytes_from_peers(before)};
  stage(Limit::disk) = {now.disks.busy_seconds - before.disks.busy_seconds,
                        now.disk_bytes - before.disk_bytes};
  const double threads = now.stages.empty() ? 1 : std::max(1u, now.stages.back().limit);
  const double worked = lasting.decode_threads > 0 ? now.decode_seconds - before.decode_seconds
                                                   : copy_seconds(now) - copy_seconds(before);
  stage(Limit::decode) = {worked / threads, 0};

  figures.skipped = now.skipped_samples - before.skipped_samples;
  figures.skipped_names.assign(now.skipped.begin() + static_cast<ptrdiff_t>(before.skipped.size()),
                               now.skipped.end());
  figures.retries = now.policy.retries - before.policy.retries;
  figures.corrupt_copies = now.corrupt_copies - before.corrupt_copies;
  figures.dead_peers.clear();
  for (const uint32_t rank : now.dead_peers) {
    if (std::ranges::find(now.left_peers, rank) == now.left_peers.end())
      figures.dead_peers.push_back(rank);
  }
  figures.lost_tiers = now.lost_tiers;
  // A disk that is off keeps nothing; disks count alike.
  const uint64_t disks = now.stages.size() > 3 ? now.stages.size() - 3 : 0;
  const uint64_t gone =
      disks == 0 ? 0
                 : lasting.disk_bytes / disks * std::min<uint64_t>(disks, now.lost_tiers.size());
  figures.disk_bytes = lasting.disk_bytes - gone;
  figures.kept_bytes = lasting.kept_bytes - gone;
}

}  // namespace foreload
