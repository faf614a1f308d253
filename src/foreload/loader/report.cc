// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/report.h"

#include <nlohmann/json.hpp>

#include "foreload/loader/counters.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

// Names of samples need not be UTF-8.
std::string as_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

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
  json["counters"] = Json::object();
  for (size_t i = 0; i < epoch.counted.size(); ++i)
    json["counters"][std::string(counters()[i].name)] = epoch.counted[i];
  if (!digest.empty()) json["digest"] = digest;
  json["verdict"] = Json::parse(to_json(judge(epoch.figures)));
  return as_line(json);
}

std::string to_json(const LoaderStats& stats) {
  Json json{{"verdict", Json::parse(to_json(judge(stats.figures)))},
            {"listing_seconds", stats.listing_seconds},
            {"listed", stats.listed},
            {"plan_seconds", stats.plan_seconds},
            {"index_bytes", stats.index_bytes},
            {"memory_overhead_bytes", stats.memory_overhead},
            {"held_samples", stats.held_samples},
            {"held_bytes", stats.held_bytes},
            {"source", stats.source},
            {"source_concurrency", stats.engine.stages.at(0).limit},
            {"stages", stages_json(stats.engine.stages)},
            {"peer_requests", {{"busy_seconds", stats.engine.peer_requests.busy_seconds}}},
            {"source_operations", operations_json(*stats.source_operations)},
            {"disk_operations", operations_json(*stats.disk_operations)},
            {"decode_seconds", stats.engine.decode_seconds},
            {"decode_by_size", sizes_json(stats.engine.decoded_sizes)},
            {"kept_bytes", stats.engine.kept_bytes},
            {"ready_batches", stats.engine.ready_batches},
            {"skipped_names", stats.engine.skipped},
            {"lost_tiers", stats.engine.lost_tiers},
            {"dead_peers", stats.engine.dead_peers},
            {"left_peers", stats.engine.left_peers},
            {"peers", peers_json(stats.engine.peers)}};
  visit_counters(stats.engine, [&json](const Counter& counter, uint64_t value) {
    json[std::string(counter.name)] = value;
  });
  return as_line(json);
}

}  // namespace foreload
