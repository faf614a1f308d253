// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/training.h"

#include <algorithm>
#include <cassert>
#include <deque>
#include <utility>

#include "foreload/sim/compute.h"

namespace foreload::sim {
namespace {

constexpr uint64_t kMostBatchesAhead = 2;  // the one being computed, and the next

// Ready times that stand for a state.
constexpr Time kNotAsked = -2;
constexpr Time kOnItsWay = -1;

// What a transfer was for: a sample of a batch, or a copy for a tier.
struct Token {
  static constexpr uint64_t kFill = uint64_t{1} << 62;
  static constexpr uint64_t kWritten = uint64_t{1} << 61;  // a copy that is in its tier now

  static uint64_t stage(uint32_t rank, uint32_t place) { return uint64_t{rank} << 32 | place; }
  static uint64_t fill(uint32_t rank, uint32_t tier, uint32_t sample) {
    return kFill | uint64_t{tier} << 56 | uint64_t{rank} << 32 | sample;
  }
  static uint32_t rank(uint64_t token) { return token >> 32 & 0xffffff; }
  static uint32_t tier(uint64_t token) { return token >> 56 & 0x1f; }
  static uint32_t low(uint64_t token) { return static_cast<uint32_t>(token); }
};

class Training {
 public:
  Training(const Scenario& scenario, const Workload& workload, Rival& rival)
      : scenario_(scenario),
        workload_(workload),
        rival_(rival),
        compute_(scenario.training, workload.ranks()),
        cluster_(scenario.cluster, scenario.training.seed, most_reads(scenario.cluster)),
        barrier_(cluster_.agenda().add()),
        ranks_(workload.ranks()),
        shares_work_(rival.shares_work()) {
    const uint64_t batch_bytes = workload.batch_size() * std::max<uint64_t>(1, mean_bytes());
    batches_ahead_ = std::min(kMostBatchesAhead, scenario.cluster.staging / batch_bytes);
    const size_t threads = scenario.cluster.preprocess_threads;
    first_timer_ = barrier_ + 1;
    for (Rank& rank : ranks_) {
      const uint32_t slot = cluster_.agenda().add();
      assert(slot == first_timer_ + static_cast<uint32_t>(&rank - ranks_.data()));
      static_cast<void>(slot);
      rank.entries.resize(2 * workload.batch_size());
      rank.preprocess_free.resize(threads);
      rank.fills.resize(scenario.cluster.tiers.size());
    }
    outcome_.hits.own.resize(scenario.cluster.tiers.size());
  }

  Result<Outcome> run(const Progress& progress);

 private:
  struct Entry {
    Time ready = kNotAsked;
    uint32_t sample = 0;
    bool ahead = false;  // read by a staging thread
    Place place;
  };
  struct Rank {
    Time time = 0;               // when the sample before `consumed` is computed
    double computing = 0;        // seconds in this phase
    uint64_t consumed = 0;       // samples of the batch being computed
    uint64_t asked = 0;          // samples of the batch being staged, where threads share work
    uint64_t unstaged = 0;       // samples of the batch being staged that are not ready yet
    Time staged = 0;             // when the last sample was, or will be, ready
    std::vector<Entry> entries;  // of two batches
    std::vector<Time> preprocess_free;  // by thread
    std::vector<uint32_t> fills;        // under way, by tier
    std::vector<uint32_t> parked;       // places whose samples are being filled
  };

  static uint64_t most_reads(const ClusterSettings& cluster) {
    uint64_t threads = cluster.staging_threads;
    for (const TierSettings& tier : cluster.tiers) threads += tier.threads;
    return threads * cluster.ranks_per_node;
  }
  uint64_t mean_bytes() const { return workload_.sizes().mean(); }

  uint64_t all_steps() const { return workload_.steps() * workload_.epochs(); }
  uint64_t length_of(uint64_t step) const {
    return workload_.batch_length(step % workload_.steps());
  }
  uint32_t sample_at(uint32_t rank, uint64_t step, uint64_t i) const {
    const EpochLists& lists = lists_[step / workload_.steps() - first_lists_];
    return lists.of(rank)[step % workload_.steps() * workload_.batch_size() + i];
  }
  uint32_t place_of(uint64_t step, uint64_t i) const {
    return static_cast<uint32_t>((step & 1) * workload_.batch_size() + i);
  }

  void know_epoch(uint64_t epoch);
  void begin_fills();
  void fill_more(uint32_t rank, uint32_t tier);
  void begin_phase();
  void stage_from(uint32_t rank, uint64_t first);
  void settle(Rank& rank, Time ready);
  void read(uint32_t rank, uint32_t place);
  void consume(uint32_t rank);
  void ended(uint64_t token);
  void unpark(uint32_t rank, uint32_t sample);
  void staged(uint32_t rank, uint32_t place);
  Time preprocessed(Rank& rank, uint64_t bytes);
  void finish(Time at);
  void end_phase();

  const Scenario& scenario_;
  const Workload& workload_;
  Rival& rival_;
  const Compute compute_;
  Cluster cluster_;
  const uint32_t barrier_;    // slot
  uint32_t first_timer_ = 0;  // slots of ranks that wait to ask for a sample
  std::vector<Rank> ranks_;
  uint64_t batches_ahead_ = 0;
  bool shares_work_;
  std::deque<EpochLists> lists_;  // of this epoch and the next
  uint64_t first_lists_ = 0;
  bool training_ = false;
  bool ended_ = false;
  uint64_t fills_ = 0;  // under way

  // A phase: one batch is computed, or the next one is staged, or both.
  uint64_t step_ = 0;    // the batch being computed, or the next to be, through all epochs
  uint64_t staged_ = 0;  // batches staged, or being staged
  bool computing_ = false;
  uint64_t unfinished_ = 0;  // things that ranks do in this phase, of which the end is not known
  Time phase_begin_ = 0;
  Time phase_end_ = 0;
  double phase_computing_ = 0;  // of the rank that computes longest
  Time epoch_begin_ = 0;
  StallCurve stalls_;
  Outcome outcome_;
};

void Training::know_epoch(uint64_t epoch) {
  while (first_lists_ + lists_.size() <= epoch &&
         first_lists_ + lists_.size() < workload_.epochs()) {
    const uint64_t next = first_lists_ + lists_.size();
    lists_.push_back(workload_.lists(next));
    rival_.reorder(next, lists_.back());
  }
}

Result<Outcome> Training::run(const Progress& progress) {
  begin_fills();
  if (!rival_.fills_before_training() || fills_ == 0) begin_phase();
  Agenda& agenda = cluster_.agenda();
  for (uint64_t wakes = 1; !ended_ && !agenda.empty(); ++wakes) {
    const uint32_t slot = agenda.next();
    if (slot == barrier_) {
      end_phase();
    } else if (slot >= first_timer_ && slot < first_timer_ + ranks_.size()) {
      consume(slot - first_timer_);
    } else if (const auto token = cluster_.woken(slot)) {
      ended(*token);
    }
    if (progress && wakes % kWakesPerReport == 0 && !progress(step_, all_steps()))
      return fail(ErrorKind::cancelled, "the simulation was cancelled");
  }
  assert(ended_);
  outcome_.seconds = cluster_.now();
  outcome_.stalls = stalls_.points();
  return std::move(outcome_);
}

void Training::begin_fills() {
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    for (uint32_t tier = 0; tier < scenario_.cluster.tiers.size(); ++tier) fill_more(rank, tier);
  }
}

void Training::fill_more(uint32_t rank, uint32_t tier) {
  while (ranks_[rank].fills[tier] < scenario_.cluster.tiers[tier].threads) {
    const std::optional<uint32_t> sample = rival_.next_fill(rank, tier);
    if (!sample) return;
    ++ranks_[rank].fills[tier];
    ++fills_;
    cluster_.fill(rank, tier, workload_.sizes()[*sample], Token::fill(rank, tier, *sample));
  }
}

void Training::begin_phase() {
  training_ = true;
  phase_end_ = cluster_.now();
  phase_computing_ = 0;
  // Staging holds this batch, or this one and the next; without staging there is nothing to wait
  // for before a batch is computed.
  const bool overlap = batches_ahead_ != 1;
  const bool stages =
      staged_ < all_steps() && (staged_ == step_ || overlap) && staged_ <= step_ + 1;
  computing_ = staged_ > step_;
  if (stages) {
    know_epoch(staged_ / workload_.steps());
    ++staged_;
  }
  unfinished_ = ranks_.size() * ((computing_ ? 1 : 0) + (stages ? 1 : 0));
  for (uint32_t number = 0; stages && number < ranks_.size(); ++number) {
    Rank& rank = ranks_[number];
    rank.unstaged = length_of(staged_ - 1);
    rank.staged = cluster_.now();
    rank.asked = 0;
    for (uint64_t thread = 0; thread < scenario_.cluster.staging_threads; ++thread)
      stage_from(number, thread);
  }
  for (uint32_t number = 0; computing_ && number < ranks_.size(); ++number) {
    Rank& rank = ranks_[number];
    rank.time = cluster_.now();
    rank.computing = 0;
    rank.consumed = 0;
    consume(number);
  }
}

void Training::finish(Time at) {
  phase_end_ = std::max(phase_end_, at);
  if (--unfinished_ == 0)
    cluster_.agenda().set(barrier_, phase_end_ + (computing_ ? scenario_.training.exchange : 0));
}

// A staging thread goes on; `own` is the next sample of its own part of the batch.
void Training::stage_from(uint32_t number, uint64_t own) {
  Rank& rank = ranks_[number];
  const uint64_t step = staged_ - 1;
  const uint64_t length = length_of(step);
  while (true) {
    const uint64_t i = shares_work_ ? rank.asked++ : own;
    if (i >= length) return;
    const uint32_t place = place_of(step, i);
    Entry& entry = rank.entries[place];
    entry.sample = sample_at(number, step, i);
    entry.ahead = batches_ahead_ > 0 && rival_.reads_ahead(number, entry.sample);
    if (entry.ahead && !rival_.needs_no_reads()) return read(number, place);
    entry.ready = rival_.needs_no_reads() ? 0 : kNotAsked;
    settle(rank, 0);
    own += scenario_.cluster.staging_threads;
  }
}

// A sample of the batch being staged is ready, or will be asked for by the loop.
void Training::settle(Rank& rank, Time ready) {
  rank.staged = std::max(rank.staged, ready);
  if (--rank.unstaged == 0) finish(rank.staged);
}

void Training::read(uint32_t rank, uint32_t place) {
  Entry& entry = ranks_[rank].entries[place];
  entry.ready = kOnItsWay;
  entry.place = rival_.choose(rank, entry.sample, cluster_);
  if (entry.place.pending) return ranks_[rank].parked.push_back(place);
  cluster_.read(rank, entry.place, workload_.sizes()[entry.sample], Token::stage(rank, place));
}

// Goes through the batch as far as its samples are there.
void Training::consume(uint32_t number) {
  Rank& rank = ranks_[number];
  const uint64_t length = length_of(step_);
  const double pace = compute_.pace(number, step_);
  while (rank.consumed < length) {
    const uint32_t place = place_of(step_, rank.consumed);
    Entry& entry = rank.entries[place];
    if (entry.ready == kNotAsked) {
      if (rank.time > cluster_.now())
        cluster_.agenda().set(first_timer_ + number, rank.time);
      else
        read(number, place);
      return;
    }
    if (entry.ready == kOnItsWay) return;
    const double seconds = static_cast<double>(workload_.sizes()[entry.sample]) * pace;
    rank.time = std::max(rank.time, entry.ready) + seconds;
    rank.computing += seconds;
    ++rank.consumed;
  }
  phase_computing_ = std::max(phase_computing_, rank.computing);
  finish(rank.time);
}

void Training::ended(uint64_t token) {
  const uint32_t rank = Token::rank(token);
  if ((token & Token::kFill) == 0) return staged(rank, Token::low(token));
  const uint32_t tier = Token::tier(token);
  const uint32_t sample = Token::low(token);
  if ((token & Token::kWritten) == 0) {
    // The thread that has fetched a sample writes it, which takes as long as preprocessing it.
    const uint64_t bytes = workload_.sizes()[sample];
    outcome_.source_bytes += bytes;
    const double rate = scenario_.cluster.busy_preprocess_rate();
    if (rate > 0) return cluster_.wait(static_cast<double>(bytes) / rate, token | Token::kWritten);
  }
  --ranks_[rank].fills[tier];
  --fills_;
  rival_.filled(rank, tier, sample);
  unpark(rank, sample);
  fill_more(rank, tier);
  if (!training_ && fills_ == 0) begin_phase();
}

void Training::unpark(uint32_t rank, uint32_t sample) {
  std::vector<uint32_t>& parked = ranks_[rank].parked;
  for (size_t i = parked.size(); i-- > 0;) {
    const uint32_t place = parked[i];
    if (ranks_[rank].entries[place].sample != sample) continue;
    parked.erase(parked.begin() + static_cast<std::ptrdiff_t>(i));
    read(rank, place);
  }
}

void Training::staged(uint32_t number, uint32_t place) {
  Rank& rank = ranks_[number];
  Entry& entry = rank.entries[place];
  const uint64_t bytes = workload_.sizes()[entry.sample];
  rival_.arrived(number, entry.sample, entry.place);
  switch (entry.place.kind) {
    case Place::Kind::source:
      outcome_.source_bytes += bytes;
      ++outcome_.hits.source;
      break;
    case Place::Kind::own:
      ++outcome_.hits.own[entry.place.tier];
      break;
    case Place::Kind::peer:
      ++outcome_.hits.peer;
      break;
  }
  entry.ready = preprocessed(rank, bytes);
  if (!entry.ahead) return consume(number);
  settle(rank, entry.ready);
  stage_from(number, place % workload_.batch_size() + scenario_.cluster.staging_threads);
}

// A free thread preprocesses while others read on.
Time Training::preprocessed(Rank& rank, uint64_t bytes) {
  if (!scenario_.cluster.preprocess) return cluster_.now();
  const auto thread = std::ranges::min_element(rank.preprocess_free);
  *thread = std::max(*thread, cluster_.now()) +
            static_cast<double>(bytes) / scenario_.cluster.busy_preprocess_rate();
  return *thread;
}

void Training::end_phase() {
  const Time now = cluster_.now();
  double stall = now - phase_begin_;
  if (computing_) {
    stall -= phase_computing_ + scenario_.training.exchange;
    ++step_;
    if (step_ % workload_.steps() == 0) {
      outcome_.epoch_seconds.push_back(now - epoch_begin_);
      epoch_begin_ = now;
      lists_.pop_front();
      ++first_lists_;
    }
  }
  outcome_.stall_seconds += stall;
  stalls_.add(phase_begin_, now, stall);
  phase_begin_ = now;
  if (step_ == all_steps())
    ended_ = true;
  else
    begin_phase();
}

}  // namespace

Result<Outcome> train(const Scenario& scenario, const Workload& workload, Rival& rival,
                      const Progress& progress) {
  return Training(scenario, workload, rival).run(progress);
}

}  // namespace foreload::sim
