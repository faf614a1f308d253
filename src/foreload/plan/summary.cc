// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/summary.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/bytes.h"
#include "foreload/base/memory_use.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Volume sum(const std::vector<Volume>& volumes) {
  Volume total;
  for (const Volume& volume : volumes) total += volume;
  return total;
}

// What one rank's copies and the source must deliver for the job to go on at a given rate, in
// bytes per second, from the second epoch on.
struct Demand {
  double first_epoch_source = 0;  // all ranks together
  double later_source = 0;        // all ranks together
  std::vector<double> tiers;      // per rank, for itself and for peers
  double network = 0;             // per rank, in and out each
};

Demand demand(const Plan& plan, double rate) {
  const PlannedTraffic& traffic = plan.traffic();
  const double bytes_per_rank = rate * static_cast<double>(plan.sizes().total()) /
                                static_cast<double>(plan.sizes().samples());
  const auto ranks = static_cast<double>(plan.job().ranks);
  Volume cached = sum(traffic.local);
  cached += sum(traffic.peer);
  const uint64_t later = cached.bytes + traffic.source_later.bytes;
  Demand result;
  result.first_epoch_source = bytes_per_rank * ranks;
  result.later_source = bytes_per_rank * ranks * share(traffic.source_later.bytes, later);
  for (size_t tier = 0; tier < traffic.local.size(); ++tier)
    result.tiers.push_back(bytes_per_rank *
                           share(traffic.local[tier].bytes + traffic.peer[tier].bytes, later));
  result.network = bytes_per_rank * share(sum(traffic.peer).bytes, later);
  return result;
}

std::string megabytes(double bytes_per_second) {
  return fmt::format("{:.1f} MB/s", bytes_per_second / 1e6);
}

// Samples read c times by a rank, mean over ranks.
std::vector<double> mean_histogram(const Plan& plan) {
  std::vector<double> mean;
  for (const uint64_t pairs : plan.traffic().access_histogram)
    mean.push_back(static_cast<double>(pairs) / plan.job().ranks);
  return mean;
}

void add_histogram(std::string& text, const Plan& plan) {
  const std::vector<double> mean = mean_histogram(plan);
  if (mean.empty()) return;
  constexpr size_t kRows = 24;  // as many as fit a terminal beside the table
  constexpr double kWidth = 44;
  size_t first = 0;
  while (first + 1 < mean.size() && mean[first] < 0.5) ++first;
  size_t last = mean.size() - 1;
  while (last > first && mean[last] < 0.5) --last;
  const size_t per_row = (last - first + kRows) / kRows;
  const uint64_t counted = plan.traffic().counted_epochs;
  fmt::format_to(std::back_inserter(text),
                 "\nhow often one rank reads a sample in {} epochs (samples per rank)\n", counted);
  std::vector<double> rows;
  for (size_t count = first; count <= last; count += per_row) {
    double samples = 0;
    for (size_t c = count; c < std::min(count + per_row, mean.size()); ++c) samples += mean[c];
    rows.push_back(samples);
  }
  const double most = *std::max_element(rows.begin(), rows.end());
  for (size_t row = 0; row < rows.size(); ++row) {
    const size_t from = first + row * per_row;
    const std::string label =
        per_row == 1 ? fmt::format("{}", from) : fmt::format("{}-{}", from, from + per_row - 1);
    const auto width = static_cast<size_t>(std::lround(rows[row] / most * kWidth));
    fmt::format_to(std::back_inserter(text), "{:>9} x |{:#<{}} {}\n", label, "", width,
                   format_count(static_cast<uint64_t>(std::llround(rows[row]))));
  }
}

Json volume_json(const Volume& volume) {
  return {{"reads", volume.reads}, {"bytes", volume.bytes}};
}

}  // namespace

Summary summarise(const Plan& plan) {
  const PlannedTraffic& traffic = plan.traffic();
  const uint64_t reads = traffic.read.reads;
  Summary summary;
  summary.coverage = share(traffic.covered.reads, plan.sizes().samples());
  summary.coverage_bytes = share(traffic.covered.bytes, plan.sizes().total());
  summary.local_read_fraction = share(sum(traffic.local).reads, reads);
  summary.peer_read_fraction = share(sum(traffic.peer).reads, reads);
  summary.source_read_fraction =
      share(traffic.source_first.reads + traffic.source_later.reads, reads);
  summary.peak_rss_bytes = peak_rss();
  return summary;
}

std::string to_text(const Plan& plan, const SummaryOptions& options) {
  const Summary summary = summarise(plan);
  const PlannedTraffic& traffic = plan.traffic();
  const Capacities& capacities = plan.capacities();
  const Job& job = plan.job();
  const uint64_t reads = traffic.read.reads;
  std::string text;
  auto line = [&text]<class... A>(fmt::format_string<A...> format, A&&... values) {
    fmt::format_to(std::back_inserter(text), format, std::forward<A>(values)...);
    text += '\n';
  };

  line("{:<13}{} samples, {} (mean {}){}", "data set", format_count(plan.sizes().samples()),
       format_bytes(plan.sizes().total()), format_bytes(plan.sizes().mean()),
       plan.sizes().unknown() == 0 ? ""
                                   : fmt::format("; {} sizes unknown, planned with the mean",
                                                 format_count(plan.sizes().unknown())));
  line("{:<13}{} rank{} x {} epoch{}{}, batches of {}, order {}, seed {}", "job",
       format_count(job.ranks), job.ranks == 1 ? "" : "s", format_count(plan.epochs()),
       plan.epochs() == 1 ? "" : "s", job.epochs ? "" : " (number unknown: a horizon)",
       format_count(job.batching.batch_size), plan.order().name(), job.seed);
  std::string parts;
  for (uint32_t tier = 0; tier < capacities.tiers(); ++tier)
    parts += fmt::format("{}{} {}", tier == 0 ? "" : " + ", capacities.name(tier),
                         format_bytes(capacities.of_tier(tier)));
  line("{:<13}{} in all ranks: {}", "capacity", format_bytes(capacities.total()), parts);
  line("{:<13}{}: {:.1f} % of samples kept, {:.1f} % of bytes", "placement", name_of(job.placement),
       100 * summary.coverage, 100 * summary.coverage_bytes);
  for (uint32_t tier = 0; tier < capacities.tiers(); ++tier)
    line("{:<13}  {}: {} copies, {}", "", capacities.name(tier),
         format_count(traffic.kept[tier].reads), format_bytes(traffic.kept[tier].bytes));
  text += '\n';
  line("where {} reads come from", format_count(reads));
  for (uint32_t tier = 0; tier < capacities.tiers(); ++tier)
    line("  {:<20}{:>6.1f} %", "own " + capacities.name(tier),
         100 * share(traffic.local[tier].reads, reads));
  for (uint32_t tier = 0; tier < capacities.tiers() && job.ranks > 1; ++tier)
    line("  {:<20}{:>6.1f} %", "other ranks' " + capacities.name(tier),
         100 * share(traffic.peer[tier].reads, reads));
  line("  {:<20}{:>6.1f} %", "source", 100 * summary.source_read_fraction);
  text += '\n';
  const uint64_t bound = traffic.source_bytes_lower_bound;
  line("{:<13}{} in all, at least {} with caches of this size{}", "source",
       format_bytes(traffic.source_bytes()), format_bytes(bound),
       bound == 0 ? "" : fmt::format(" (x {:.4f})", share(traffic.source_bytes(), bound)));
  if (options.rate) {
    const Demand needed = demand(plan, *options.rate);
    text += '\n';
    line("to feed {:.6g} samples/s to every rank", *options.rate);
    line("  {:<34}{:>16}", "source, first epoch, in all", megabytes(needed.first_epoch_source));
    line("  {:<34}{:>16}", "source, later epochs, in all", megabytes(needed.later_source));
    for (uint32_t tier = 0; tier < capacities.tiers(); ++tier)
      line("  {:<34}{:>16}", capacities.name(tier) + " of each rank",
           megabytes(needed.tiers[tier]));
    line("  {:<34}{:>16}", "network of each rank, each way", megabytes(needed.network));
  }
  add_histogram(text, plan);
  text += '\n';
  if (job.placement == PlacementKind::computed)
    line("{:<13}shares are expected values: with computed owners, reads are not counted", "note");
  else if (traffic.counted_epochs < plan.epochs())
    line("{:<13}{} of {} epochs were counted, the others are assumed to be the same", "note",
         traffic.counted_epochs, plan.epochs());
  line("{:<13}in {:.2f} s, peak memory {}, digest {}", "planned", options.plan_seconds,
       format_bytes(summary.peak_rss_bytes), plan.digest().hex());
  return text;
}

std::string to_json(const Plan& plan, const SummaryOptions& options) {
  const Summary summary = summarise(plan);
  const PlannedTraffic& traffic = plan.traffic();
  const Job& job = plan.job();
  Json tiers = Json::array();
  for (uint32_t tier = 0; tier < plan.capacities().tiers(); ++tier)
    tiers.push_back({{"name", plan.capacities().name(tier)},
                     {"capacity_bytes", plan.capacities().of_tier(tier)},
                     {"owned", traffic.owned[tier].reads},
                     {"owned_bytes", traffic.owned[tier].bytes},
                     {"copies", traffic.kept[tier].reads},
                     {"copy_bytes", traffic.kept[tier].bytes},
                     {"local", volume_json(traffic.local[tier])},
                     {"peer", volume_json(traffic.peer[tier])}});
  Json json{
      {"samples", plan.sizes().samples()},
      {"ranks", job.ranks},
      {"epochs", plan.epochs()},
      {"epochs_known", job.epochs.has_value()},
      {"counted_epochs", traffic.counted_epochs},
      {"batch_size", job.batching.batch_size},
      {"order", plan.order().name()},
      {"seed", job.seed},
      {"pad", job.pad == Pad::repeat ? "repeat" : "truncate"},
      {"placement", name_of(job.placement)},
      {"dataset_bytes", plan.sizes().total()},
      {"largest_sample_bytes", plan.sizes().largest()},
      {"unknown_sizes", plan.sizes().unknown()},
      {"cache_bytes", plan.capacities().total()},
      {"source_bytes", traffic.source_bytes()},
      {"source_bytes_lower_bound", traffic.source_bytes_lower_bound},
      {"coverage", summary.coverage},
      {"coverage_bytes", summary.coverage_bytes},
      {"reads", traffic.read.reads},
      {"local_read_fraction", summary.local_read_fraction},
      {"peer_read_fraction", summary.peer_read_fraction},
      {"source_read_fraction", summary.source_read_fraction},
      {"tiers", tiers},
      {"access_histogram", mean_histogram(plan)},
      {"plan_seconds", options.plan_seconds},
      {"peak_rss_bytes", summary.peak_rss_bytes},
      {"digest", plan.digest().hex()},
  };
  if (options.rate) {
    const Demand needed = demand(plan, *options.rate);
    json["rate"] = {{"samples_per_second_per_rank", *options.rate},
                    {"source_first_epoch_bytes_per_second", needed.first_epoch_source},
                    {"source_later_bytes_per_second", needed.later_source},
                    {"tier_bytes_per_second_per_rank", needed.tiers},
                    {"network_bytes_per_second_per_rank", needed.network}};
  }
  return json.dump(2);
}

}  // namespace foreload
