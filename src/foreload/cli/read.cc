// SPDX-License-Identifier: Apache-2.0
//
// foreload read: drives the whole engine as a training loop would, without decoding, and says where
// the bytes came from and how long the loop waited. The honest I/O benchmark.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
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
#include "foreload/base/text.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/rank_reports.h"
#include "foreload/cli/verbs.h"
#include "foreload/formats/format.h"
#include "foreload/loader/automatic_budget.h"
#include "foreload/loader/job_ranks.h"
#include "foreload/loader/loader.h"
#include "foreload/loader/meeting.h"
#include "foreload/loader/report.h"
#include "foreload/loader/start_report.h"
#include "foreload/metrics/run_record.h"
#include "foreload/stores/shaped.h"
#include "foreload/verdict/verdict.h"

namespace foreload::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct ReadOptions {
  std::string dataset;
  std::string extensions;
  std::string index;
  bool revalidate = false;
  std::string epochs = "1";
  std::string batch_size = "64";
  bool drop_last = false;
  std::string seed = "0";
  std::string order = "torch";
  std::string memory = "0";
  std::vector<std::string> disks;
  std::string staging = "128MiB";
  std::string step_ms = "0";
  bool in_step = false;
  std::string on_error = "raise";
  std::string deadline = "30";
  std::string io = "auto";
  std::string source_bandwidth = "0";
  std::string source_latency_ms = "0";
  std::string profile;
  std::string trace;
  std::string run_file;
  std::string transport = "auto";
  std::string join_timeout = "60";
  std::string peer_timeout = "10";
  bool no_digest = false;
  bool json = false;
};

constexpr std::chrono::minutes kStepPatience{10};  // with ranks that are slower

double milliseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

Result<void> parse_memory(const std::string& text, LoaderSettings& settings) {
  if (text == "auto") {
    FORELOAD_TRY(AutomaticBudget budget, automatic_memory());
    settings.memory = budget.bytes;
    settings.memory_why = std::move(budget.why);
    return {};
  }
  FORELOAD_TRY(settings.memory, parse_size("--memory", text));
  return {};
}

Result<DiskBudget> parse_disk(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return fail(
        ErrorKind::invalid,
        fmt::format("--disk is '{}': give a folder and a size, like /local/nvme:100GiB", text));
  const std::string folder = text.substr(0, colon);
  if (text.substr(colon + 1) == "auto") {
    FORELOAD_TRY(AutomaticBudget budget, automatic_disk(folder));
    return DiskBudget{folder, budget.bytes, std::move(budget.why)};
  }
  FORELOAD_TRY(const uint64_t bytes, parse_size("--disk", text.substr(colon + 1)));
  return DiskBudget{folder, bytes, {}};
}

Result<IoEngine> parse_io(const std::string& text) {
  FORELOAD_CHECK(check_choice("--io", text, {"auto", "io_uring", "threads"}));
  if (text == "auto") return IoEngine::automatic;
  return text == "io_uring" ? IoEngine::io_uring : IoEngine::threads;
}

Result<double> parse_milliseconds(std::string_view option, const std::string& text) {
  if (text == "0") return 0.0;
  return parse_rate(option, text);
}

// Makes the source as slow as asked for, to see on a fast disk what slow storage would do.
Result<void> shape(const ReadOptions& options, LoaderSettings& settings) {
  FORELOAD_TRY(const uint64_t bandwidth,
               parse_size("--source-bandwidth", options.source_bandwidth));
  FORELOAD_TRY(const double latency,
               parse_milliseconds("--source-latency-ms", options.source_latency_ms));
  if (bandwidth == 0 && latency == 0) return {};
  settings.wrap_source = [bandwidth, latency](auto make, auto answered) {
    return shape_source(std::move(make),
                        {.bytes_per_second = static_cast<double>(bandwidth),
                         .latency = std::chrono::microseconds(std::llround(latency * 1000))},
                        std::move(answered));
  };
  return {};
}

Result<LoaderSettings> settings_of(const ReadOptions& options) {
  LoaderSettings settings;
  settings.dataset = options.dataset;
  settings.extensions = image_extensions();
  if (!options.extensions.empty()) {
    FORELOAD_TRY(settings.extensions, parse_extensions(options.extensions));
  }
  settings.index = options.index;
  settings.revalidate = options.revalidate;
  FORELOAD_TRY(settings.epochs, parse_count("--epochs", options.epochs, 1));
  FORELOAD_TRY(settings.batching.batch_size, parse_count("--batch-size", options.batch_size, 1));
  settings.batching.drop_last = options.drop_last;
  FORELOAD_TRY(settings.seed, parse_count("--seed", options.seed));
  FORELOAD_TRY(settings.order, parse_order(options.order));
  FORELOAD_CHECK(parse_memory(options.memory, settings));
  FORELOAD_TRY(settings.staging, parse_size("--staging", options.staging));
  for (const std::string& text : options.disks) {
    FORELOAD_TRY(DiskBudget disk, parse_disk(text));
    settings.disks.push_back(std::move(disk));
  }
  FORELOAD_CHECK(check_choice("--on-error", options.on_error, {"raise", "skip"}));
  settings.skip_bad_samples = options.on_error == "skip";
  FORELOAD_TRY(const double deadline, parse_rate("--deadline", options.deadline));
  settings.read_deadline = std::chrono::milliseconds(std::llround(deadline * 1000));
  FORELOAD_TRY(const double silence, parse_rate("--peer-timeout", options.peer_timeout));
  settings.peer_timeout = std::chrono::milliseconds(std::llround(silence * 1000));
  FORELOAD_TRY(settings.io_engine, parse_io(options.io));
  FORELOAD_CHECK(shape(options, settings));
  if (options.profile == "none") {
    settings.profile.emplace();
  } else if (!options.profile.empty()) {
    settings.profile = options.profile;
  }
  if (!options.trace.empty()) settings.trace = std::make_shared<Trace>();
  return settings;
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
  return fmt::format("; {} samples were skipped: {}{}", format_count(stats.skipped_samples),
                     fmt::join(stats.skipped.begin(), stats.skipped.begin() + shown, ", "),
                     stats.skipped_samples > shown ? ", ..." : "");
}

// Budgets are the node's: its ranks share them.
Result<void> take_part(const ReadOptions& options, LoaderSettings& settings) {
  FORELOAD_TRY(const JobRanks ranks, ranks_from_environment());
  settings.rank = ranks.rank;
  settings.ranks = ranks.ranks;
  settings.memory /= ranks.local_ranks;
  for (DiskBudget& disk : settings.disks) disk.bytes /= ranks.local_ranks;
  MeetingSettings meeting;
  meeting.transport = options.transport;
  FORELOAD_TRY(const double timeout, parse_rate("--join-timeout", options.join_timeout));
  meeting.timeout = std::chrono::milliseconds(std::llround(timeout * 1000));
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
      classes > 0 ? fmt::format("in {} classes", format_count(classes)) : "without class folders",
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

Result<int> run_read(const ReadOptions& options) {
  FORELOAD_TRY(LoaderSettings settings, settings_of(options));
  FORELOAD_CHECK(take_part(options, settings));
  const uint32_t rank = settings.rank, ranks = settings.ranks;
  FORELOAD_CHECK(check_outputs(options, rank, ranks));
  const std::shared_ptr<Rendezvous> rendezvous =
      settings.join ? settings.join->rendezvous : nullptr;
  FORELOAD_TRY(const double step_ms, parse_milliseconds("--step-ms", options.step_ms));
  const auto trace = settings.trace;
  const uint64_t epochs = *settings.epochs;
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
    const Json header{{"made_by", "foreload read"},
                      {"dataset", options.dataset},
                      {"plan_digest", loader->plan().digest().hex()},
                      {"samples", loader->index().samples()},
                      {"bytes", loader->plan().sizes().total()},
                      {"seed", options.seed},
                      {"batch_size", options.batch_size},
                      {"epochs", epochs},
                      {"rank", rank},
                      {"ranks", ranks},
                      {"tiers", Json::parse(to_json(start))["tiers"]}};
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
    report["epochs"].push_back(Json::parse(to_json(stats, hex)));
    if (record)
      FORELOAD_CHECK(record->end_epoch(report["epochs"].back().dump(), to_json(loader->stats()),
                                       Clock::now()));
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
    fmt::print("{}\n", report.dump(2));
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
  verb->add_option("--extensions", options->extensions,
                   "files that count, like .jpg,.png, or any (those of images)");
  expands_home(
      verb->add_option("--index", options->index,
                       "file that keeps the listing: used if it is there, written if not (in the "
                       "first disk cache)"));
  verb->add_flag("--revalidate", options->revalidate,
                 "list again even if there is a listing, for files changed in place");
  verb->add_option("--epochs", options->epochs, "how often (1)");
  verb->add_option("--batch-size", options->batch_size, "samples in a batch (64)");
  verb->add_flag("--drop-last", options->drop_last, "leave out a last batch that is not full");
  verb->add_option("--seed", options->seed, "seed of the shuffle (0)");
  verb->add_option("--order", options->order, "torch, sequential or feistel (torch)");
  verb->add_option("--memory", options->memory,
                   "memory for samples, like 200MiB, or auto: half of what is left (0)");
  expands_home(
      verb->add_option("--disk", options->disks,
                       "folder and size of a disk cache, like /local/nvme:1GiB, or auto as size; "
                       "several may be given, the fastest is used first"));
  verb->add_option("--staging", options->staging, "memory for batches being filled (128MiB)");
  verb->add_option("--step-ms", options->step_ms, "time the loop computes per batch (0)");
  verb->add_flag("--in-step", options->in_step,
                 "after each batch, wait until all ranks have had theirs");
  verb->add_option("--on-error", options->on_error, "raise or skip (raise)");
  verb->add_option("--deadline", options->deadline, "seconds until a read is given up (30)");
  verb->add_option("--io", options->io, "auto, io_uring or threads (auto)");
  verb->add_option("--source-bandwidth", options->source_bandwidth,
                   "make the source slower: bytes a second, like 60MB (0: as it is)");
  verb->add_option("--source-latency-ms", options->source_latency_ms,
                   "and each read later by so much (0)");
  expands_home(verb->add_option("--profile", options->profile,
                                "what foreload probe saved, to start from, or none "
                                "(~/.cache/foreload/profile.json if it is there)"));
  expands_home(verb->add_option(
      "--trace", options->trace,
      "write a trace for chrome://tracing or Perfetto; of several ranks each to FILE.RANK"));
  expands_home(verb->add_option("--run-file", options->run_file,
                                "write a record of the run, for foreload report and foreload "
                                "watch; of several ranks each to FILE.RANK"));
  verb->add_option("--transport", options->transport,
                   "how ranks of one job talk: auto, ucx, mpi, host or none (auto)");
  verb->add_option("--join-timeout", options->join_timeout,
                   "seconds to wait for the other ranks at the start (60)");
  verb->add_option("--peer-timeout", options->peer_timeout,
                   "seconds of silence until another rank is given up (10)");
  verb->add_flag("--no-digest", options->no_digest, "do not checksum what was delivered");
  verb->add_flag("--json", options->json, "print one JSON object");
  return [options] { return run_read(*options); };
}

}  // namespace foreload::cli
