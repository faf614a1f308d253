// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/report.h"

#include <nlohmann/json.hpp>

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

Json operations_json(const Operations& operations) {
  Json json = Json::object();
  operations.visit([&json](Operation operation, const Operations::Totals& totals) {
    json[std::string(name_of(operation))] = {
        {"count", totals.count},
        {"failed", totals.failed},
        {"seconds", static_cast<double>(totals.nanoseconds) / 1e9},
        {"bytes", totals.bytes},
        {"size_bins", totals.size_bins}};
  });
  return json;
}

Json stages_json(const std::vector<StageStats>& stages) {
  Json json = Json::array();
  for (const StageStats& stage : stages)
    json.push_back(
        {{"name", stage.name},
         {"busy_seconds", stage.totals.busy_seconds},
         {"waiting_seconds", stage.totals.waiting_seconds},
         {"in_flight",
          {{"mean", stage.totals.mean_in_flight()},
           {"most", stage.totals.most_in_flight},
           {"limit", stage.limit}}},
         {"queued", {{"mean", stage.totals.mean_queued()}, {"most", stage.totals.most_queued}}},
         {"bytes_per_second", stage.rate}});
  return json;
}

// Classes of sizes that have samples; "from_bytes" is the smallest size of the class.
Json sizes_json(const std::array<DecodedSizes, kSizeClasses>& classes) {
  Json json = Json::array();
  for (size_t i = 0; i < classes.size(); ++i) {
    if (classes[i].samples == 0) continue;
    json.push_back({{"from_bytes", i == 0 ? 0 : uint64_t{1} << (i - 1)},
                    {"samples", classes[i].samples},
                    {"bytes", classes[i].bytes},
                    {"seconds", classes[i].seconds}});
  }
  return json;
}

// Those with which anything passed.
Json peers_json(const std::vector<PeerStats>& peers) {
  Json json = Json::array();
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const PeerStats& peer = peers[rank];
    if (!peer.any()) continue;
    json.push_back({{"rank", rank},
                    {"same_host", peer.same_host},
                    {"same_host_samples", peer.same_host_samples},
                    {"same_host_bytes", peer.same_host_bytes},
                    {"samples", peer.samples},
                    {"bytes", peer.bytes},
                    {"served_samples", peer.served_samples},
                    {"served_bytes", peer.served_bytes},
                    {"wait_seconds", peer.wait_seconds},
                    {"longest_wait_ms", 1e3 * peer.longest_wait},
                    {"missing", peer.missing},
                    {"corrupt", peer.corrupt},
                    {"given_up", peer.given_up},
                    {"lost", peer.lost}});
  }
  return json;
}

}  // namespace

std::string to_json(const EpochStats& epoch, const std::string& digest) {
  auto from = [&epoch](From where) { return epoch.from_bytes[static_cast<size_t>(where)]; };
  Json json{{"epoch", epoch.epoch},
            {"seconds", epoch.seconds},
            {"samples", epoch.samples},
            {"bytes", epoch.bytes},
            {"from",
             {{"memory", from(From::memory)},
              {"disk", from(From::disk)},
              {"peer", from(From::peer) + from(From::same_host)},
              {"source", from(From::source)},
              {"staging", from(From::staging)}}},
            {"same_host_bytes", from(From::same_host)},
            {"wait_fraction", epoch.seconds > 0 ? epoch.wait_seconds / epoch.seconds : 0},
            {"batch_wait_ms",
             {{"p50", milliseconds(epoch.waits.quantile(0.5))},
              {"p99", milliseconds(epoch.waits.quantile(0.99))},
              {"max", milliseconds(epoch.waits.largest())}}}};
  if (!digest.empty()) json["digest"] = digest;
  json["verdict"] = Json::parse(to_json(judge(epoch.figures)));
  return json.dump();
}

std::string to_json(const LoaderStats& stats) {
  const Json json{{"verdict", Json::parse(to_json(judge(stats.figures)))},
                  {"listing_seconds", stats.listing_seconds},
                  {"listed", stats.listed},
                  {"plan_seconds", stats.plan_seconds},
                  {"index_bytes", stats.index_bytes},
                  {"memory_overhead_bytes", stats.memory_overhead},
                  {"held_samples", stats.held_samples},
                  {"held_bytes", stats.held_bytes},
                  {"source", stats.source},
                  {"source_bytes", stats.engine.source_bytes},
                  {"source_samples", stats.engine.source_samples},
                  {"source_concurrency", stats.engine.stages.at(0).limit},
                  {"stages", stages_json(stats.engine.stages)},
                  {"peer_requests", {{"busy_seconds", stats.engine.peer_requests.busy_seconds}}},
                  {"source_operations", operations_json(*stats.source_operations)},
                  {"disk_operations", operations_json(*stats.disk_operations)},
                  {"retries", stats.engine.policy.retries},
                  {"merged_reads", stats.engine.policy.merged},
                  {"hedged_reads", stats.engine.policy.hedged},
                  {"hedged_bytes", stats.engine.policy.hedged_bytes},
                  {"late_tier_reads", stats.engine.policy.late_tier_reads},
                  {"decoded_samples", stats.engine.decoded_samples},
                  {"decode_seconds", stats.engine.decode_seconds},
                  {"others_samples", stats.engine.others_samples},
                  {"others_bytes", stats.engine.others_bytes},
                  {"fetched_samples", stats.engine.fetched_samples},
                  {"fetched_bytes", stats.engine.fetched_bytes},
                  {"decode_by_size", sizes_json(stats.engine.decoded_sizes)},
                  {"kept_bytes", stats.engine.kept_bytes},
                  {"ready_batches", stats.engine.ready_batches},
                  {"read_ahead_samples", stats.engine.policy.read_ahead},
                  {"source_errors", stats.engine.source_errors},
                  {"corrupt_copies", stats.engine.corrupt_copies},
                  {"abandoned_reads", stats.engine.abandoned_reads},
                  {"skipped", stats.engine.skipped_samples},
                  {"skipped_names", stats.engine.skipped},
                  {"lost_tiers", stats.engine.lost_tiers},
                  {"served_samples", stats.engine.policy.served},
                  {"refused_requests", stats.engine.policy.refused},
                  {"pushed_samples", stats.engine.policy.pushed},
                  {"failed_pushes", stats.engine.policy.push_failed},
                  {"adopted_samples", stats.engine.policy.adopted},
                  {"replicas_kept", stats.engine.policy.replicas},
                  {"replicas_given_up", stats.engine.policy.gave_way},
                  {"dead_peers", stats.engine.dead_peers},
                  {"left_peers", stats.engine.left_peers},
                  {"peers", peers_json(stats.engine.peers)}};
  return json.dump();
}

}  // namespace foreload
