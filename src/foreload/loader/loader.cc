// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/loader.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/cpus.h"
#include "foreload/loader/dataset.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(SteadyTime begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class IndexCatalog final : public ObjectCatalog {
 public:
  explicit IndexCatalog(std::shared_ptr<const DatasetIndex> index) : index_(std::move(index)) {}
  std::string_view name(uint32_t object) const override { return index_->object_name(object); }
  uint64_t size(uint32_t object) const override { return index_->object_size(object); }
  uint64_t version(uint32_t object) const override { return index_->object_version(object); }

 private:
  std::shared_ptr<const DatasetIndex> index_;
};

// The saved index if it is there, otherwise a listing, which is saved.
Result<DatasetIndex> open_index(const LoaderSettings& settings, LoaderStats& stats) {
  const auto begin = Clock::now();
  std::error_code ignored;
  if (!settings.index.empty() && !settings.revalidate &&
      std::filesystem::exists(settings.index, ignored)) {
    auto index = DatasetIndex::load(settings.index);
    stats.listing_seconds = seconds_since(begin);
    return index;
  }
  ListingOptions listing;
  listing.extensions = settings.extensions;
  listing.progress = settings.listing_progress;
  FORELOAD_TRY(DatasetIndex index, open_dataset(settings.dataset, listing));
  stats.listed = true;
  stats.listing_seconds = seconds_since(begin);
  if (!settings.index.empty()) FORELOAD_CHECK(index.save(settings.index));
  return index;
}

Result<void> check_sizes(const DatasetIndex& index) {
  for (uint64_t sample = 0; sample < index.samples(); ++sample) {
    if (index.sample_size(sample) == kUnknownSize)
      return fail(ErrorKind::invalid,
                  fmt::format("the size of sample {} ({}) is not known: list the data set again",
                              sample, index.object_name(index.part(sample, 0).object)));
  }
  return {};
}

uint64_t version_of(const DatasetIndex& index, uint64_t sample) {
  return index.object_version(index.part(sample, 0).object);
}

Job job_of(const LoaderSettings& settings, const Sizes& sizes) {
  Job job;
  job.order = settings.order;
  job.seed = settings.seed;
  job.ranks = settings.ranks;
  job.epochs = settings.epochs;
  job.pad = settings.pad;
  job.batching = settings.batching;
  job.first_epoch = settings.first_epoch;
  job.start = settings.start;
  // Memory first, then disks in the order given.
  std::vector<Tier> tiers{{"memory", settings.memory, 1e12}};
  double speed = 1e9;
  for (const DiskBudget& disk : settings.disks)
    tiers.push_back({"disk", disk_payload(disk.bytes, sizes.mean()), speed /= 2});
  job.tiers = {tiers};
  return job;
}

// What disks found that is still what the index says, as copies of this rank.
std::vector<Held> held_on(const std::vector<EngineTier>& tiers, const DatasetIndex& index,
                          uint32_t rank) {
  std::vector<Held> held;
  for (uint32_t tier = 1; tier < tiers.size(); ++tier) {
    for (const DiskEntry& entry : tiers[tier].disk->found()) {
      if (entry.sample < index.samples() && entry.version == version_of(index, entry.sample) &&
          entry.size == index.sample_size(entry.sample))
        held.push_back({entry.sample, rank, tier});
    }
  }
  return held;
}

// Whether the plan wants a copy of the sample on this tier of this rank.
bool keeps_on(const Plan& plan, uint32_t rank, uint64_t sample, uint32_t tier) {
  const Owner owner = plan.placement().owner(sample);
  return owner.rank == rank && (owner.tier == tier || plan.placement().backing(sample) == tier);
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::open(LoaderSettings settings) {
  std::unique_ptr<Loader> loader(new Loader);
  LoaderStats& stats = loader->stats_;
  FORELOAD_TRY(DatasetIndex index, open_index(settings, stats));
  FORELOAD_CHECK(check_sizes(index));
  loader->index_ = std::make_shared<const DatasetIndex>(std::move(index));
  stats.index_bytes = loader->index_->bytes();

  EngineParts parts;
  parts.index = loader->index_;
  parts.inbox = std::make_shared<Inbox>();
  auto source_operations = std::make_shared<Operations>();
  auto disk_operations = std::make_shared<Operations>();
  stats.source_operations = source_operations;
  stats.disk_operations = disk_operations;

  constexpr size_t kMostDisks = 15;
  if (settings.disks.size() > kMostDisks)
    return fail(ErrorKind::invalid, fmt::format("{} disk caches are too many: give at most {}",
                                                settings.disks.size(), kMostDisks));
  parts.tiers.resize(1 + settings.disks.size());
  for (uint32_t tier = 1; tier < parts.tiers.size(); ++tier) {
    DiskSettings disk;
    disk.folder = settings.disks[tier - 1].folder;
    disk.budget = settings.disks[tier - 1].bytes;
    disk.fingerprint = loader->index_->fingerprint();
    disk.member = settings.rank;
    disk.members = settings.ranks;
    disk.operations = disk_operations;
    disk.queue_bytes = UINT64_MAX;  // the policy bounds what is on its way
    FORELOAD_TRY(parts.tiers[tier].disk,
                 DiskTier::open(std::move(disk),
                                [inbox = parts.inbox, tier](uint64_t id, DiskAnswer answer) {
                                  inbox->post(message::DiskAnswered{tier, id, answer});
                                }));
  }

  const auto begin = Clock::now();
  FORELOAD_TRY(Sizes sizes, Sizes::of(*loader->index_));
  Job job = job_of(settings, sizes);
  job.held = held_on(parts.tiers, *loader->index_, settings.rank);
  FORELOAD_TRY(Plan plan, Plan::make(job, std::move(sizes)));
  loader->plan_ = std::make_shared<const Plan>(std::move(plan));
  parts.plan = loader->plan_;
  parts.held = job.held;
  stats.plan_seconds = seconds_since(begin);

  std::vector<ArenaPlace> places;
  for (const Owned& owned :
       loader->plan_->placement().owned_by(settings.rank, parts.plan->sizes())) {
    if (owned.tier == 0)
      places.push_back({owned.sample, owned.offset, parts.plan->sizes()[owned.sample]});
  }
  FORELOAD_TRY(parts.tiers[0].memory,
               MemoryTier::create(loader->index_->samples(), settings.memory, places));
  stats.memory_overhead = parts.tiers[0].memory->overhead();
  std::vector<bool> counted(loader->index_->samples());
  for (const Held& copy : job.held) {
    if (!keeps_on(*loader->plan_, settings.rank, copy.sample, copy.tier) || counted[copy.sample])
      continue;
    counted[copy.sample] = true;
    ++stats.held_samples;
    stats.held_bytes += parts.plan->sizes()[copy.sample];
  }
  for (uint32_t tier = 1; tier < parts.tiers.size(); ++tier) {
    parts.tiers[tier].disk->keep([&](uint64_t sample, uint64_t version) {
      return sample < loader->index_->samples() &&
             keeps_on(*loader->plan_, settings.rank, sample, tier) &&
             version == version_of(*loader->index_, sample);
    });
  }

  FolderSettings folder;
  folder.root = settings.dataset;
  folder.objects = std::make_shared<IndexCatalog>(loader->index_);
  folder.engine = settings.io_engine;
  folder.drop_page_cache = settings.memory > 0 || !settings.disks.empty();
  folder.operations = source_operations;
  auto answered = [inbox = parts.inbox](SourceAnswer answer) { inbox->post(std::move(answer)); };
  if (settings.wrap_source) {
    std::optional<Error> failed;
    auto make = [&](Source::Answered inner) -> std::unique_ptr<Source> {
      auto source = open_folder(folder, std::move(inner));
      if (source) return std::move(*source);
      failed = source.error();
      return nullptr;
    };
    parts.source = settings.wrap_source(make, answered);
    if (failed) return tl::unexpected(*failed);
  } else {
    FORELOAD_TRY(parts.source, open_folder(folder, answered));
  }
  stats.source = parts.source->describe();

  parts.staging = Staging::create(settings.staging);
  parts.hands = settings.hands == 0 ? std::min(4u, available_cpus()) : settings.hands;
  parts.trace = settings.trace;
  PolicySettings& policy = parts.policy;
  policy.rank = settings.rank;
  policy.window_bytes = settings.staging;
  policy.ahead_bytes = settings.staging / 4;
  policy.skip_bad_samples = settings.skip_bad_samples;
  policy.tries = settings.tries;
  policy.read_deadline = settings.read_deadline;
  policy.endless = !settings.epochs;
  policy.source_limiter.first = 8;
  policy.tier_limiters.resize(parts.tiers.size());
  policy.tier_limiters[0] = {256, 256, 256};  // memory: nothing to find out
  for (size_t tier = 1; tier < parts.tiers.size(); ++tier) policy.tier_limiters[tier] = {1, 64, 16};
  loader->endless_ = policy.endless;
  loader->epoch_ = settings.first_epoch;
  loader->resumed_epoch_ = settings.first_epoch;
  loader->resumed_start_ = settings.start;
  loader->engine_ = std::make_unique<Engine>(std::move(parts));
  return loader;
}

Loader::~Loader() = default;

uint64_t Loader::batches_in(uint64_t epoch) const {
  const Sharding sharding{index_->samples(), plan_->job().ranks, plan_->job().pad,
                          epoch == resumed_epoch_ ? resumed_start_ : 0};
  return plan_->job().batching.batches(sharding.per_rank());
}

Result<std::optional<Batch>> Loader::next(std::optional<SteadyTime> until) {
  if (!waiting_since_) {
    waiting_since_ = Clock::now();
    engine_->release();
  }
  const auto begin = *waiting_since_;
  if (!endless_ && epoch_ >= plan_->job().first_epoch + plan_->epochs()) {
    waiting_since_.reset();
    return std::nullopt;
  }
  if (given_ == 0) {
    epoch_stats_ = {};
    epoch_stats_.epoch = epoch_;
    if (!epoch_begin_) epoch_begin_ = begin;
  }
  if (given_ >= batches_in(epoch_)) {
    ++epoch_;
    given_ = 0;
    waiting_since_.reset();
    return std::nullopt;
  }
  FORELOAD_TRY(Batch batch, engine_->next(until));
  const auto end = Clock::now();
  waiting_since_.reset();
  ++given_;
  epoch_stats_.waits.add(end - begin);
  epoch_stats_.wait_seconds += std::chrono::duration<double>(end - begin).count();
  epoch_stats_.seconds = std::chrono::duration<double>(end - *epoch_begin_).count();
  if (given_ == batches_in(epoch_)) epoch_begin_ = end;
  ++epoch_stats_.batches;
  epoch_stats_.samples += batch.samples.size();
  for (size_t i = 0; i < kFroms; ++i) {
    epoch_stats_.bytes += batch.from_bytes[i];
    epoch_stats_.from_bytes[i] += batch.from_bytes[i];
    epoch_stats_.from_samples[i] += batch.from_samples[i];
  }
  return std::optional<Batch>(std::move(batch));
}

void Loader::seek(uint64_t epoch, uint64_t start) {
  engine_->seek(epoch, start);
  epoch_ = epoch;
  resumed_epoch_ = epoch;
  resumed_start_ = start;
  given_ = 0;
  epoch_begin_.reset();
  waiting_since_.reset();
}

LoaderStats Loader::stats() const {
  LoaderStats stats = stats_;
  stats.engine = engine_->stats();
  return stats;
}

}  // namespace foreload
