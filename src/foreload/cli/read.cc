// SPDX-License-Identifier: Apache-2.0
//
// foreload read: drives the whole engine as a training loop would, without decoding, and says where
// the bytes came from and how long the loop waited. The honest I/O benchmark.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "foreload/base/bytes.h"
#include "foreload/base/hash.h"
#include "foreload/base/memory_use.h"
#include "foreload/base/paths.h"
#include "foreload/base/progress.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/rank_reports.h"
#include "foreload/cli/setting_options.h"
#include "foreload/cli/verbs.h"
#include "foreload/loader/job_ranks.h"
#include "foreload/loader/loader.h"
#include "foreload/loader/meeting.h"
#include "foreload/loader/report.h"
#include "foreload/loader/start_report.h"
#include "foreload/metrics/run_record.h"
#include "foreload/verdict/verdict.h"

namespace foreload::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct ReadOptions {
  std::string dataset;
  std::string step_ms = "0";
  bool in_step = false;
  std::string trace;
  std::string run_file;
  bool no_digest = false;
  bool json = false;
};

constexpr std::chrono::minutes kStepPatience{10};  // with ranks that are slower

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

Result<double> parse_milliseconds(std::string_view option, const std::string& text) {
  if (text == "0") return 0.0;
  return parse_rate(option, text);
}

// XXH3 over (index as 8 bytes little endian, then the bytes) of every sample in delivery order.
class DeliveryDigest {
 public:
  void add(uint64_t sample, std::span<const std::byte> bytes) {
    std::array<std::byte, 8> number;
    for (size_t i = 0; i < number.size(); ++i)
      number[i] = static_cast<std::byte>(sample >> (8 * i));
    hash_.add(number);
    hash_.add(bytes);
  }
  std::string hex() const { return fmt::format("{:016x}", hash_.value()); }

 private:
  Checksum64 hash_;
};

void print_epoch(const EpochStats& epoch, const std::string& digest) {
  const double seconds = std::max(epoch.seconds, 1e-9);
  auto from = [&epoch](From where) {
    return format_bytes(epoch.from_bytes[static_cast<size_t>(where)]);
  };
  const Verdict verdict = judge(epoch.figures);
  fmt::print(
      "epoch {}: {:.2f} s, {:.0f} samples/s, {:.1f} MB/s; from memory {}, disk {}, source {}{}; "
      "batch wait p50 {:.2f} ms, p99 {:.2f} ms, max {:.2f} ms{}; {}{}{}\n",
      epoch.epoch, epoch.seconds, static_cast<double>(epoch.samples) / seconds,
      static_cast<double>(epoch.bytes) / seconds / 1e6, from(From::memory), from(From::disk),
      from(From::source),
      epoch.from_bytes[static_cast<size_t>(From::staging)] > 0
          ? fmt::format(", copied in staging {}", from(From::staging))
          : "",
      milliseconds(epoch.waits.quantile(0.5)), milliseconds(epoch.waits.quantile(0.99)),
      milliseconds(epoch.waits.largest()), digest.empty() ? "" : "; digest " + digest, verdict.text,
      verdict.losses.empty() ? "" : "; lost: ", fmt::join(verdict.losses, ", "));
  std::fflush(stdout);
}

// Says on standard error what was lost in an epoch, each kind once; of tiers and ranks, which stay
// lost, those that were not told before.
class LossTeller {
 public:
  explicit LossTeller(std::string who) : who_(std::move(who)) {}
  void tell(EpochFigures figures) {
    const size_t tiers = figures.lost_tiers.size(), peers = figures.dead_peers.size();
    forget_first(figures.lost_tiers, tiers_);
    forget_first(figures.dead_peers, peers_);
    tiers_ = tiers;
    peers_ = peers;
    for (const std::string& line : losses_of(figures))
      fmt::print(stderr, "foreload: warning: {}epoch {}: {}\n", who_, figures.epoch, line);
  }

 private:
  template <class List>
  static void forget_first(List& list, size_t count) {
    list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(std::min(count, list.size())));
  }

  std::string who_;
  size_t tiers_ = 0;
  size_t peers_ = 0;
};

// Samples that the run did without, for its last line.
std::string skipped_text(const EngineStats& stats) {
  constexpr size_t kNames = 5;
  if (stats.skipped_samples == 0) return "";
  const size_t shown = std::min(kNames, stats.skipped.size());
  return fmt::format("; {} {} skipped: {}{}", format_count(stats.skipped_samples),
                     stats.skipped_samples == 1 ? "sample was" : "samples were",
                     fmt::join(stats.skipped.begin(), stats.skipped.begin() + shown, ", "),
                     stats.skipped_samples > shown ? ", ..." : "");
}

Result<void> take_part(const JobRanks& ranks, LoaderSettings& settings) {
  settings.rank = ranks.rank;
  settings.ranks = ranks.ranks;
  settings.ranks_per_node = ranks.local_ranks;
  MeetingSettings meeting;
  meeting.transport = settings.transport;
  meeting.timeout = settings.join_timeout;
  std::string warning;
  FORELOAD_TRY(const auto met, Meeting::arrange(ranks, meeting, warning));
  if (!warning.empty()) fmt::print(stderr, "foreload: warning: {}\n", warning);
  if (met) settings.join = met->join(0, meeting.timeout);
  return {};
}

// Ranks on one machine must not write to the same file.
std::string file_of_rank(const std::string& file, uint32_t rank, uint32_t ranks) {
  return ranks == 1 ? file : fmt::format("{}.{}", file, rank);
}

Result<void> check_outputs(const ReadOptions& options, uint32_t rank, uint32_t ranks) {
  for (const auto& [option, file] :
       {std::pair("--trace", &options.trace), std::pair("--run-file", &options.run_file)}) {
    if (!file->empty()) FORELOAD_CHECK(check_output_file(option, file_of_rank(*file, rank, ranks)));
  }
  return {};
}

// What is read, where its listing comes from, and where it is kept.
void print_start(const ReadOptions& options, const Loader& loader, const LoaderStart& start) {
  const size_t classes = loader.index().classes();
  const std::string tiers = tiers_text(start);
  fmt::print(
      "{}: {} samples {}, {}; {}; {}\n", options.dataset, format_count(loader.index().samples()),
      classes > 0
          ? fmt::format("in {} {}", format_count(classes), classes == 1 ? "class" : "classes")
          : "without class folders",
      format_bytes(loader.plan().sizes().total()), start.listing.text(),
      tiers.empty() ? "nothing is kept" : "kept in " + tiers);
  std::fflush(stdout);
}

// A batch has come that was asked for then.
Result<void> tell(RunRecord& record, const Loader& loader, Clock::time_point asked,
                  uint64_t samples) {
  const auto now = Clock::now();
  const RunRecord::Wants wants = record.batch(now - asked, samples, now);
  if (wants == RunRecord::Wants::nothing) return {};
  const bool all = wants == RunRecord::Wants::epoch_and_stats;
  return record.tell(to_json(loader.epoch_stats()), all ? to_json(loader.stats()) : "", now);
}

Result<int> run_read(const ReadOptions& options, const SettingOptions& given) {
  FORELOAD_TRY(LoaderSettings settings, given.parse());
  settings.dataset = options.dataset;
  if (!options.trace.empty()) settings.trace = std::make_shared<Trace>();
  FORELOAD_TRY(const JobRanks job, ranks_from_environment());
  const uint32_t rank = job.rank, ranks = job.ranks;
  // Before others are met, who would wait for this rank.
  FORELOAD_CHECK(check_outputs(options, rank, ranks));
  FORELOAD_CHECK(take_part(job, settings));
  const std::shared_ptr<Rendezvous> rendezvous =
      settings.join ? settings.join->rendezvous : nullptr;
  FORELOAD_TRY(const double step_ms, parse_milliseconds("--step-ms", options.step_ms));
  const auto trace = settings.trace;
  const uint64_t epochs = *settings.epochs;
  const Json recorded = Json::parse(recorded_json(settings));
  const auto begin = Clock::now();
  std::optional<ProgressBar> bar;  // one for all ranks
  if (rank == 0) settings.listing_progress = bar.emplace("listing").callback();
  FORELOAD_TRY(const auto loader, Loader::open(std::move(settings)));
  const LoaderStart start = loader->stats().start;
  bar.reset();
  for (const std::string& warning : start.warnings)
    fmt::print(stderr, "foreload: warning: {}\n", warning);
  if (!options.json && rank == 0) print_start(options, *loader, start);
  std::optional<RunRecord> record;
  if (!options.run_file.empty()) {
    Json header{{"made_by", "foreload read"},
                {"dataset", options.dataset},
                {"plan_digest", loader->plan().digest().hex()},
                {"samples", loader->index().samples()},
                {"bytes", loader->plan().sizes().total()}};
    header.update(recorded);
    header["tiers"] = Json::parse(to_json(start))["tiers"];
    FORELOAD_TRY(record,
                 RunRecord::create(file_of_rank(options.run_file, rank, ranks),
                                   header.dump(-1, ' ', false, Json::error_handler_t::replace),
                                   Clock::now()));
  }

  Json report{{"epochs", Json::array()}};
  std::optional<double> first_batch_seconds;
  LossTeller losses(ranks > 1 ? fmt::format("rank {}, ", rank) : "");
  uint64_t step = 0;
  for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
    DeliveryDigest digest;
    if (rank == 0) bar.emplace(fmt::format("epoch {}", epoch));
    const uint64_t batches = loader->batches_in(epoch);
    if (record) record->begin_epoch(epoch, batches, to_json(loader->stats()), Clock::now());
    while (true) {
      const auto asked = Clock::now();
      FORELOAD_TRY(const auto batch, loader->next());
      if (!batch) break;
      if (record) FORELOAD_CHECK(tell(*record, *loader, asked, batch->samples.size()));
      if (!first_batch_seconds)
        first_batch_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      if (!options.no_digest) {
        for (size_t i = 0; i < batch->samples.size(); ++i)
          digest.add(batch->samples[i], batch->bytes[i]);
      }
      if (step_ms > 0)
        std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(step_ms));
      // Nobody goes on before all have had this batch, as if they exchanged gradients.
      if (options.in_step && rendezvous)
        FORELOAD_CHECK(
            exchange(*rendezvous, fmt::format("step {}", step++), rank, ranks, "", kStepPatience));
      if (bar) bar->update(loader->epoch_stats().batches, batches);
    }
    bar.reset();
    const std::string hex = options.no_digest ? "" : digest.hex();
    const EpochStats& stats = loader->epoch_stats();
    const std::string figures = to_json(stats, hex);
    report["epochs"].push_back(Json::parse(figures));
    if (record) FORELOAD_CHECK(record->end_epoch(figures, to_json(loader->stats()), Clock::now()));
    if (!options.json) losses.tell(stats.figures);
    if (!options.json && !rendezvous) print_epoch(stats, hex);
  }
  if (record) FORELOAD_CHECK(record->close(Clock::now()));
  const LoaderStats stats = loader->stats();
  report.update(Json::parse(to_json(stats)));
  report.update(Json::parse(to_json(start)));
  report["first_batch_seconds"] = first_batch_seconds.value_or(0);
  report["peak_rss_bytes"] = peak_rss();
  report["plan_digest"] = loader->plan().digest().hex();
  if (trace) FORELOAD_CHECK(trace->save(file_of_rank(options.trace, rank, ranks)));
  if (rendezvous) {
    report["rank"] = rank;
    // Others may be slower, but not without end.
    const auto until = Clock::now() + std::chrono::minutes(1) + 3 * (Clock::now() - begin);
    const auto reports = gather_reports(*rendezvous, rank, ranks, *loader, report, until);
    if (rank != 0) return 0;
    if (!options.json) print_ranks(reports);
    report = report_of_job(reports);
  }
  if (options.json)
    fmt::print("{}\n", report.dump(2, ' ', false, Json::error_handler_t::replace));
  else
    fmt::print(
        "read {} from the source, {}{}; listing {:.2f} s, first batch after {:.2f} s, peak memory "
        "{}{}\n",
        format_bytes(report["source_bytes"].get<uint64_t>()), stats.source,
        rendezvous ? fmt::format("; peers over {} ({})", start.transport, start.transport_why) : "",
        stats.listing_seconds, report["first_batch_seconds"].get<double>(),
        format_bytes(report["peak_rss_bytes"].get<uint64_t>()), skipped_text(stats.engine));
  return 0;
}

}  // namespace

Run add_read(CLI::App& app) {
  auto options = std::make_shared<ReadOptions>();
  CLI::App* verb =
      app.add_subcommand("read", "Read a data set as a training loop would, and say how it went");
  expands_home(verb->add_option("dataset", options->dataset, "a folder of samples, or a file list")
                   ->required());
  LoaderSettings defaults = usual_settings();
  defaults.epochs = 1;
  const std::vector<std::string_view> names{"extensions",
                                            "index",
                                            "revalidate",
                                            "epochs",
                                            "batch_size",
                                            "drop_last",
                                            "seed",
                                            "order",
                                            "memory",
                                            "disk",
                                            "disk_kind",
                                            "eviction",
                                            "per_rank",
                                            "staging",
                                            "objective",
                                            "on_error",
                                            "deadline",
                                            "io",
                                            "profile",
                                            "transport",
                                            "join_timeout",
                                            "peer_timeout",
                                            "source_bandwidth",
                                            "source_latency_ms"};
  const auto given = std::make_shared<SettingOptions>(*verb, names, std::move(defaults));
  verb->add_option("--step-ms", options->step_ms, "time the loop computes per batch (0)");
  verb->add_flag("--in-step", options->in_step,
                 "after each batch, wait until all ranks have had theirs");
  expands_home(verb->add_option(
      "--trace", options->trace,
      "write a trace for chrome://tracing or Perfetto; of several ranks each to FILE.RANK"));
  expands_home(verb->add_option("--run-file", options->run_file,
                                "write a record of the run, for foreload report and foreload "
                                "watch; of several ranks each to FILE.RANK"));
  verb->add_flag("--no-digest", options->no_digest, "do not checksum what was delivered");
  verb->add_flag("--json", options->json, "print one JSON object");
  return [options, given] { return run_read(*options, *given); };
}

}  // namespace foreload::cli
