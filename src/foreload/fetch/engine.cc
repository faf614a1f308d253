// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/engine.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kNamesKept = 100;  // of skipped samples
constexpr std::chrono::milliseconds kFarewell{500};

ReadEnd end_of(Fault fault) {
  switch (fault) {
    case Fault::none:
      return ReadEnd::ok;
    case Fault::transient:
      return ReadEnd::transient;
    case Fault::throttled:
      return ReadEnd::throttled;
    case Fault::changed:
      return ReadEnd::changed;
    case Fault::deadline:
      return ReadEnd::deadline;
    case Fault::permanent:
    case Fault::cancelled:
      break;
  }
  return ReadEnd::permanent;
}

EngineParts completed(EngineParts parts) {
  if (!parts.hands) parts.hands = std::make_unique<Hands>(1);
  if (!parts.decoded) parts.decoded = parts.staging;
  parts.policy.decode = static_cast<bool>(parts.transform);
  parts.policy.peers = parts.peers != nullptr;
  parts.policy.neighbours.clear();
  for (uint32_t rank = 0; rank < parts.neighbours.size(); ++rank)
    if (parts.neighbours[rank]) parts.policy.neighbours.push_back(rank);
  if (parts.transform) parts.policy.decoded_bytes = parts.transform.fixed_bytes();
  return parts;
}

}  // namespace

Engine::Engine(EngineParts parts)
    : parts_(completed(std::move(parts))),
      policy_(parts_.plan, parts_.policy, parts_.held),
      start_(Clock::now()),
      ahead_(parts_.plan->sizes().samples(), 1),
      loads_(parts_.tiers.size() + 2, StageLoad(start_)),
      disks_load_(start_),
      peers_load_(start_),
      computing_(std::make_unique<Hands>(1)) {
  if (parts_.peers) stats_.peers.resize(parts_.plan->job().ranks);
  for (const uint32_t rank : parts_.policy.neighbours) stats_.peers[rank].same_host = true;
  for (uint32_t tier = 0; tier < parts_.tiers.size(); ++tier) {
    const auto answered = [inbox = parts_.inbox, tier](std::span<const TierAnswer> answers) {
      inbox->post(message::TierAnswered{tier, {answers.begin(), answers.end()}});
    };
    const auto run = [hands = parts_.hands.get()](Traffic traffic, std::function<void()> job) {
      if (traffic == Traffic::peer)
        hands->serve(std::move(job));
      else
        hands->copy(std::move(job));
    };
    Tier& lender = *parts_.tiers[tier];
    lent_.push_back({lender.lend(answered, run),
                     lender.kind() == "memory" ? From::memory : From::disk,
                     {},
                     {}});
    if (tier < parts_.keep.size()) lender.keep(lent_[tier].borrower, parts_.keep[tier]);
  }
  parts_.keep.clear();
  // What the plan has no room for is found when it is needed.
  for (const Held& copy : parts_.held) {
    const Owner owner = parts_.plan->placement().owner(copy.sample);
    if (parts_.lent_to_others && owner.rank == parts_.policy.rank && owner.tier == copy.tier)
      others_.insert(copy.sample);
  }
  update_stats();
  thread_ = start_own_thread("foreload-loop", [this] { loop(); });
}

Engine::~Engine() {
  parts_.inbox->post(message::Stop{});
  thread_.join();
  for (const auto& [number, waiting] : tickets_)
    if (const auto ticket = waiting.lock())
      ticket->set(fail(ErrorKind::cancelled, "the loader is closed"));
  if (parts_.peers) parts_.peers->say_goodbye();
  parts_.peers.reset();
  parts_.source.reset();
  finish_placing();
  // What hands still do may ask tiers; what tiers then ask of them is forgotten.
  parts_.hands.reset();
  for (size_t tier = 0; tier < lent_.size(); ++tier)
    parts_.tiers[tier]->give_back(lent_[tier].borrower);
  parts_.tiers.clear();
  computing_.reset();
}

void Engine::finish_placing() {
  const auto until = Clock::now() + kFarewell;
  std::vector<Message> messages;
  while (placing_ > 0 && Clock::now() < until) {
    parts_.inbox->take(messages, until);
    for (const Message& message : messages)
      if (const auto* answered = std::get_if<message::TierAnswered>(&message))
        for (const TierAnswer& answer : answered->answers) count_ended(answered->tier, answer.id);
  }
}

RunTime Engine::now() const {
  return Clock::now() - start_;
}

// The consumer's side.

Result<Batch> Engine::next(std::optional<SteadyTime> until) {
  std::unique_lock lock(mutex_);
  auto there_is = [this] { return seeks_done_ == seeks_ && !ready_.empty(); };
  if (!there_is()) {
    if (!until) {
      delivered_.wait(lock, there_is);
    } else if (!delivered_.wait_until(lock, *until, there_is)) {
      return fail(ErrorKind::cancelled, "no batch arrived in the time given");
    }
  }
  if (!ready_.front().batch) return tl::unexpected(ready_.front().batch.error());
  Ready ready = std::move(ready_.front());
  ready_.pop_front();
  taken_ = ready.number;
  for (const uint64_t sample : ready.batch->skipped) {
    ++stats_.skipped_samples;
    if (stats_.skipped.size() < kNamesKept) stats_.skipped.push_back(name_of_sample(sample));
  }
  return std::move(ready.batch);
}

void Engine::release() {
  if (!taken_) return;
  parts_.inbox->post(Event{event::Consumed{*taken_}});
  taken_.reset();
}

void Engine::seek(uint64_t epoch, uint64_t start) {
  {
    decltype(ready_) dropped;  // let go without the lock: their memory may be somebody else's
    std::lock_guard lock(mutex_);
    ++seeks_;
    dropped.swap(ready_);
  }
  taken_.reset();
  parts_.inbox->post(Event{event::Seek{epoch, start}});
}

void Engine::learn(uint64_t epoch, std::shared_ptr<const EpochOrder> order) {
  parts_.inbox->post(Event{event::EpochKnown{epoch, std::move(order)}});
}

std::shared_ptr<Ticket> Engine::fetch(std::vector<uint64_t> samples, bool as_bytes) {
  std::unique_lock lock(mutex_);
  const uint64_t number = next_fetch_++;
  auto ticket = std::make_shared<Ticket>(number, parts_.inbox);
  if (samples.empty()) {
    ticket->set(Fetched{});
    return ticket;
  }
  tickets_[number] = ticket;
  lock.unlock();
  parts_.inbox->post(Event{event::Fetch{number, std::move(samples), as_bytes}});
  return ticket;
}

EngineStats Engine::stats() const {
  std::vector<uint64_t> kept;
  uint64_t overhead = 0;
  for (const auto& tier : parts_.tiers) {
    kept.push_back(tier->payload());
    tier->visit([&overhead](std::string_view name, uint64_t value) {
      if (name == "overhead") overhead += value;
    });
  }
  std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  stats.kept_bytes = std::move(kept);
  stats.tier_overhead = overhead;
  return stats;
}

// The loop's side.

void Engine::loop() {
  policy_.begin(now(), actions_);
  carry_out_all();
  std::vector<Message> messages;
  while (!stopping_) {
    parts_.inbox->take(messages, timer_);
    for (Message& message : messages) std::visit([this](auto& m) { handle(m); }, message);
    // After the messages: what has arrived is not late, however long this thread slept.
    if (timer_ && Clock::now() >= *timer_) {
      timer_.reset();
      tell(event::Timer{});
    }
    carry_out_all();
    update_stats();
  }
}

void Engine::tell(const Event& event) {
  policy_.on(event, now(), actions_);
}

void Engine::carry_out_all() {
  carry_out(actions_);
  flush_reads();
  arrived_.clear();
  publish_failure();
}

void Engine::update_stats() {
  const PolicyTotals totals = policy_.totals();
  const StagingTotals staging = parts_.staging->totals();
  const uint64_t abandoned = parts_.source->abandoned();
  std::lock_guard lock(mutex_);
  stats_.policy = totals;
  stats_.staging = staging;
  stats_.abandoned_reads = abandoned;
  stats_.ready_batches = ready_.size();
  set_stages();
}

// REQUIRES: mutex_ held.
void Engine::set_stages() {
  const auto now = Clock::now();
  stats_.stages.resize(loads_.size());
  auto set = [&](size_t i, std::string_view name, uint64_t in_flight, uint64_t queued,
                 unsigned limit, double rate) {
    loads_[i].set(now, in_flight, queued);
    stats_.stages[i] = {std::string(name), limit, rate, loads_[i].totals()};
  };
  auto set_path = [&](size_t i, std::string_view name, const Limiter& limiter, uint64_t queued) {
    set(i, name, limiter.in_flight(), queued, limiter.limit(), limiter.rate());
  };
  const Limiter& source = policy_.source_limiter();
  set_path(0, "source", source, stats_.policy.waiting_for_source);
  for (uint32_t tier = 0; tier < parts_.tiers.size(); ++tier)
    set_path(1 + tier, parts_.tiers[tier]->kind(), policy_.tier_limiter(tier),
             policy_.waiting_for_tier(tier));
  const Hands::Load hands = parts_.hands->load();
  set(loads_.size() - 1, "hands", hands.running, hands.waiting, parts_.hands->threads(), 0);
  disks_load_.set(now, disk_jobs_, 0);
  stats_.disks = disks_load_.totals();
  peers_load_.set(now, asked_, 0);
  stats_.peer_requests = peers_load_.totals();
  if (!parts_.trace) return;
  parts_.trace->value("source in flight", now, source.in_flight());
  parts_.trace->value("source limit", now, source.limit());
  parts_.trace->value("waiting for the source", now,
                      static_cast<double>(stats_.policy.waiting_for_source));
  parts_.trace->value("ready batches", now, static_cast<double>(ready_.size()));
}

void Engine::publish(uint64_t batch, Result<Batch> result) {
  {
    std::lock_guard lock(mutex_);
    ready_.push_back({batch, std::move(result)});
  }
  delivered_.notify_one();
}

void Engine::publish_failure() {
  if (failures_.empty() || failures_.begin()->first != next_to_publish_) return;
  publish(failures_.begin()->first, tl::unexpected(failures_.begin()->second));
  next_to_publish_ = UINT64_MAX;  // nothing comes after it
}

void Engine::handle(SourceAnswer& answer) {
  const auto read = source_reads_.find(answer.id);
  if (read == source_reads_.end()) return;  // cancelled before
  const uint64_t request = read->second;
  source_reads_.erase(read);
  Pending& pending = pending_.at(request);
  if (answer.fault != Fault::none) {
    pending.fault = answer.fault;
    last_error_[pending.sample] = answer.what;
    std::lock_guard lock(mutex_);
    ++stats_.source_errors;
  }
  if (--pending.parts_left == 0) end_read(request, end_of(pending.fault));
}

void Engine::handle(message::TierAnswered& answered) {
  for (const TierAnswer& answer : answered.answers) end_tier_job(answered.tier, answer);
}

void Engine::count_ended(uint32_t tier, uint64_t id) {
  if (lent_[tier].from != From::disk) return;
  --disk_jobs_;
  placing_ -= job_of(id) == TierJob::place;
}

void Engine::end_tier_job(uint32_t tier, const TierAnswer& answer) {
  if (answer.end == TierEnd::failed) {
    const auto why = parts_.tiers[tier]->dead();
    if (why && lose_tier(tier, *why)) tell(event::TierLost{tier});
  }
  count_ended(tier, answer.id);
  if (answer.end == TierEnd::corrupt) {
    std::lock_guard lock(mutex_);
    ++stats_.corrupt_copies;
  }
  const bool done = answer.end == TierEnd::done;
  const uint64_t number = number_of(answer.id);
  switch (job_of(answer.id)) {
    case TierJob::read:
      return end_read(number, done ? ReadEnd::ok : ReadEnd::missing);
    case TierJob::serve:
      return end_serving(number, answer);
    case TierJob::place:
      // Another sample may have the same bytes.
      const bool there = answer.end == TierEnd::full && parts_.tiers[tier]->holds(key_of(number));
      tell(event::Placed{number, tier, done || there});
  }
}

void Engine::handle(message::NeighbourRead& read) {
  const auto pending = pending_.find(read.request);
  if (read.copied != Copied::miss && pending != pending_.end())
    pending->second.origin.number = read.neighbour;
  if (read.copied == Copied::corrupt) {
    std::lock_guard lock(mutex_);
    ++stats_.corrupt_copies;
    ++stats_.peers[read.neighbour].corrupt;
  }
  end_read(read.request, read.copied == Copied::hit ? ReadEnd::ok : ReadEnd::missing);
}

void Engine::handle(message::Made& made) {
  const auto found = making_.find(made.request);
  if (found == making_.end()) return;  // cancelled
  if (found->second.memory) arrived_[made.request] = std::move(found->second.memory);
  making_.erase(found);
  count_decoded(made.sample, made.took);
  const bool ok = !made.error;
  if (ok)
    unmade_.erase(made.sample);
  else
    unmade_[made.sample] = std::move(*made.error);
  tell(event::Made{made.request, ok});
}

void Engine::handle(message::Decoded& decoded) {
  const auto batch = open_.find(decoded.place.batch);
  if (batch == open_.end()) return;  // closed by a seek
  if (decoded.error) batch->second.undecoded[decoded.place.index] = std::move(*decoded.error);
  if (!parts_.form || parts_.form->finish_decodes()) count_decoded(decoded.sample, decoded.took);
  tell(event::Decoded{decoded.place, !decoded.error});
}

void Engine::count_decoded(uint64_t sample, std::chrono::nanoseconds took) {
  const double seconds = std::chrono::duration<double>(took).count();
  const uint64_t size = parts_.index->sample_size(sample);
  {
    std::lock_guard lock(mutex_);
    ++stats_.decoded_samples;
    stats_.decode_seconds += seconds;
    DecodedSizes& of_size =
        stats_.decoded_sizes[std::min<size_t>(std::bit_width(size), kSizeClasses - 1)];
    ++of_size.samples;
    of_size.bytes += size;
    of_size.seconds += seconds;
  }
  if (parts_.trace)
    parts_.trace->span("decode", "decode", Clock::now() - took, Clock::now(), sample);
}

void Engine::handle(Event& event) {
  if (std::holds_alternative<event::Seek>(event)) {
    carry_out_all();
    failures_.clear();
    next_to_publish_.reset();
    decltype(ready_) dropped;  // as in seek()
    std::lock_guard lock(mutex_);
    dropped.swap(ready_);
    ++seeks_done_;
  }
  if (const auto* forgotten = std::get_if<event::ForgetFetch>(&event)) {
    const std::lock_guard lock(mutex_);
    tickets_.erase(forgotten->batch);
  }
  tell(event);
}

const char* Engine::track_of(Origin origin) const {
  if (origin.kind == Origin::Kind::source) return "source";
  if (origin.kind == Origin::Kind::peer) return "peer";
  if (origin.kind == Origin::Kind::neighbour) return "same host";
  return lent_[origin.number].from == From::memory ? "memory" : "disk";
}

void Engine::end_read(uint64_t request, ReadEnd end) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;  // cancelled before
  Pending pending = std::move(found->second);
  pending_.erase(found);
  const bool from_tier = pending.origin.kind == Origin::Kind::tier;
  count_peer_read(pending, end);
  if (parts_.trace)
    parts_.trace->span(track_of(pending.origin), "read", pending.begin, Clock::now(),
                       pending.sample);
  if (end == ReadEnd::ok) {
    if (pending.origin.kind == Origin::Kind::source) {
      last_error_.erase(pending.sample);
      std::lock_guard lock(mutex_);
      stats_.source_bytes += parts_.index->sample_size(pending.sample);
      ++stats_.source_samples;
    } else if (from_tier) {
      ahead_.reset(pending.sample, 0);
      if (others_.contains(pending.sample)) count_others(pending);
      if (lent_[pending.origin.number].from == From::disk) {
        std::lock_guard lock(mutex_);
        stats_.disk_bytes += parts_.plan->sizes()[pending.sample];
      }
    }
    if (pending.place.batch != kNoBatch) {
      OpenBatch& batch = open_.at(pending.place.batch);
      batch.from[pending.place.index] = pending.from;
      if (pending.memory && !is_made(pending.origin)) {  // a hedge that came first
        batch.ranges[pending.place.index] = pending.memory->range(0);
        batch.spilled.push_back(std::move(pending.memory));
      }
    }
    if (pending.memory) arrived_[request] = std::move(pending.memory);
  } else if (end == ReadEnd::deadline && !pending.memory) {
    taint(pending.place);
  }
  tell(event::ReadEnded{request, end});
}

void Engine::count_others(const Pending& pending) {
  const uint32_t tier = pending.origin.number;
  const Owner owner = parts_.plan->placement().owner(pending.sample);
  // It shall stay when whoever has put it is gone.
  if (owner.rank == parts_.policy.rank && owner.tier == tier)
    parts_.tiers[tier]->want(lent_[tier].borrower, key_of(pending.sample));
  std::lock_guard lock(mutex_);
  ++stats_.others_samples;
  stats_.others_bytes += parts_.plan->sizes()[pending.sample];
}

bool Engine::lose_tier(uint32_t tier, const std::string& why) {
  if (std::exchange(lent_[tier].lost, true)) return false;
  std::lock_guard lock(mutex_);
  stats_.lost_tiers.push_back(why);
  return true;
}

std::string Engine::name_of_sample(uint64_t sample) const {
  return std::string(parts_.index->sample_name(sample));
}

}  // namespace foreload
