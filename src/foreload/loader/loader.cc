// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/loader.h"

#include <algorithm>
#include <cassert>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/cpus.h"
#include "foreload/loader/catalog.h"
#include "foreload/loader/memory_need.h"
#include "foreload/loader/probe.h"
#include "foreload/loader/saved_index.h"
#include "foreload/loader/starting_point.h"
#include "foreload/tiers/memory_limit.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

// For all neighbours together to hand out what they have published.
constexpr std::chrono::milliseconds kNeighbourPatience{10'000};

double seconds_since(SteadyTime begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<OpenedIndex> open_index(const LoaderSettings& settings, LoaderStats& stats,
                               std::shared_ptr<Operations> operations) {
  const auto begin = Clock::now();
  ListingOptions listing;
  listing.extensions = settings.extensions;
  listing.progress = settings.listing_progress;
  listing.operations = std::move(operations);
  IndexPlace place{settings.dataset, settings.index, {}, settings.revalidate, {}};
  if (!settings.files.empty()) {
    FORELOAD_TRY(place.files, file_list_of(settings.files));
  }
  if (!settings.disks.empty()) place.cache = settings.disks.front().folder;
  FORELOAD_TRY(OpenedIndex opened, open_saved_index(place, listing));
  stats.listed = opened.listed;
  stats.listing_seconds = seconds_since(begin);
  stats.start.index_file = opened.file;
  if (!opened.warning.empty()) stats.start.warnings.push_back(opened.warning);
  return opened;
}

// Sorts the disks, the fastest first, and writes down the tiers.
void settle_tiers(LoaderSettings& settings, const MachineProfile& machine, LoaderStart& start) {
  std::vector<std::filesystem::path> folders;
  for (const DiskBudget& disk : settings.disks) folders.push_back(disk.folder);
  // Ranks must come to the same plan, and each of them would measure something else.
  const MeasureDisk measure = settings.ranks == 1 ? &quick_disk_rate : MeasureDisk();
  start.tiers.push_back({{}, settings.memory});
  std::vector<DiskBudget> sorted;
  for (const RankedDisk& disk : order_disks(folders, machine, measure)) {
    sorted.push_back(settings.disks[disk.number]);
    start.tiers.push_back({sorted.back().folder, sorted.back().bytes, disk.rate, disk.from});
  }
  settings.disks = std::move(sorted);
}

// Leaves of each budget what a data set of these sizes can use; disks that would hold nothing go.
// Ranks that are one cache need their share each, and room for what does not divide evenly.
// REQUIRES: the disks are sorted, and `start` has them as tiers.
void cut_budgets(const Sizes& sizes, LoaderSettings& settings, LoaderStart& start) {
  const uint64_t share = sizes.total() / settings.ranks + 2 * sizes.largest();
  const uint64_t needed = settings.join ? std::min(share, sizes.total()) : sizes.total();
  settings.memory = std::min(settings.memory, needed);
  start.tiers.at(0).bytes = settings.memory;
  uint64_t left = needed;
  size_t used = 0;
  for (; used < settings.disks.size() && left > 0; ++used) {
    uint64_t& budget = settings.disks[used].bytes;
    budget = std::min(budget, disk_budget_for(left, sizes.mean()));
    left -= std::min(left, disk_payload(budget, sizes.mean()));
    start.tiers[1 + used].bytes = budget;
  }
  settings.disks.resize(used);
  start.tiers.resize(1 + used);
}

// How many requests each path begins with, and may have. All ranks share the source, `local` of
// them the disks of this host.
void settle_limiters(const LoaderSettings& settings, const MachineProfile& machine,
                     const std::filesystem::path& root, uint32_t local, LoaderStart& start,
                     PolicySettings& policy) {
  policy.source_limiter.first = 8;
  const Limiter::Settings unknown =
      shared_among(settings.ranks, std::nullopt, policy.source_limiter);
  const auto best = best_concurrency(measured_at(machine, DeviceKind::source, root));
  policy.source_limiter = shared_among(settings.ranks, best, policy.source_limiter);
  // What one node measured may be the best of its own link, not of a source that serves many.
  if (local < settings.ranks) {
    policy.source_limiter.most = std::max(policy.source_limiter.most, unknown.most);
    policy.source_limiter.tries_fewer = true;
  }
  start.source_first = policy.source_limiter.first;
  policy.tier_limiters.resize(1 + settings.disks.size());
  policy.tier_limiters[0] = {256, 256, 256};  // memory: nothing to find out
  for (size_t tier = 1; tier < policy.tier_limiters.size(); ++tier) {
    Limiter::Settings& limiter = policy.tier_limiters[tier] = {1, 64, 16};
    const auto of_disk =
        best_concurrency(measured_at(machine, DeviceKind::disk, settings.disks[tier - 1].folder));
    if (of_disk) limiter.first = part_of(*of_disk, local, limiter);
  }
  for (size_t tier = 0; tier < start.tiers.size(); ++tier)
    start.tiers[tier].first = policy.tier_limiters[tier].first;
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
  // Memory first, then disks, which are sorted by now.
  std::vector<Tier> tiers{{"memory", settings.memory, 1e12}};
  double speed = 1e9;
  for (const DiskBudget& disk : settings.disks)
    tiers.push_back({"disk", disk_payload(disk.bytes, sizes.mean()), speed /= 2});
  job.tiers = {tiers};
  return job;
}

// Room for three batches, as files and decoded, where their size is known: one that the loop has,
// one that is ready, one that is being made. Six where they go on to a device, whose queue hides a
// slow moment only as long as there are finished batches. The eighth beyond is for batches of
// larger files: memory that is a little too small would be given back, and cleared by the system
// before it comes again, which costs more than all the rest of the engine.
uint64_t usual_staging(const LoaderSettings& settings, const Sizes& sizes) {
  constexpr uint64_t kUsual = uint64_t{128} << 20;
  if (!settings.transform || !settings.transform->form().fixed()) return kUsual;
  const uint64_t batches = settings.decoded_memory ? 6 : 3;
  const uint64_t samples = batches * settings.batching.batch_size;
  const uint64_t file = std::min(sizes.mean(), kUsual / samples);
  const uint64_t bytes = samples * (file + settings.transform->form().bytes());
  return std::max(kUsual, bytes + bytes / 8);
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

// Replaces what this rank can keep and holds by what all ranks can keep and hold.
Result<void> join_facts(const LoaderSettings& settings, const DatasetIndex& index, Job& job) {
  RankFacts own{index.fingerprint(), {}, job.held};
  for (const Tier& tier : job.tiers.at(0)) own.tiers.push_back(tier.capacity);
  std::sort(own.held.begin(), own.held.end(),
            [](const Held& a, const Held& b) { return a.sample < b.sample; });
  FORELOAD_TRY(const auto all,
               exchange_facts(*settings.join, settings.rank, settings.ranks, index.samples(), own));
  const std::vector<Tier> like = job.tiers.at(0);
  job.tiers.clear();
  job.held.clear();
  for (const RankFacts& facts : all) {
    std::vector<Tier> tiers;
    for (size_t i = 0; i < facts.tiers.size(); ++i) {
      const bool memory = i == 0;
      tiers.push_back({memory ? "memory" : "disk", facts.tiers[i],
                       i < like.size() ? like[i].speed : like.back().speed / 2});
    }
    job.tiers.push_back(std::move(tiers));
    job.held.insert(job.held.end(), facts.held.begin(), facts.held.end());
  }
  return {};
}

// Whether the plan wants a copy of the sample on this tier of this rank; a replica only where ranks
// talk to each other.
bool keeps_on(const Plan& plan, const LoaderSettings& settings, uint64_t sample, uint32_t tier) {
  const Owner owner = plan.placement().owner(sample);
  if (owner.rank == settings.rank)
    return owner.tier == tier || plan.placement().backing(sample) == tier;
  return settings.join && replica_tier(plan, settings.rank, sample) == tier;
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::open(LoaderSettings settings) {
  std::unique_ptr<Loader> loader(new Loader);
  LoaderStats& stats = loader->stats_;
  FORELOAD_TRY(const LoadedProfile profile, load_profile(settings.profile));
  stats.start.profile = profile.file;
  if (!profile.warning.empty()) stats.start.warnings.push_back(profile.warning);
  auto source_operations = std::make_shared<Operations>();
  FORELOAD_TRY(OpenedIndex opened, open_index(settings, stats, source_operations));
  FORELOAD_CHECK(check_sizes(opened.index));
  loader->index_ = std::make_shared<const DatasetIndex>(std::move(opened.index));
  stats.index_bytes = loader->index_->bytes();
  FORELOAD_TRY(Sizes sizes, Sizes::of(*loader->index_));
  if (settings.staging == 0) settings.staging = usual_staging(settings, sizes);
  FORELOAD_CHECK(check_memory({settings.memory, settings.staging, stats.index_bytes},
                              memory_limit(settings.system_root)));

  EngineParts parts;
  parts.index = loader->index_;
  parts.inbox = std::make_shared<Inbox>();
  auto disk_operations = std::make_shared<Operations>();
  stats.source_operations = source_operations;
  stats.disk_operations = disk_operations;

  constexpr size_t kMostDisks = 15;
  if (settings.disks.size() > kMostDisks)
    return fail(ErrorKind::invalid, fmt::format("{} disk caches are too many: give at most {}",
                                                settings.disks.size(), kMostDisks));
  settle_tiers(settings, profile.machine, stats.start);
  if (settings.only_needed) cut_budgets(sizes, settings, stats.start);
  parts.tiers.resize(1 + settings.disks.size());
  for (uint32_t tier = 1; tier < parts.tiers.size(); ++tier) {
    DiskSettings disk;
    disk.folder = settings.disks[tier - 1].folder;
    disk.budget = settings.disks[tier - 1].bytes;
    disk.fingerprint = loader->index_->fingerprint();
    disk.member = settings.rank + settings.ranks * settings.lane;
    disk.members = settings.ranks * settings.lanes;
    disk.operations = disk_operations;
    disk.queue_bytes = UINT64_MAX;  // the policy bounds what is on its way
    FORELOAD_TRY(parts.tiers[tier].disk,
                 DiskTier::open(std::move(disk),
                                [inbox = parts.inbox, tier](uint64_t id, DiskAnswer answer) {
                                  inbox->post(message::DiskAnswered{tier, id, answer});
                                }));
  }

  const auto begin = Clock::now();
  Job job = job_of(settings, sizes);
  const std::vector<Held> own_held = held_on(parts.tiers, *loader->index_, settings.rank);
  job.held = own_held;
  Neighbours neighbours;
  if (settings.join) {
    FORELOAD_CHECK(join_facts(settings, *loader->index_, job));
    FORELOAD_TRY(neighbours, find_neighbours(*settings.join, settings.rank, settings.ranks,
                                             settings.host, settings.memory > 0));
  }
  FORELOAD_TRY(Plan plan, Plan::make(job, std::move(sizes)));
  loader->plan_ = std::make_shared<const Plan>(std::move(plan));
  parts.plan = loader->plan_;
  parts.held = own_held;
  stats.plan_seconds = seconds_since(begin);

  std::vector<ArenaPlace> places;
  for (const Owned& owned :
       loader->plan_->placement().owned_by(settings.rank, parts.plan->sizes())) {
    if (owned.tier == 0)
      places.push_back({owned.sample, owned.offset, parts.plan->sizes()[owned.sample]});
  }
  const bool shares = !neighbours.ranks.empty() && settings.memory > 0;
  FORELOAD_TRY(parts.tiers[0].memory,
               MemoryTier::create(loader->index_->samples(), settings.memory, places,
                                  shares ? std::optional(loader->plan_->digest()) : std::nullopt));
  stats.memory_overhead = parts.tiers[0].memory->overhead();
  std::vector<bool> counted(loader->index_->samples());
  for (const Held& copy : own_held) {
    if (!keeps_on(*loader->plan_, settings, copy.sample, copy.tier) || counted[copy.sample])
      continue;
    counted[copy.sample] = true;
    ++stats.held_samples;
    stats.held_bytes += parts.plan->sizes()[copy.sample];
  }
  for (uint32_t tier = 1; tier < parts.tiers.size(); ++tier) {
    parts.tiers[tier].disk->keep([&](uint64_t sample, uint64_t version) {
      return sample < loader->index_->samples() &&
             keeps_on(*loader->plan_, settings, sample, tier) &&
             version == version_of(*loader->index_, sample);
    });
  }

  FolderSettings folder;
  folder.root = opened.root;
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
  // Whoever gives the memory also keeps it for reuse: a copy to a device may read a batch that
  // everybody else has let go of, and only its allocator knows.
  if (settings.decoded_memory) parts.decoded = Staging::create(0, settings.decoded_memory());
  parts.transform = settings.transform;
  parts.transform_seed = settings.seed;
  const unsigned cpus = available_cpus();
  parts.hands = settings.hands != 0  ? settings.hands
                : settings.transform ? cpus
                                     : std::min(4u, cpus);
  parts.trace = settings.trace;
  if (!neighbours.ranks.empty())
    loader->shared_ = std::make_unique<SharedTiers>(
        neighbours, settings.rank, *parts.tiers[0].memory,
        [inbox = parts.inbox](uint32_t rank) { inbox->post(Event{event::PeerDown{rank}}); });
  if (settings.join) {
    FORELOAD_CHECK(
        agree_on_plan(*settings.join, settings.rank, settings.ranks, loader->plan_->digest()));
    if (loader->shared_) {
      // All have published before they agreed.
      parts.neighbours = loader->shared_->fetch(neighbours, settings.ranks, parts.index->samples(),
                                                loader->plan_->digest(), kNeighbourPatience);
      for (const std::string& warning : loader->shared_->warnings())
        stats.start.warnings.push_back(warning);
    }
    parts.peers = std::make_shared<PeerLink>(parts.inbox, parts.staging, loader->plan_);
    FORELOAD_TRY(auto transport, connect_ranks(*settings.join, settings.rank, settings.ranks,
                                               parts.peers->calls()));
    parts.peers->attach(std::move(transport));
    stats.start.transport = parts.peers->describe();
    stats.start.transport_why = settings.join->why;
  }
  PolicySettings& policy = parts.policy;
  policy.rank = settings.rank;
  policy.ahead_bytes = settings.staging / 4;
  policy.window_bytes = settings.staging - policy.ahead_bytes;
  policy.skip_bad_samples = settings.skip_bad_samples;
  policy.tries = settings.tries;
  policy.read_deadline = settings.read_deadline;
  policy.peer_timeout = settings.peer_timeout;
  policy.endless = !settings.epochs || settings.given_lists;
  policy.given_lists = settings.given_lists;
  // Ranks that do not talk may be anywhere.
  const auto local = static_cast<uint32_t>(1 + neighbours.ranks.size());
  settle_limiters(settings, profile.machine, opened.root, local, stats.start, policy);
  loader->endless_ = policy.endless;
  loader->given_lists_ = settings.given_lists;
  loader->epoch_ = settings.first_epoch;
  loader->resumed_epoch_ = settings.first_epoch;
  loader->resumed_start_ = settings.start;
  loader->engine_ = std::make_unique<Engine>(std::move(parts));
  return loader;
}

Loader::~Loader() = default;

uint64_t Loader::batches_in(uint64_t epoch) const {
  if (given_lists_) {
    const auto given = given_batches_.find(epoch);
    return given == given_batches_.end() ? 0 : given->second;
  }
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
    given_batches_.erase(epoch_);
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

Result<void> Loader::give_list(std::vector<uint64_t> samples, std::vector<uint64_t> batch_ends) {
  assert(given_lists_);
  uint64_t before = 0;
  for (const uint64_t end : batch_ends) {
    if (end < before)
      return fail(ErrorKind::invalid, "the ends of batches must grow from batch to batch");
    before = end;
  }
  if (!batch_ends.empty() && before != samples.size())
    return fail(
        ErrorKind::invalid,
        fmt::format("the last batch ends at {}, but {} samples are given", before, samples.size()));
  const uint64_t epoch = given_batches_.empty() ? epoch_ : given_batches_.rbegin()->first + 1;
  const uint64_t batches =
      batch_ends.empty() ? plan_->job().batching.batches(samples.size()) : batch_ends.size();
  FORELOAD_TRY(const auto order, make_given_order(index_->samples(), {std::move(samples)}));
  FORELOAD_TRY(auto list, order->epoch(0));
  given_batches_[epoch] = batches;
  engine_->give_list(epoch, std::move(list),
                     batch_ends.empty()
                         ? nullptr
                         : std::make_shared<const std::vector<uint64_t>>(std::move(batch_ends)));
  return {};
}

void Loader::seek(uint64_t epoch, uint64_t start) {
  given_batches_.clear();
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
