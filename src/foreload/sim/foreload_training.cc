// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/foreload_training.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/plan/plan.h"
#include "foreload/sim/compute.h"
#include "foreload/sim/policy_rank.h"

namespace foreload::sim {
namespace {

constexpr uint64_t kComputed = uint64_t{1} << 62;  // tokens of the loops; the rank besides

// Reads in flight that production begins with and allows at most.
constexpr Limiter::Settings kMemoryLimiter{256, 256, 256};
constexpr Limiter::Settings kDiskLimiter{1, 64, 16};
constexpr uint64_t kLeastAhead = 8;  // samples

double seconds_of(RunTime time) {
  return std::chrono::duration<double>(time).count();
}

// A plan has one tier at least, and samples without bytes are kept in one without room.
Scenario with_a_tier(Scenario scenario) {
  if (scenario.cluster.tiers.empty()) scenario.cluster.tiers.push_back({.name = "memory"});
  return scenario;
}

// What a probe would advise: the requests that a device serves best, and four times those that wait
// for their first byte besides, because they do not come evenly. Behind links that give less than
// the device, the fewest that fill those.
double best_in_flight(const DeviceSettings& device, uint64_t mean_bytes,
                      double most = std::numeric_limits<double>::infinity()) {
  double best = device.curve.best_concurrency();
  while (best > 1 && device.curve.rate(best - 1) >= most) best -= 1;
  return best + 4 * std::min(most, device.curve.rate(best)) * device.latency.mean /
                    static_cast<double>(std::max<uint64_t>(1, mean_bytes));
}

Limiter::Settings source_limiter(const ClusterSettings& cluster, uint64_t mean_bytes) {
  const double links = cluster.source_link ? *cluster.source_link * cluster.nodes()
                                           : std::numeric_limits<double>::infinity();
  return shared_among(cluster.ranks, best_in_flight(cluster.source, mean_bytes, links),
                      BestOf::path, {});
}

Limiter::Settings tier_limiter(const ClusterSettings& cluster, uint32_t tier, uint64_t mean_bytes) {
  if (tier == 0) return kMemoryLimiter;
  Limiter::Settings limiter = kDiskLimiter;
  limiter.first = part_of(best_in_flight(cluster.tiers[tier].read, mean_bytes),
                          cluster.ranks_per_node, limiter);
  return limiter;
}

// What each of so many ranks gets of a device while all have so many reads in flight.
double rate_in_flight(const DeviceSettings& device, unsigned in_flight, uint32_t ranks,
                      uint64_t mean_bytes) {
  const double bytes = in_flight * static_cast<double>(std::max<uint64_t>(1, mean_bytes));
  const double share = device.curve.rate(static_cast<double>(in_flight) * ranks) / ranks;
  return bytes / (device.latency.mean + bytes / share);
}

double source_share(const ClusterSettings& cluster, uint64_t mean_bytes) {
  const double share = rate_in_flight(cluster.source, source_limiter(cluster, mean_bytes).first,
                                      cluster.ranks, mean_bytes);
  return cluster.source_link ? std::min(share, *cluster.source_link / cluster.ranks_per_node)
                             : share;
}

KnownSpeeds speeds_of(const ClusterSettings& cluster, uint64_t mean_bytes) {
  const double local = cluster.ranks_per_node;
  KnownSpeeds speeds;
  speeds.source = {source_share(cluster, mean_bytes), cluster.source.latency.mean};
  for (uint32_t tier = 0; tier < cluster.tiers.size(); ++tier) {
    const DeviceSettings& read = cluster.tiers[tier].read;
    const double rate = rate_in_flight(read, tier_limiter(cluster, tier, mean_bytes).first,
                                       cluster.ranks_per_node, mean_bytes);
    speeds.tiers.push_back({rate, read.latency.mean});
    speeds.peers.push_back(
        {std::min(rate, cluster.network / local), read.latency.mean + 2 * cluster.network_latency});
  }
  return speeds;
}

Job job_of(const Scenario& scenario, uint64_t mean_bytes) {
  Job job;
  job.order.name = scenario.training.order;
  job.seed = scenario.training.seed;
  job.ranks = scenario.cluster.ranks;
  job.epochs = scenario.training.epochs;
  job.batching = {scenario.training.batch_size, scenario.training.drop_last};
  std::vector<PlannedTier> tiers;
  double speed = 1e18;
  const ClusterSettings& cluster = scenario.cluster;
  for (uint32_t tier = 0; tier < cluster.tiers.size(); ++tier)
    tiers.push_back(
        {cluster.tiers[tier].name, cluster.capacity(tier), speed /= 2,
         rate_in_flight(cluster.tiers[tier].read, tier_limiter(cluster, tier, mean_bytes).first,
                        cluster.ranks_per_node, mean_bytes)});
  if (scenario.training.objective == Objective::time)
    leave_out_slow_tiers(tiers, source_share(cluster, mean_bytes));
  job.tiers = {tiers};
  return job;
}

// As the loader sets it up with a profile of this machine.
PolicySettings policy_of(const Scenario& scenario, uint64_t mean_bytes, uint32_t rank) {
  const ClusterSettings& cluster = scenario.cluster;
  PolicySettings settings;
  settings.rank = rank;
  settings.objective = scenario.training.objective;
  settings.speeds = speeds_of(cluster, mean_bytes);
  settings.window_bytes = cluster.staging - cluster.staging / 4;
  // Some samples at least: with fewer on their way a tier would be filled one latency after
  // another.
  settings.ahead_bytes = std::max(cluster.staging / 4, kLeastAhead * mean_bytes);
  settings.decode = cluster.preprocess.has_value();
  settings.decoded_bytes = cluster.preprocessed;
  settings.peers = cluster.ranks > 1;
  settings.eviction = cluster.eviction;
  settings.source_limiter = source_limiter(cluster, mean_bytes);
  for (uint32_t tier = 0; tier < cluster.tiers.size(); ++tier)
    settings.tier_limiters.push_back(tier_limiter(cluster, tier, mean_bytes));
  return settings;
}

class ForeloadTraining final : public World {
 public:
  ForeloadTraining(const Scenario& scenario, const Workload& workload,
                   std::shared_ptr<const Plan> plan)
      : scenario_(scenario),
        workload_(workload),
        compute_(scenario.training, workload.ranks()),
        cluster_(scenario.cluster, scenario.training.seed,
                 uint64_t{Limiter::Settings{}.most} * scenario.cluster.ranks_per_node),
        loops_(scenario.cluster.ranks) {
    auto orders = std::make_shared<SharedOrders>(plan->order());
    for (uint32_t rank = 0; rank < scenario.cluster.ranks; ++rank) {
      PolicyRankSettings settings{.plan = plan,
                                  .policy = policy_of(scenario, workload.sizes().mean(), rank),
                                  .orders = orders,
                                  .held = {},
                                  .decode_threads = scenario.cluster.preprocess_threads};
      ranks_.push_back(std::make_unique<PolicyRank>(std::move(settings), cluster_, *this));
    }
    for (const auto& rank : ranks_) rank->peers().know(ranks_);
  }

  Result<Outcome> run(const Progress& progress);

 private:
  struct Loop {
    bool computing = false;
    uint64_t batch = 0;
    double seconds = 0;
  };

  void ready(uint32_t rank) override { go_on(rank); }
  void failed(uint32_t rank, const action::Fail& fail) override;
  uint64_t all_steps() const { return workload_.steps() * workload_.epochs(); }
  void go_on(uint32_t rank);
  void computed(uint32_t rank);
  void end_step();

  const Scenario& scenario_;
  const Workload& workload_;
  const Compute compute_;
  Cluster cluster_;
  std::vector<std::unique_ptr<PolicyRank>> ranks_;
  std::vector<Loop> loops_;  // by rank
  uint64_t step_ = 0;
  uint32_t finished_ = 0;       // ranks that have computed this step
  std::vector<bool> has_step_;  // by rank: it is in this step, or past it
  Time step_begin_ = 0;
  double step_computing_ = 0;
  Time epoch_begin_ = 0;
  StallCurve stalls_;
  Outcome outcome_;
  std::optional<Error> error_;  // why a batch cannot be had
};

Result<Outcome> ForeloadTraining::run(const Progress& progress) {
  has_step_.assign(ranks_.size(), false);
  for (const auto& rank : ranks_) rank->begin();
  Agenda& agenda = cluster_.agenda();
  const uint32_t first_timer = ranks_.front()->timer_slot();
  for (uint64_t wakes = 1; step_ < all_steps() && !error_ && !agenda.empty(); ++wakes) {
    const uint32_t slot = agenda.next();
    if (cluster_.owns(slot)) {
      const auto token = cluster_.woken(slot);
      if (token && (*token & kComputed) != 0) {
        computed(static_cast<uint32_t>(*token));
      } else if (token) {
        ranks_[RankOperations::rank_of(*token)]->ended(*token);
      }
    } else {
      ranks_[slot - first_timer]->tell(event::Timer{});
    }
    if (progress && wakes % kWakesPerReport == 0 && !progress(step_, all_steps()))
      return fail(ErrorKind::cancelled, "the simulation was cancelled");
  }
  if (error_) return tl::unexpected(*error_);
  if (step_ < all_steps())
    return fail(
        ErrorKind::invalid,
        fmt::format("the policy came to a halt in step {} of {}: please report the scenario", step_,
                    all_steps()));
  outcome_.seconds = cluster_.now();
  outcome_.stalls = stalls_.points();
  outcome_.hits.own.resize(scenario_.cluster.tiers.size());
  for (const auto& rank : ranks_) {
    outcome_.source_bytes += rank->source_bytes();
    const Hits& hits = rank->batches().hits();
    outcome_.hits.peer += hits.peer;
    outcome_.hits.source += hits.source;
    for (size_t tier = 0; tier < outcome_.hits.own.size(); ++tier)
      outcome_.hits.own[tier] += hits.own[tier];
  }
  return std::move(outcome_);
}

// Here all reads succeed that end in time.
void ForeloadTraining::failed(uint32_t rank, const action::Fail& fail) {
  if (error_) return;
  error_ = Error{
      ErrorKind::unreadable,
      fmt::format("rank {} cannot read sample {}: the source did not answer within the deadline of "
                  "{:.0f} s, after {} tries over {:.0f} s: check cluster.source.latency and curve",
                  rank, fail.sample, seconds_of(PolicySettings{}.read_deadline), fail.tries,
                  seconds_of(fail.since_first_try))};
}

// The rank's loop takes its next batch, if it may and there is one.
void ForeloadTraining::go_on(uint32_t number) {
  auto& waiting = ranks_[number]->batches().ready();
  if (has_step_[number] || waiting.empty()) return;
  const RankBatches::Ready ready = waiting.front();
  waiting.pop_front();
  has_step_[number] = true;
  Loop& loop = loops_[number];
  loop.batch = ready.number;
  loop.seconds = static_cast<double>(ready.bytes) * compute_.pace(number, step_);
  cluster_.wait(loop.seconds, kComputed | number);
}

void ForeloadTraining::computed(uint32_t number) {
  step_computing_ = std::max(step_computing_, loops_[number].seconds);
  if (++finished_ < ranks_.size()) return;
  if (scenario_.training.exchange > 0 && !loops_[number].computing) {
    loops_[number].computing = true;  // the last one waits for the gradients, then comes back
    --finished_;
    return cluster_.wait(scenario_.training.exchange, kComputed | number);
  }
  loops_[number].computing = false;
  end_step();
}

void ForeloadTraining::end_step() {
  const Time now = cluster_.now();
  const double stall = now - step_begin_ - step_computing_ - scenario_.training.exchange;
  outcome_.stall_seconds += stall;
  stalls_.add(step_begin_, now, stall);
  step_begin_ = now;
  step_computing_ = 0;
  finished_ = 0;
  ++step_;
  if (step_ % workload_.steps() == 0) {
    outcome_.epoch_seconds.push_back(now - epoch_begin_);
    epoch_begin_ = now;
  }
  has_step_.assign(ranks_.size(), false);
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank]->tell(event::Consumed{loops_[rank].batch});
    go_on(rank);
  }
}

}  // namespace

Result<Outcome> train_foreload(const Scenario& scenario, const Workload& workload,
                               const Progress& progress) {
  const Scenario job = with_a_tier(scenario);
  FORELOAD_TRY(Plan plan,
               Plan::make(job_of(job, workload.sizes().mean()), workload.sizes(), {.threads = 1}));
  FORELOAD_TRY(
      Outcome outcome,
      ForeloadTraining(job, workload, std::make_shared<const Plan>(std::move(plan))).run(progress));
  outcome.hits.own.resize(scenario.cluster.tiers.size());
  return outcome;
}

}  // namespace foreload::sim
