// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/loader.h"

#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "foreload/loader/counters.h"
#include "foreload/loader/figures.h"
#include "foreload/loader/opening.h"
#include "foreload/plan/given_order.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

// Between two looks at the engine's counters within an epoch.
constexpr std::chrono::milliseconds kCountersAge{100};

double seconds_between(SteadyTime begin, SteadyTime end) {
  return std::chrono::duration<double>(end - begin).count();
}

}  // namespace

Result<std::unique_ptr<Loader>> Loader::open(LoaderSettings settings) {
  std::unique_ptr<Loader> loader(new Loader);
  loader->epoch_ = settings.first_epoch;
  loader->resumed_epoch_ = settings.first_epoch;
  loader->resumed_start_ = settings.start;
  FORELOAD_TRY(OpenedRank opened, open_rank(std::move(settings)));
  loader->endless_ = opened.parts.policy.endless;
  loader->keeps_files_ = !opened.parts.form;
  loader->index_ = opened.parts.index;
  loader->plan_ = opened.parts.plan;
  loader->loan_ = std::move(opened.loan);
  loader->shared_ = std::move(opened.shared);
  loader->stats_ = std::move(opened.stats);
  if (GivenOrder* given = loader->plan_->given()) given->seek(loader->epoch_);
  loader->engine_ = std::make_unique<Engine>(std::move(opened.parts));
  return loader;
}

// Neighbours hear that it goes before it stops answering.
Loader::~Loader() {
  if (shared_) shared_->leave();
}

uint64_t Loader::batches_in(uint64_t epoch) const {
  const EpochShape shape = plan_->order().shape(epoch);
  if (shape.batches) return *shape.batches;
  const uint64_t start = epoch == resumed_epoch_ ? resumed_start_ : 0;
  return plan_->job().batching.batches(plan_->dealt(shape.entries, start).per_rank());
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
    epoch_stats_.figures = stats_.figures;
    epoch_stats_.figures.epoch = epoch_;
    epoch_stats_.counted.resize(counters().size());
    if (!epoch_begin_) {
      epoch_begin_ = begin;
      at_epoch_begin_ = engine_->stats();
    }
  }
  if (given_ >= batches_in(epoch_)) {
    ++epoch_;
    if (GivenOrder* given = plan_->given()) given->drop_before(epoch_);
    given_ = 0;
    waiting_since_.reset();
    return std::nullopt;
  }
  FORELOAD_TRY(Batch batch, engine_->next(until));
  const auto end = Clock::now();
  waiting_since_.reset();
  ++given_;
  count(batch, begin, end);
  return std::optional<Batch>(std::move(batch));
}

void Loader::count(const Batch& batch, SteadyTime asked, SteadyTime received) {
  EpochStats& stats = epoch_stats_;
  const double waited = seconds_between(asked, received);
  stats.waits.add(received - asked);
  stats.wait_seconds += waited;
  stats.seconds = seconds_between(*epoch_begin_, received);
  ++stats.batches;
  stats.samples += batch.samples.size();
  uint64_t bytes = 0;
  for (size_t i = 0; i < kFroms; ++i) {
    bytes += batch.from_bytes[i];
    stats.from_bytes[i] += batch.from_bytes[i];
    stats.from_samples[i] += batch.from_samples[i];
  }
  stats.bytes += bytes;
  stats.figures.seconds = stats.seconds;
  stats.figures.waited = stats.wait_seconds;
  stats.figures.samples = stats.samples;
  stats.figures.bytes = stats.bytes;
  {
    const std::lock_guard lock(run_mutex_);
    if (!run_begin_) {
      run_begin_ = asked;
      run_.first_wait = waited;
      stats.figures.first_wait = waited;
    }
    run_.seconds = seconds_between(*run_begin_, received);
    run_.waited += waited;
    run_.samples += batch.samples.size();
    run_.bytes += bytes;
  }
  const bool last = given_ == batches_in(epoch_);
  if (!last && received - counters_read_ < kCountersAge) return;
  counters_read_ = received;
  EngineStats now = engine_->stats();
  set_counters(at_epoch_begin_, now, stats_.figures, stats.figures);
  stats.counted.clear();
  visit_counters(now, [this, &stats](const Counter& counter, uint64_t value) {
    stats.counted.push_back(value - counter.value(at_epoch_begin_));
  });
  if (!last) return;
  epoch_begin_ = received;
  at_epoch_begin_ = std::move(now);
}

Result<void> Loader::give_list(std::vector<uint64_t> samples, std::vector<uint64_t> batch_ends) {
  assert(plan_->given() != nullptr);
  FORELOAD_TRY(auto given, plan_->given()->give(std::move(samples), std::move(batch_ends)));
  engine_->learn(given.epoch, std::move(given.list));
  return {};
}

Result<std::shared_ptr<Ticket>> Loader::fetch(std::vector<uint64_t> samples, bool as_bytes) {
  for (const uint64_t sample : samples)
    if (sample >= index_->samples())
      return fail(ErrorKind::invalid, fmt::format("there is no sample {}: the data set has {}",
                                                  sample, index_->samples()));
  if (as_bytes && !keeps_files_)
    return fail(ErrorKind::invalid,
                "cannot give the bytes of files: this loader keeps what was made of them; open it "
                "with form 'encoded'");
  return engine_->fetch(std::move(samples), as_bytes);
}

void Loader::seek(uint64_t epoch, uint64_t start) {
  if (GivenOrder* given = plan_->given()) given->seek(epoch);
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
  stats.memory_overhead = stats.engine.tier_overhead;
  {
    const std::lock_guard lock(run_mutex_);
    stats.figures.seconds = run_.seconds;
    stats.figures.waited = run_.waited;
    stats.figures.first_wait = run_.first_wait;
    stats.figures.samples = run_.samples;
    stats.figures.bytes = run_.bytes;
  }
  set_counters({}, stats.engine, stats_.figures, stats.figures);
  return stats;
}

}  // namespace foreload
