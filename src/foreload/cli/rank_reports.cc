// SPDX-License-Identifier: Apache-2.0
#include "foreload/cli/rank_reports.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/loader/counters.h"

namespace foreload::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

bool was_lost(const Loader& loader, uint32_t rank) {
  const std::vector<uint32_t> dead = loader.stats().engine.dead_peers;
  return std::find(dead.begin(), dead.end(), rank) != dead.end();
}

// A value that another rank will put, unless it dies first or the time is over.
std::optional<std::string> wait_for(Rendezvous& rendezvous, const Loader& loader, uint32_t rank,
                                    const std::string& key, Clock::time_point until) {
  while (Clock::now() < until) {
    auto value = get_in_pieces(rendezvous, key, std::chrono::milliseconds(500));
    if (value) return std::move(*value);
    if (value.error().kind != ErrorKind::cancelled) return std::nullopt;
    if (was_lost(loader, rank)) return std::nullopt;
  }
  return std::nullopt;
}

std::string key_of(const char* what, uint32_t rank) {
  return fmt::format("{}/{}", what, rank);
}

template <class Number>
void add_to(Json& sum, const Json& more) {
  sum = sum.get<Number>() + more.get<Number>();
}

void make_larger(Json& most, const Json& other) {
  most = std::max(most.get<double>(), other.get<double>());
}

void add_all(Json& sums, const Json& more) {
  for (const auto& [key, value] : more.items()) add_to<uint64_t>(sums[key], value);
}

Json summed_epochs(const std::vector<Json>& reports) {
  Json epochs = Json::array();
  for (size_t e = 0; e < reports[0]["epochs"].size(); ++e) {
    Json sum = reports[0]["epochs"][e];
    sum.erase("digest");
    for (size_t r = 1; r < reports.size(); ++r) {
      if (reports[r].is_null()) continue;
      const Json& other = reports[r]["epochs"][e];
      // What held up the slowest rank held up the job.
      if (other["seconds"] > sum["seconds"]) sum["verdict"] = other["verdict"];
      for (const char* key : {"samples", "bytes", "same_host_bytes"})
        add_to<uint64_t>(sum[key], other[key]);
      for (const char* key : {"from", "counters"}) add_all(sum[key], other[key]);
      for (const char* key : {"seconds", "wait_fraction"}) make_larger(sum[key], other[key]);
      for (const auto& [share, wait] : other["batch_wait_ms"].items())
        make_larger(sum["batch_wait_ms"][share], wait);
    }
    epochs.push_back(std::move(sum));
  }
  return epochs;
}

double seconds_of(const Json& report) {
  double seconds = 0;
  for (const Json& epoch : report["epochs"]) seconds += epoch["seconds"].get<double>();
  return seconds;
}

// What each rank lost, and which ranks are lost themselves, one line each.
std::vector<std::string> losses_of_job(const std::vector<Json>& reports) {
  std::vector<std::string> losses;
  for (size_t r = 0; r < reports.size(); ++r) {
    if (reports[r].is_null()) {
      losses.push_back(fmt::format("rank {} was lost", r));
      continue;
    }
    for (const Json& loss : reports[r]["verdict"]["losses"])
      losses.push_back(fmt::format("rank {}: {}", r, loss.get<std::string>()));
  }
  return losses;
}

// That of the slowest rank, with what all of them lost.
Json verdict_of_job(const std::vector<Json>& reports) {
  const Json* slowest = &reports[0];
  for (const Json& report : reports)
    if (!report.is_null() && seconds_of(report) > seconds_of(*slowest)) slowest = &report;
  Json verdict = (*slowest)["verdict"];
  verdict["losses"] = losses_of_job(reports);
  return verdict;
}

}  // namespace

std::vector<Json> gather_reports(Rendezvous& rendezvous, uint32_t rank, uint32_t ranks,
                                 const Loader& loader, const Json& own, Clock::time_point until) {
  if (rank != 0) {
    if (was_lost(loader, 0)) return {};
    if (!put_in_pieces(rendezvous, key_of("report", rank), own.dump())) return {};
    wait_for(rendezvous, loader, 0, "done", until);
    // Rank 0 may serve the rendezvous: it stays until all have seen that all are done.
    (void)put_in_pieces(rendezvous, key_of("seen", rank), "");
    return {};
  }
  std::vector<Json> reports(ranks);
  reports[0] = own;
  for (uint32_t other = 1; other < ranks; ++other) {
    const auto text = wait_for(rendezvous, loader, other, key_of("report", other), until);
    if (!text) continue;
    reports[other] = Json::parse(*text, nullptr, false);
    if (reports[other].is_discarded()) reports[other] = nullptr;
  }
  if (!put_in_pieces(rendezvous, "done", "")) return reports;
  for (uint32_t other = 1; other < ranks; ++other)
    if (!reports[other].is_null())
      wait_for(rendezvous, loader, other, key_of("seen", other), until);
  return reports;
}

Json report_of_job(const std::vector<Json>& reports) {
  Json job = reports[0];
  job.erase("rank");
  job["epochs"] = summed_epochs(reports);
  for (size_t r = 1; r < reports.size(); ++r) {
    if (reports[r].is_null()) continue;
    for (const char* key : {"held_samples", "held_bytes"})
      add_to<uint64_t>(job[key], reports[r][key]);
    for (const Counter& counter : counters())
      add_to<uint64_t>(job[std::string(counter.name)], reports[r][std::string(counter.name)]);
    for (const char* key : {"listing_seconds", "plan_seconds", "first_batch_seconds"})
      make_larger(job[key], reports[r][key]);
    job["peak_rss_bytes"] = std::max(job["peak_rss_bytes"].get<uint64_t>(),
                                     reports[r]["peak_rss_bytes"].get<uint64_t>());
  }
  job["verdict"] = verdict_of_job(reports);
  job["ranks"] = reports;
  return job;
}

void print_ranks(const std::vector<Json>& reports) {
  fmt::print("{:>5} {:>6} {:>9} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>7} {:>11}  {}\n",
             "epoch", "rank", "seconds", "memory", "disk", "same host", "peers", "source",
             "staging", "waited", "longest", "digest");
  for (size_t e = 0; e < reports[0]["epochs"].size(); ++e) {
    for (size_t r = 0; r < reports.size(); ++r) {
      if (reports[r].is_null()) {
        fmt::print("{:>5} {:>6} was lost\n", e, r);
        continue;
      }
      const Json& epoch = reports[r]["epochs"][e];
      auto from = [&epoch](const char* place) { return epoch["from"].value(place, uint64_t{0}); };
      const uint64_t same_host = epoch.value("same_host_bytes", uint64_t{0});
      fmt::print(
          "{:>5} {:>6} {:>9.2f} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11} {:>6.1f}% {:>8.1f} ms  "
          "{}\n",
          epoch["epoch"].get<uint64_t>(), r, epoch["seconds"].get<double>(),
          format_bytes(from("memory")), format_bytes(from("disk")), format_bytes(same_host),
          format_bytes(from("peer") - same_host), format_bytes(from("source")),
          format_bytes(from("staging")), 100 * epoch["wait_fraction"].get<double>(),
          epoch["batch_wait_ms"]["max"].get<double>(), epoch.value("digest", std::string()));
    }
  }
  for (size_t e = 0; e < reports[0]["epochs"].size(); ++e) {
    size_t slowest = 0;
    auto epoch_of = [&reports, e](size_t r) -> const Json& { return reports[r]["epochs"][e]; };
    for (size_t r = 1; r < reports.size(); ++r)
      if (!reports[r].is_null() && epoch_of(r)["seconds"] > epoch_of(slowest)["seconds"])
        slowest = r;
    fmt::print("epoch {}: rank {}, the slowest, {}\n", epoch_of(slowest)["epoch"].get<uint64_t>(),
               slowest, epoch_of(slowest)["verdict"]["text"].get<std::string>());
  }
  for (const std::string& loss : losses_of_job(reports)) fmt::print("lost: {}\n", loss);
}

}  // namespace foreload::cli
