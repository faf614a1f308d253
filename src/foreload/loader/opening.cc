// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/opening.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "foreload/base/bytes.h"
#include "foreload/base/cpus.h"
#include "foreload/base/paths.h"
#include "foreload/base/text.h"
#include "foreload/dataset/index.h"
#include "foreload/decode/form.h"
#include "foreload/formats/index_catalog.h"
#include "foreload/formats/saved_index.h"
#include "foreload/loader/figures.h"
#include "foreload/loader/memory_need.h"
#include "foreload/loader/setting_table.h"
#include "foreload/loader/settling.h"
#include "foreload/loader/starting_point.h"
#include "foreload/policy/eviction.h"
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
  IndexPlace place{
      {settings.dataset.native(), settings.files, settings.ranges, settings.part_names},
      settings.index,
      {},
      settings.revalidate};
  if (!settings.disks.empty()) place.cache = settings.disks.front().folder;
  FORELOAD_TRY(OpenedIndex opened, open_saved_index(place, listing));
  stats.listed = opened.start.from == ListingFrom::folder;
  stats.listing_seconds = seconds_since(begin);
  stats.start.listing = opened.start;
  if (!opened.warning.empty()) stats.start.warnings.push_back(opened.warning);
  return opened;
}

Result<void> check_sizes(const DatasetIndex& index) {
  for (uint64_t sample = 0; sample < index.samples(); ++sample) {
    if (index.sample_size(sample) == kUnknownSize)
      return fail(ErrorKind::invalid,
                  fmt::format("the size of sample {} ({}) is not known: list the data set again",
                              sample, index.sample_name(sample)));
  }
  return {};
}

// What is made of a sample is made of one file.
Result<void> check_one_part(const DatasetIndex& index, std::string_view form) {
  if (index.plain()) return {};
  for (uint64_t sample = 0; sample < index.samples(); ++sample) {
    if (index.part_count(sample) > 1)
      return fail(ErrorKind::invalid,
                  fmt::format("form '{}' needs samples of one part, and sample {} ({}) has {}: use "
                              "form 'encoded'",
                              form, sample, index.sample_name(sample), index.part_count(sample)));
  }
  return {};
}

// What is kept of samples whose files have these sizes.
Result<Sizes> kept_sizes(const Form* form, std::vector<uint64_t> sizes) {
  if (form != nullptr)
    for (uint64_t& size : sizes) size = form->bytes(size);
  return Sizes::of(std::move(sizes));
}

// An index that somebody saved may be of other names.
Result<void> check_parts(const DatasetIndex& index, const SampleTransform& transform) {
  if (!transform || !transform.named()) return {};
  std::set<std::string_view> names;
  for (size_t i = 0; i < index.part_count(0); ++i) names.insert(index.part(0, i).name);
  for (const SampleTransform::Part& part : transform.parts())
    if (!names.contains(part.name))
      return fail(ErrorKind::invalid,
                  fmt::format("cannot decode part '{}': sample 0 ({}) has the parts '{}'; correct "
                              "the name, or list the data set again (revalidate)",
                              part.name, index.sample_name(0), fmt::join(names, "', '")));
  return {};
}

// A tier of which a loader has borrowed a part, as a plan takes it. Memory that nobody has opened
// (null) is opened when it is known who shares it, and has room for all of its budget.
PlannedTier planned(const Tier* tier, const TierStart& part, uint64_t mean, double speed) {
  if (tier == nullptr) return {"memory", part.bytes, speed};
  const uint64_t most = tier->kind() == "disk" ? disk_payload(part.bytes, mean) : part.bytes;
  return {std::string(tier->kind()), std::min(tier->capacity(mean), most), speed};
}

Job job_of(const LoaderSettings& settings, const LoaderStart& start, const Sizes& sizes,
           const std::vector<std::shared_ptr<Tier>>& tiers) {
  Job job = job_of(settings);
  // The fastest first.
  double speed = 1e12;
  std::vector<PlannedTier> all;
  for (size_t i = 0; i < tiers.size(); ++i) {
    all.push_back(planned(tiers[i].get(), start.tiers[i], sizes.mean(), speed));
    speed /= 2;
  }
  job.tiers = {all};
  return job;
}

// What tiers found of this data set in this form, as copies of this rank.
std::vector<Held> held_on(const std::vector<std::shared_ptr<Tier>>& tiers,
                          const DatasetIndex& index, FormId form, const Sizes& kept,
                          uint32_t rank) {
  std::vector<Held> held;
  for (uint32_t tier = 0; tier < tiers.size(); ++tier) {
    std::unordered_map<CopyKey, uint64_t, CopyKeyHash> sizes;
    if (!tiers[tier]) continue;  // not opened yet
    for (const FoundCopy& copy : tiers[tier]->found()) sizes.emplace(copy.key, copy.size);
    for (uint64_t sample = 0; !sizes.empty() && sample < index.samples(); ++sample) {
      const auto found = sizes.find({index.content(sample), form});
      if (found != sizes.end() && found->second == kept[sample])
        held.push_back({sample, rank, tier});
    }
  }
  return held;
}

// Replaces what this rank can keep and holds by what all ranks can keep and hold.
Result<void> join_facts(const LoaderSettings& settings, const DatasetIndex& index, FormId form,
                        Job& job) {
  RankFacts own{index.fingerprint(), form, {}, job.held};
  for (const PlannedTier& tier : job.tiers.at(0)) own.tiers.push_back(tier.capacity);
  std::sort(own.held.begin(), own.held.end(),
            [](const Held& a, const Held& b) { return a.sample < b.sample; });
  FORELOAD_TRY(const auto all,
               exchange_facts(*settings.join, settings.rank, settings.ranks, index.samples(), own));
  const std::vector<PlannedTier> like = job.tiers.at(0);
  job.tiers.clear();
  job.held.clear();
  for (const RankFacts& facts : all) {
    std::vector<PlannedTier> tiers;
    for (size_t i = 0; i < facts.tiers.size(); ++i) {
      // Of those that this rank has not, the last is a disk too.
      PlannedTier tier = i < like.size() ? like[i] : PlannedTier{"disk", 0, like.back().speed / 2};
      tier.capacity = facts.tiers[i];
      tiers.push_back(std::move(tier));
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

// What it costs that somebody else uses the folder of a disk cache.
std::string shared_folder(const DiskBudget& disk, const DiskSharing& sharing, bool used) {
  std::string who;
  uint64_t theirs = 0;
  bool own = false;
  for (const DiskNeighbour& other : sharing.others) {
    own = own || other.process == static_cast<uint64_t>(::getpid());
    who += fmt::format("{}{}", who.empty() ? "" : ", ",
                       other.process == 0
                           ? "another process"
                           : fmt::format("process {} on {}", other.process, other.host));
    theirs += other.bytes();
  }
  const std::string left =
      !used ? "too little is left, so this loader goes without it"
            : fmt::format("this loader fills the other {}", format_bytes(sharing.budget));
  return fmt::format(
      "the disk cache {} is in use by {}: samples are not shared, so all are read again; of "
      "the budget of {}, {} are taken, {}; {}",
      disk.folder.native(), own ? fmt::format("another loader of this process ({})", who) : who,
      format_bytes(disk.bytes), format_bytes(theirs), left,
      own ? "let loaders of a program share a foreload.Cache"
          : "give each job a folder of its own, or let this one wait for the other");
}

// The steps, in their order; each uses what those before it left.
class Opening {
 public:
  explicit Opening(LoaderSettings settings) : settings_(std::move(settings)) {
    stats_.source_operations = source_operations_;
    parts_.inbox = std::make_shared<Inbox>();
  }

  Result<OpenedRank> run() {
    FORELOAD_CHECK(find_samples());
    FORELOAD_CHECK(find_cache());
    FORELOAD_CHECK(open_disks());
    FORELOAD_CHECK(borrow());
    FORELOAD_CHECK(make_plan());
    FORELOAD_CHECK(open_memory());
    keep_what_is_planned();
    FORELOAD_CHECK(open_source());
    make_room();
    FORELOAD_CHECK(join_ranks());
    FORELOAD_CHECK(settle_policy());
    return OpenedRank{std::move(stats_), std::move(loan_), std::move(shared_), std::move(parts_)};
  }

 private:
  Result<void> find_samples();
  Result<void> choose_form();
  Result<void> find_cache();
  Result<void> open_disks();
  Result<void> borrow();
  Result<void> make_plan();
  Result<void> open_memory();
  void keep_what_is_planned();
  Result<void> open_source();
  void make_room();
  Result<void> join_ranks();
  Result<void> settle_policy();

  const DatasetIndex& index() const { return *parts_.index; }
  const Plan& plan() const { return *parts_.plan; }

  LoaderSettings settings_;
  LoaderStats stats_;
  std::shared_ptr<Operations> source_operations_ = std::make_shared<Operations>();
  MachineProfile machine_;
  MemoryLimit memory_limit_;
  std::shared_ptr<const Store> store_;  // where the samples are
  std::optional<Sizes> sizes_;          // until they are the plan's
  std::vector<Held> held_;              // by this rank
  Neighbours neighbours_;
  int memory_ = -1;  // that this rank shares with them
  std::unique_ptr<Cache::Loan> loan_;
  std::unique_ptr<SharedTiers> shared_;
  EngineParts parts_;
};

Result<void> Opening::find_samples() {
  if (settings_.cache) {
    CacheBudgets budgets = settings_.cache->budgets();
    settings_.memory = budgets.memory;
    settings_.memory_why = std::move(budgets.memory_why);
    settings_.disks = std::move(budgets.disks);
  }
  for (const DiskBudget& disk : settings_.disks)
    FORELOAD_CHECK(check_new_folder("disk cache", disk.folder));
  FORELOAD_TRY(LoadedProfile profile, load_profile(settings_.profile));
  machine_ = std::move(profile.machine);
  stats_.start.profile = profile.file;
  if (!profile.warning.empty()) stats_.start.warnings.push_back(profile.warning);
  FORELOAD_TRY(OpenedIndex opened, open_index(settings_, stats_, source_operations_));
  FORELOAD_CHECK(check_sizes(opened.index));
  FORELOAD_CHECK(check_parts(opened.index, settings_.transform));
  store_ = opened.store;
  stats_.start.root = store_->where();
  parts_.index = std::make_shared<const DatasetIndex>(std::move(opened.index));
  stats_.index_bytes = index().bytes();
  FORELOAD_CHECK(choose_form());
  if (settings_.staging == 0)
    settings_.staging = usual_staging(settings_, *sizes_, parts_.policy.made_from.get());
  memory_limit_ = memory_limit(settings_.system_root);
  return check_memory({settings_.memory, settings_.staging, stats_.index_bytes}, memory_limit_);
}

// What is kept of samples, and how large that is.
Result<void> Opening::choose_form() {
  FORELOAD_TRY(parts_.form, make_form(settings_.form, settings_.transform.whole()));
  FORELOAD_TRY(sizes_, kept_sizes(parts_.form.get(), index().sample_sizes()));
  if (!parts_.form) return {};
  FORELOAD_CHECK(check_one_part(index(), settings_.form));
  FORELOAD_TRY(Sizes files, Sizes::of(index().sample_sizes()));
  parts_.policy.made_from = std::make_shared<const Sizes>(std::move(files));
  return {};
}

// In the order and with the budgets that this loader uses, in a cache of its own if it has no
// other.
Result<void> Opening::find_cache() {
  constexpr size_t kMostDisks = 15;
  if (settings_.disks.size() > kMostDisks)
    return fail(ErrorKind::invalid, fmt::format("{} disk caches are too many: give at most {}",
                                                settings_.disks.size(), kMostDisks));
  settle_tiers(settings_, machine_, stats_.start);
  if (settings_.only_needed || settings_.cache) cut_budgets(*sizes_, settings_, stats_.start);
  parts_.lent_to_others = settings_.cache != nullptr;
  if (!settings_.cache) {
    settings_.cache = Cache::make({settings_.memory,
                                   settings_.disks,
                                   {},
                                   settings_.rank + settings_.ranks * settings_.lane,
                                   settings_.ranks * settings_.lanes,
                                   settings_.disk_kind});
    settings_.disks = settings_.cache->budgets().disks;
  }
  stats_.disk_operations = settings_.cache->disk_operations();
  return {};
}

Result<void> Opening::open_disks() {
  const uint64_t needed = disk_budget_for(needed_bytes(*sizes_, settings_), sizes_->mean());
  parts_.tiers.resize(1);
  while (parts_.tiers.size() <= settings_.disks.size()) {
    const auto tier = static_cast<uint32_t>(parts_.tiers.size());
    const DiskBudget& budget = settings_.disks[tier - 1];
    DiskSettings disk;
    disk.reserve = parts_.lent_to_others ? budget.bytes : needed;
    disk.queue_bytes = UINT64_MAX;  // the policy bounds what is on its way
    DiskSharing sharing;
    FORELOAD_TRY(auto opened, settings_.cache->disk(budget.number, std::move(disk), &sharing));
    if (sharing.outdated > 0) {
      stats_.start.warnings.push_back(
          fmt::format("the disk cache {} held {} in an earlier format; they were removed",
                      budget.folder.native(), format_bytes(sharing.outdated)));
    }
    if (!sharing.others.empty())
      stats_.start.warnings.push_back(shared_folder(budget, sharing, opened != nullptr));
    if (!opened) {
      settings_.disks.erase(settings_.disks.begin() + (tier - 1));
      stats_.start.tiers.erase(stats_.start.tiers.begin() + tier);
      continue;
    }
    stats_.start.tiers[tier].others = std::move(sharing.others);
    parts_.tiers.push_back(std::move(opened));
  }
  return {};
}

// What is left of the cache of what this loader can use.
Result<void> Opening::borrow() {
  FORELOAD_TRY(loan_, settings_.cache->borrow({settings_.memory, settings_.disks}));
  settings_.memory = stats_.start.tiers[0].bytes = loan_->memory();
  for (size_t i = 0; i < settings_.disks.size(); ++i)
    settings_.disks[i].bytes = stats_.start.tiers[1 + i].bytes =
        loan_->disk(settings_.disks[i].number);
  parts_.tiers[0] = settings_.cache->opened_memory();
  return {};
}

Result<void> Opening::make_plan() {
  const auto begin = Clock::now();
  Job job = job_of(settings_, stats_.start, *sizes_, parts_.tiers);
  leave_out_slow_disks(settings_, machine_, stats_.start, job);
  held_ = held_on(parts_.tiers, index(), form_id(parts_.form.get()), *sizes_, settings_.rank);
  job.held = held_;
  if (settings_.join)
    FORELOAD_CHECK(join_facts(settings_, index(), form_id(parts_.form.get()), job));
  FORELOAD_TRY(Plan plan, Plan::make(job, *std::exchange(sizes_, std::nullopt)));
  parts_.plan = std::make_shared<const Plan>(std::move(plan));
  stats_.plan_seconds = seconds_since(begin);
  return {};
}

// With the threads that copy to it and from it.
Result<void> Opening::open_memory() {
  if (settings_.join) {
    FORELOAD_TRY(neighbours_, find_neighbours(*settings_.join, settings_.rank, settings_.ranks,
                                              settings_.host, settings_.memory > 0));
  }
  const unsigned cpus = available_cpus();
  parts_.hands = std::make_unique<Hands>(settings_.hands != 0  ? settings_.hands
                                         : settings_.transform ? cpus
                                                               : std::min(4u, cpus));
  const bool shared = settings_.memory > 0 && (!neighbours_.ranks.empty() ||
                                               (parts_.lent_to_others && settings_.ranks > 1));
  // Others may have smaller samples.
  const uint64_t mean = parts_.lent_to_others ? std::min<uint64_t>(plan().sizes().mean(), 16 << 10)
                                              : plan().sizes().mean();
  FORELOAD_TRY(const auto tier, settings_.cache->memory({0, shared, mean, index().samples()}));
  memory_ = tier->copies().memory();
  parts_.tiers[0] = tier;
  return {};
}

// Counts what tiers hold of it, and lets them forget the rest.
void Opening::keep_what_is_planned() {
  std::vector<bool> counted(index().samples());
  std::vector<std::unordered_set<CopyKey, CopyKeyHash>> kept(parts_.tiers.size());
  for (const Held& copy : held_) {
    if (!keeps_on(plan(), settings_, copy.sample, copy.tier)) continue;
    kept[copy.tier].insert({index().content(copy.sample), form_id(parts_.form.get())});
    if (counted[copy.sample]) continue;
    counted[copy.sample] = true;
    ++stats_.held_samples;
    stats_.held_bytes += plan().sizes()[copy.sample];
  }
  for (auto& keys : kept)
    parts_.keep.emplace_back(
        [keys = std::move(keys)](const CopyKey& key) { return keys.contains(key); });
  parts_.held = std::move(held_);
}

Result<void> Opening::open_source() {
  SourceSettings source;
  source.objects = std::make_shared<IndexCatalog>(parts_.index);
  source.engine = settings_.io_engine;
  source.drop_page_cache = settings_.memory > 0 || !settings_.disks.empty();
  source.operations = source_operations_;
  auto answered = [inbox = parts_.inbox](SourceAnswer answer) { inbox->post(std::move(answer)); };
  if (settings_.wrap_source) {
    std::optional<Error> failed;
    auto make = [&](Source::Answered inner) -> std::unique_ptr<Source> {
      auto opened = store_->open(source, std::move(inner));
      if (opened) return std::move(*opened);
      failed = opened.error();
      return nullptr;
    };
    parts_.source = settings_.wrap_source(make, answered);
    if (failed) return tl::unexpected(*failed);
  } else {
    FORELOAD_TRY(parts_.source, store_->open(source, answered));
  }
  stats_.source = parts_.source->describe();
  return {};
}

// Memory for batches.
void Opening::make_room() {
  parts_.staging = Staging::create(settings_.staging);
  // Whoever gives the memory also keeps it for reuse: a copy to a device may read a batch that
  // everybody else has let go of, and only its allocator knows.
  if (settings_.decoded_memory) parts_.decoded = Staging::create(0, settings_.decoded_memory());
  parts_.transform = settings_.transform;
  parts_.transform_seed = settings_.seed;
  parts_.trace = settings_.trace;
}

Result<void> Opening::join_ranks() {
  if (!neighbours_.ranks.empty())
    shared_ = std::make_unique<SharedTiers>(neighbours_, settings_.rank, memory_,
                                            [inbox = parts_.inbox](uint32_t rank, bool in_order) {
                                              inbox->post(Event{event::PeerDown{rank, in_order}});
                                            });
  if (!settings_.join) return {};
  if (shared_) shared_->watch(neighbours_, settings_.join->timeout);
  FORELOAD_CHECK(agree_on_plan(*settings_.join, settings_.rank, settings_.ranks, plan().digest()));
  if (shared_) {
    // All have published before they agreed.
    parts_.neighbours = shared_->fetch(neighbours_, settings_.ranks, kNeighbourPatience);
    for (const std::string& warning : shared_->warnings()) stats_.start.warnings.push_back(warning);
  }
  parts_.peers = std::make_shared<PeerLink>(
      parts_.inbox, parts_.staging, parts_.plan,
      [shared = shared_.get()](uint32_t rank) { return shared && shared->has_left(rank); });
  FORELOAD_TRY(auto transport, connect_ranks(*settings_.join, settings_.rank, settings_.ranks,
                                             parts_.peers->calls()));
  parts_.peers->attach(std::move(transport));
  stats_.start.transport = parts_.peers->describe();
  stats_.start.transport_why = settings_.join->why;
  return {};
}

Result<void> Opening::settle_policy() {
  PolicySettings& policy = parts_.policy;
  policy.rank = settings_.rank;
  policy.objective = settings_.objective;
  policy.ahead_bytes = settings_.staging / 4;
  policy.window_bytes = settings_.staging - policy.ahead_bytes;
  policy.skip_bad_samples = settings_.skip_bad_samples;
  policy.tries = settings_.tries;
  policy.read_deadline = settings_.read_deadline;
  policy.peer_timeout = settings_.peer_timeout;
  policy.endless = !settings_.epochs;
  FORELOAD_CHECK(check_choice("eviction", settings_.eviction, find_setting("eviction").choices));
  policy.eviction = find_eviction_rule(settings_.eviction)->name;
  // Ranks that do not talk may be anywhere.
  const auto local = static_cast<uint32_t>(1 + neighbours_.ranks.size());
  settle_limiters(settings_, machine_, stats_.start.root, local, stats_.start, policy);
  settle_speeds(settings_, machine_, stats_.start.root, local, policy);
  stats_.figures = lasting_figures(settings_, parts_, stats_.start, local, memory_limit_.bytes);
  return {};
}

}  // namespace

Result<OpenedRank> open_rank(LoaderSettings settings) {
  share_budgets(settings);
  slow_down_source(settings);
  return Opening(std::move(settings)).run();
}

}  // namespace foreload
