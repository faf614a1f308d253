// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/engine_counts.h"

#include <algorithm>
#include <bit>
#include <string>
#include <string_view>

namespace foreload {

EngineCounts::EngineCounts(const EngineParts& parts)
    : parts_(parts),
      loads_(parts.tiers.size() + 2, StageLoad(std::chrono::steady_clock::now())),
      disks_load_(std::chrono::steady_clock::now()),
      peers_load_(std::chrono::steady_clock::now()) {
  if (parts.peers) stats_.peers.resize(parts.plan->job().ranks);
  for (const uint32_t rank : parts.policy.neighbours) stats_.peers[rank].same_host = true;
}

void EngineCounts::count_corrupt(uint32_t rank) {
  count([rank](EngineStats& stats) {
    ++stats.corrupt_copies;
    ++stats.peers[rank].corrupt;
  });
}

void EngineCounts::count_decoded(uint64_t sample, std::chrono::nanoseconds took) {
  const double seconds = std::chrono::duration<double>(took).count();
  const uint64_t size = parts_.index->sample_size(sample);
  count([&](EngineStats& stats) {
    ++stats.decoded_samples;
    stats.decode_seconds += seconds;
    DecodedSizes& of_size =
        stats.decoded_sizes[std::min<size_t>(std::bit_width(size), kSizeClasses - 1)];
    ++of_size.samples;
    of_size.bytes += size;
    of_size.seconds += seconds;
  });
  const auto now = std::chrono::steady_clock::now();
  if (parts_.trace) parts_.trace->span("decode", "decode", now - took, now, sample);
}

void EngineCounts::update(const Policy& policy, const Present& present) {
  const PolicyTotals totals = policy.totals();
  const StagingTotals staging = parts_.staging->totals();
  const uint64_t abandoned = parts_.source->abandoned();
  const std::lock_guard lock(mutex_);
  stats_.policy = totals;
  stats_.staging = staging;
  stats_.abandoned_reads = abandoned;
  stats_.ready_batches = present.ready_batches;
  set_stages(policy, present);
}

void EngineCounts::set_stages(const Policy& policy, const Present& present) {
  const auto now = std::chrono::steady_clock::now();
  stats_.stages.resize(loads_.size());
  auto set = [&](size_t i, std::string_view name, uint64_t in_flight, uint64_t queued,
                 unsigned limit, double rate) {
    loads_[i].set(now, in_flight, queued);
    stats_.stages[i] = {std::string(name), limit, rate, loads_[i].totals()};
  };
  auto set_path = [&](size_t i, std::string_view name, const Limiter& limiter, uint64_t queued) {
    set(i, name, limiter.in_flight(), queued, limiter.limit(), limiter.rate());
  };
  const Limiter& source = policy.source_limiter();
  set_path(0, "source", source, stats_.policy.waiting_for_source);
  for (uint32_t tier = 0; tier < parts_.tiers.size(); ++tier)
    set_path(1 + tier, parts_.tiers[tier]->kind(), policy.tier_limiter(tier),
             policy.waiting_for_tier(tier));
  const Hands::Load hands = parts_.hands->load();
  set(loads_.size() - 1, "hands", hands.running, hands.waiting, parts_.hands->threads(), 0);
  disks_load_.set(now, present.disk_jobs, 0);
  stats_.disks = disks_load_.totals();
  peers_load_.set(now, present.peer_requests, 0);
  stats_.peer_requests = peers_load_.totals();
  if (!parts_.trace) return;
  parts_.trace->value("source in flight", now, source.in_flight());
  parts_.trace->value("source limit", now, source.limit());
  parts_.trace->value("waiting for the source", now,
                      static_cast<double>(stats_.policy.waiting_for_source));
  parts_.trace->value("ready batches", now, static_cast<double>(present.ready_batches));
}

EngineStats EngineCounts::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace foreload
