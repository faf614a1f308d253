// SPDX-License-Identifier: Apache-2.0
#include "foreload/verdict/model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace foreload {
namespace {

// A disk of which nobody knows the speed is taken to be an ordinary local one.
constexpr double kUsualDiskRate = 500e6;
// The share of an epoch's bytes that must come from disks to tell how fast they are.
constexpr double kShownByReading = 0.1;
// Of the memory that is left, so much may be asked for: the training wants some, too.
constexpr double kShareOfMemoryLeft = 0.8;
// Of a disk's budget that becomes headers, sidecars and rounding.
constexpr double kDiskOverhead = 0.02;
// C++ takes at most so many CPU seconds for one of Python with Pillow.
constexpr double kNativeShare = 0.5;
// Workers that together use less than this share of one CPU wait for something outside.
constexpr double kWaitsOutside = 0.5;
// An interpreter whose threads together use this share of one CPU has no more to give.
constexpr double kInterpreterBusy = 0.8;
// No loop gets more bytes per second than this from memory, however little it does itself.
constexpr double kMemoryRate = 2e9;
// Bytes of the source beyond those that caches miss, as a share of all, that mean they are filled.
constexpr double kFilling = 0.02;

const StageFigures& stage(const EpochFigures& figures, Limit limit) {
  return figures.stages[static_cast<size_t>(limit)];
}

double rate_of(const StageFigures& stage) {
  return stage.busy_seconds > 0 ? static_cast<double>(stage.bytes) / stage.busy_seconds : 0;
}

// As `memory` or `disk` take it, rounded up.
std::string argument(double bytes) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  if (bytes < kGiB) return fmt::format("{:.0f}MiB", std::max(1.0, std::ceil(bytes / kMiB)));
  return fmt::format("{:.1f}GiB", std::ceil(10 * bytes / kGiB) / 10);
}

// Bytes of the epoch's samples as the source has them.
double bytes_at_source(const EpochFigures& figures) {
  const double bytes = static_cast<double>(figures.bytes);
  if (figures.made_from_bytes == 0 || figures.data_bytes == 0) return bytes;
  return bytes * static_cast<double>(figures.made_from_bytes) /
         static_cast<double>(figures.data_bytes);
}

// With so much of the data set kept, of this on disks.
EpochModel with_kept(const EpochFigures& figures, double kept, double on_disk, double disk_rate) {
  EpochModel then = model_of(figures);
  const double data = static_cast<double>(figures.data_bytes);
  const double bytes = static_cast<double>(figures.bytes);
  const double source_rate = rate_of(stage(figures, Limit::source));
  const double missing = std::max(0.0, 1 - kept / data);
  const double from_source = bytes_at_source(figures) * missing;
  then[Limit::source] = source_rate > 0 ? from_source / source_rate : 0;
  const double now = static_cast<double>(stage(figures, Limit::source).bytes);
  if (figures.kept_decoded && now > 0) then[Limit::decode] *= std::min(1.0, from_source / now);
  then[Limit::disk] = bytes * std::min(1.0, on_disk / data) / disk_rate;
  then[Limit::loop] = std::max(then[Limit::loop], bytes / kMemoryRate);
  return then;
}

// How fast the disks are read. Their busy time counts writes too, so an epoch that read little from
// them shows nothing; and those that were not the limit may be faster than they showed.
double known_disk_rate(const EpochFigures& figures, Limit limit) {
  const StageFigures& disk = stage(figures, Limit::disk);
  const bool shown =
      static_cast<double>(disk.bytes) > kShownByReading * static_cast<double>(figures.bytes);
  const double seen = shown ? rate_of(disk) : 0;
  if (limit == Limit::disk && seen > 0) return seen;
  const double rate = std::max(figures.disk_rate, seen);
  return rate > 0 ? rate : kUsualDiskRate;
}

void add_caches(const EpochFigures& figures, Limit limit, std::vector<Change>& changes) {
  const double data = static_cast<double>(figures.data_bytes);
  const double kept = std::min(data, static_cast<double>(figures.kept_bytes));
  const double on_disk = std::min(kept, static_cast<double>(figures.disk_bytes));
  const double disk_rate = known_disk_rate(figures, limit);
  if (fills_caches(figures) && kept > 0)
    changes.push_back({Change::Kind::caches_are_full, "caches that are full from now on",
                       with_kept(figures, kept, on_disk, disk_rate)});
  const double nodes = std::max(1u, figures.nodes);
  const double memory = static_cast<double>(figures.memory_bytes);
  const double left = kShareOfMemoryLeft * static_cast<double>(figures.memory_left);
  auto add_memory = [&](double more, double still_on_disk) {
    if (more <= 0 || more > left) return false;
    changes.push_back(
        {Change::Kind::settings,
         fmt::format("memory=\"{}\" ({} more)", argument(memory + more), argument(more)),
         with_kept(figures, data, still_on_disk, disk_rate)});
    return true;
  };
  const double misses = (data - kept) / nodes;
  if (limit == Limit::disk) add_memory(misses + on_disk / nodes, 0);
  const bool has_memory = limit == Limit::source && add_memory(misses, on_disk);
  if (limit != Limit::source) return;
  const double in_memory = kept - on_disk;
  if (misses > 0 && !has_memory)
    changes.push_back(
        {Change::Kind::settings,
         fmt::format("disk=\"FOLDER:{}\" on a disk with {:.0f} MB/s",
                     argument((data - in_memory) / nodes * (1 + kDiskOverhead)), disk_rate / 1e6),
         with_kept(figures, data, data - in_memory, disk_rate)});
  // What is only in memory is read from the source again by the next run.
  if (fills_caches(figures) && misses <= 0 && on_disk < data)
    changes.push_back({Change::Kind::next_run,
                       fmt::format("disk=\"FOLDER:{}\" on a disk with {:.0f} MB/s",
                                   argument(data / nodes * (1 + kDiskOverhead)), disk_rate / 1e6),
                       with_kept(figures, data, data, disk_rate)});
}

void add_decoding(const EpochFigures& figures, std::vector<Change>& changes) {
  if (figures.decode_threads == 0) return;
  const unsigned twice = 2 * figures.decode_threads;
  EpochModel then = model_of(figures);
  then[Limit::decode] /= 2;
  changes.push_back({Change::Kind::settings,
                     figures.cpus >= twice ? fmt::format("num_workers={}", twice)
                                           : fmt::format("twice the CPUs ({} threads)", twice),
                     then});
}

void add_transform(const EpochFigures& figures, std::vector<Change>& changes) {
  if (figures.transform_workers == 0) return;
  const unsigned workers = figures.transform_workers;
  const unsigned cpus = figures.cpus > 0 ? figures.cpus : workers;
  const double cpu = figures.transform_cpu_seconds;
  const EpochModel now = model_of(figures);
  auto add = [&](std::string what, double seconds) {
    EpochModel then = now;
    then[Limit::transform] = std::min(seconds, now[Limit::transform]);
    changes.push_back({Change::Kind::settings, std::move(what), then});
  };
  // Threads wait for the interpreter when together they use about one CPU or more, and for
  // something outside when they use much less.
  const bool computes = cpu > kWaitsOutside * figures.seconds;
  if (computes) {
    if (figures.transform_in_threads && cpu > kInterpreterBusy * figures.seconds)
      add("workers=\"process\"", cpu / std::min(workers, cpus));
    add("foreload.transforms instead of a Python function", kNativeShare * cpu / cpus);
  }
  if (!computes)
    add(fmt::format("num_workers={}", 2 * workers), now[Limit::transform] / 2);
  else if (!figures.transform_in_threads)
    add(fmt::format("twice the CPUs ({} workers)", 2 * workers), now[Limit::transform] / 2);
}

}  // namespace

double EpochModel::seconds() const {
  return *std::max_element(stages.begin(), stages.end());
}

EpochModel model_of(const EpochFigures& figures) {
  EpochModel model;
  for (size_t i = 0; i < kLimits; ++i)
    model.stages[i] = std::min(figures.seconds, figures.stages[i].busy_seconds);
  model[Limit::loop] = std::max(0.0, figures.seconds - figures.waited) + figures.own_seconds;
  return model;
}

double missing_share(const EpochFigures& figures) {
  if (figures.data_bytes == 0) return 0;
  return std::max(
      0.0, 1 - static_cast<double>(figures.kept_bytes) / static_cast<double>(figures.data_bytes));
}

bool fills_caches(const EpochFigures& figures) {
  const double from_source = static_cast<double>(stage(figures, Limit::source).bytes);
  return figures.bytes > 0 &&
         from_source > (missing_share(figures) + kFilling) * bytes_at_source(figures);
}

std::vector<Change> changes_of(const EpochFigures& figures, Limit limit) {
  std::vector<Change> changes;
  if (figures.data_bytes > 0 && figures.bytes > 0) add_caches(figures, limit, changes);
  if (limit == Limit::decode) add_decoding(figures, changes);
  if (limit == Limit::transform) add_transform(figures, changes);
  return changes;
}

}  // namespace foreload
