// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/engine.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/hash.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

// Reads from memory that one hand does in one go: enough to forget what passing them on costs, few
// enough to share a batch among hands.
constexpr size_t kMemoryReadsPerJob = 16;
constexpr size_t kNamesKept = 100;

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

const char* remedy_for(ReadEnd end) {
  switch (end) {
    case ReadEnd::changed:
      return "List the data set again (revalidate), or set on_error='skip'.";
    case ReadEnd::permanent:
      return "Check the file, or set on_error='skip'.";
    default:
      return "Check the mount, or set on_error='skip'.";
  }
}

}  // namespace

Engine::Engine(EngineParts parts)
    : parts_(std::move(parts)),
      policy_(parts_.plan, parts_.policy, parts_.held),
      start_(Clock::now()),
      ahead_(parts_.plan->sizes().samples()),
      tier_lost_(parts_.tiers.size()),
      hands_(std::make_unique<Hands>(parts_.hands)),
      computing_(std::make_unique<Hands>(1)),
      thread_([this] { loop(); }) {}

Engine::~Engine() {
  parts_.inbox->post(message::Stop{});
  thread_.join();
  parts_.source.reset();
  hands_.reset();
  parts_.tiers.clear();
  computing_.reset();
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
  return std::move(ready.batch);
}

void Engine::release() {
  if (!taken_) return;
  parts_.inbox->post(Event{event::Consumed{*taken_}});
  taken_.reset();
}

void Engine::seek(uint64_t epoch, uint64_t start) {
  {
    std::lock_guard lock(mutex_);
    ++seeks_;
    ready_.clear();
  }
  taken_.reset();
  parts_.inbox->post(Event{event::Seek{epoch, start}});
}

EngineStats Engine::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

// The loop's side.

void Engine::loop() {
  policy_.begin(now(), actions_);
  carry_out();
  std::vector<Message> messages;
  while (!stopping_) {
    parts_.inbox->take(messages, timer_);
    if (timer_ && Clock::now() >= *timer_) {
      timer_.reset();
      tell(event::Timer{});
    }
    for (Message& message : messages) std::visit([this](auto& m) { handle(m); }, message);
    carry_out();
    update_stats();
  }
}

void Engine::tell(const Event& event) {
  policy_.on(event, now(), actions_);
}

void Engine::carry_out() {
  while (!actions_.empty()) {
    std::vector<Action> actions = std::exchange(actions_, {});
    for (Action& action : actions) std::visit([this](auto& a) { carry(a); }, action);
  }
  flush_memory_reads();
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
  stats_.source_in_flight = policy_.source_limiter().in_flight();
  stats_.source_limit = policy_.source_limiter().limit();
  stats_.source_rate = policy_.source_limiter().rate();
}

void Engine::carry(action::ComputeEpoch& a) {
  computing_->run([plan = parts_.plan, inbox = parts_.inbox, epoch = a.epoch] {
    auto order = plan->order().epoch(epoch);
    if (order) inbox->post(Event{event::EpochKnown{epoch, std::move(*order)}});
  });
}

void Engine::carry(action::OpenBatch& a) {
  std::vector<uint64_t> sizes;
  sizes.reserve(a.samples.size());
  for (const uint64_t sample : a.samples) sizes.push_back(parts_.plan->sizes()[sample]);
  if (!next_to_publish_) next_to_publish_ = a.batch;
  OpenBatch& batch = open_[a.batch];
  batch.epoch = a.epoch;
  batch.first = a.first;
  batch.last_of_epoch = a.last_of_epoch;
  batch.samples = std::move(a.samples);
  batch.from.assign(sizes.size(), From::source);
  batch.tainted.assign(sizes.size(), false);
  batch.ranges.resize(sizes.size());
  auto slot = parts_.staging->take(sizes);
  if (!slot) {
    failures_.emplace(a.batch, slot.error());
    return;
  }
  batch.slot = std::move(*slot);
  for (size_t i = 0; i < sizes.size(); ++i) batch.ranges[i] = batch.slot->range(i);
}

std::shared_ptr<const void> Engine::OpenBatch::keeper_of(uint32_t index) const {
  for (const auto& spill : spilled) {
    if (spill->range(0).data() == ranges[index].data()) return spill;
  }
  return slot;
}

bool Engine::spill(OpenBatch& batch, uint32_t index, uint64_t size) {
  auto slot = parts_.staging->take(std::span(&size, 1));
  if (!slot) return false;
  batch.ranges[index] = (*slot)->range(0);
  batch.tainted[index] = false;
  batch.spilled.push_back(std::move(*slot));
  return true;
}

void Engine::carry(action::Read& a) {
  Pending& pending = pending_[a.request];
  pending.sample = a.sample;
  pending.place = a.place;
  pending.origin = a.from;
  pending.begin = Clock::now();
  const uint64_t size = parts_.plan->sizes()[a.sample];
  std::span<std::byte> into;
  std::shared_ptr<const void> keeper;
  if (a.place.batch == kNoBatch) {
    auto slot = parts_.staging->take(std::span(&size, 1));
    if (!slot) return end_read(a.request, ReadEnd::permanent);
    pending.memory = std::move(*slot);
    into = pending.memory->range(0);
    keeper = pending.memory;
  } else {
    OpenBatch& batch = open_.at(a.place.batch);
    if (!batch.slot || (batch.tainted[a.place.index] && !spill(batch, a.place.index, size)))
      return end_read(a.request, ReadEnd::permanent);
    into = batch.ranges[a.place.index];
    keeper = batch.keeper_of(a.place.index);
  }
  if (a.from.kind == Origin::Kind::source) {
    pending.from = From::source;
    return read_source(a, pending, into.data(), std::move(keeper));
  }
  EngineTier& tier = parts_.tiers[a.from.number];
  pending.from = ahead_[a.sample] ? From::source : tier.memory ? From::memory : From::disk;
  if (tier.memory)
    memory_reads_.push_back({tier.memory.get(), a.request, a.sample, into, std::move(keeper)});
  else
    tier.disk->read({a.request, a.sample, into.data(), size, std::move(keeper), false});
}

void Engine::read_source(const action::Read& a, Pending& pending, std::byte* into,
                         std::shared_ptr<const void> keeper) {
  const size_t count = parts_.index->part_count(a.sample);
  pending.parts = static_cast<uint32_t>(count);
  pending.parts_left = pending.parts;
  pending.first_part = next_source_read_;
  std::vector<SourceRead> reads;
  for (size_t i = 0; i < count; ++i) {
    const Part part = parts_.index->part(a.sample, i);
    source_reads_[next_source_read_] = a.request;
    reads.push_back({next_source_read_++,
                     {part.object, part.offset, part.length},
                     {into, keeper},
                     Clock::now() + a.deadline});
    into += part.length;
  }
  parts_.source->submit(reads);
}

void Engine::flush_memory_reads() {
  for (size_t first = 0; first < memory_reads_.size(); first += kMemoryReadsPerJob) {
    const size_t last = std::min(first + kMemoryReadsPerJob, memory_reads_.size());
    std::vector<MemoryJob> jobs(std::make_move_iterator(memory_reads_.begin() + first),
                                std::make_move_iterator(memory_reads_.begin() + last));
    hands_->run([inbox = parts_.inbox, jobs = std::move(jobs)] {
      std::vector<Message> done;
      done.reserve(jobs.size());
      for (const MemoryJob& job : jobs)
        done.push_back(message::MemoryRead{job.request, job.tier->get(job.sample, job.into)});
      inbox->post(std::move(done));
    });
  }
  memory_reads_.clear();
}

void Engine::carry(action::Cancel& a) {
  const auto found = pending_.find(a.request);
  if (found == pending_.end()) return;
  for (uint32_t i = 0; i < found->second.parts; ++i) {
    if (source_reads_.erase(found->second.first_part + i) > 0)
      parts_.source->cancel(found->second.first_part + i);
  }
  pending_.erase(found);
}

void Engine::carry(action::Place& a) {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeper;
  if (a.place.batch == kNoBatch) {
    const auto& slot = arrived_.at(a.request);
    bytes = slot->range(0);
    keeper = slot;
    ahead_[a.sample] = true;
  } else {
    const OpenBatch& batch = open_.at(a.place.batch);
    bytes = batch.ranges[a.place.index];
    keeper = batch.keeper_of(a.place.index);
  }
  EngineTier& tier = parts_.tiers[a.tier];
  if (tier.memory) {
    hands_->run([inbox = parts_.inbox, memory = tier.memory.get(), sample = a.sample,
                 number = a.tier, bytes, keeper = std::move(keeper)] {
      const bool ok = memory->put(sample, bytes, checksum64(bytes));
      inbox->post(Event{event::Placed{sample, number, ok}});
    });
    return;
  }
  const uint64_t id = next_disk_write_++;
  disk_writes_[id] = a.sample;
  const uint64_t version = parts_.index->object_version(parts_.index->part(a.sample, 0).object);
  hands_->run([disk = tier.disk.get(), id, sample = a.sample, version, bytes,
               keeper = std::move(keeper)]() mutable {
    disk->write(
        {id, sample, version, bytes.data(), bytes.size(), checksum64(bytes), std::move(keeper)});
  });
}

void Engine::carry(action::Evict& a) {
  EngineTier& tier = parts_.tiers[a.tier];
  if (tier.memory)
    tier.memory->drop(a.sample);
  else
    tier.disk->drop(a.sample);
}

void Engine::carry(action::Copy& a) {
  const OpenBatch& source = open_.at(a.from.batch);
  OpenBatch& target = open_.at(a.to.batch);
  const std::span<const std::byte> bytes = source.ranges[a.from.index];
  if (!target.slot) return;
  if (target.ranges[a.to.index].size() != bytes.size() || target.tainted[a.to.index]) {
    if (!spill(target, a.to.index, bytes.size())) {
      failures_.emplace(a.to.batch, Error{ErrorKind::unreadable, "out of memory for a batch"});
      return;
    }
  }
  if (!bytes.empty()) std::memcpy(target.ranges[a.to.index].data(), bytes.data(), bytes.size());
  target.samples[a.to.index] = source.samples[a.from.index];
  target.from[a.to.index] = From::memory;
}

void Engine::carry(action::Deliver& a) {
  OpenBatch open = std::move(open_.at(a.batch));
  open_.erase(a.batch);
  if (failures_.contains(a.batch)) return;
  Batch batch;
  batch.epoch = open.epoch;
  batch.first = open.first;
  batch.last_of_epoch = open.last_of_epoch;
  batch.samples = std::move(open.samples);
  batch.bytes.assign(open.ranges.begin(), open.ranges.end());
  for (size_t i = 0; i < open.ranges.size(); ++i) {
    batch.from_bytes[static_cast<size_t>(open.from[i])] += open.ranges[i].size();
    ++batch.from_samples[static_cast<size_t>(open.from[i])];
  }
  batch.memory.push_back(std::move(open.slot));
  for (auto& spilled : open.spilled) batch.memory.push_back(std::move(spilled));
  publish(a.batch, std::move(batch));
  next_to_publish_ = a.batch + 1;
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

void Engine::carry(action::Fail& a) {
  const auto found = last_error_.find(a.sample);
  const std::string what = found == last_error_.end() ? "it cannot be read" : found->second;
  failures_.emplace(
      a.place.batch,
      Error{ErrorKind::unreadable,
            fmt::format(
                "cannot read sample {} ({}): {} after {} {} over {:.1f} s; last good copy: "
                "none. {}",
                a.sample, name_of_sample(a.sample), what, a.tries, a.tries == 1 ? "try" : "tries",
                std::chrono::duration<double>(a.since_first_try).count(), remedy_for(a.end))});
}

void Engine::carry(action::Skip& a) {
  std::lock_guard lock(mutex_);
  if (stats_.skipped.size() < kNamesKept) stats_.skipped.push_back(name_of_sample(a.sample));
}

void Engine::carry(action::SetTimer& a) {
  timer_ = start_ + a.at;
}

void Engine::carry(action::CloseBatch& a) {
  open_.erase(a.batch);
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

void Engine::handle(message::DiskAnswered& answered) {
  if (answered.answer == DiskAnswer::failed) {
    if (const auto why = parts_.tiers[answered.disk].disk->dead()) lose_tier(answered.disk, *why);
  }
  if (answered.id >= kDiskWrites) {
    const auto write = disk_writes_.find(answered.id);
    const uint64_t sample = write->second;
    disk_writes_.erase(write);
    return tell(event::Placed{sample, answered.disk, answered.answer == DiskAnswer::done});
  }
  if (answered.answer == DiskAnswer::corrupt) {
    std::lock_guard lock(mutex_);
    ++stats_.corrupt_copies;
  }
  end_read(answered.id, answered.answer == DiskAnswer::done ? ReadEnd::ok : ReadEnd::missing);
}

void Engine::handle(message::MemoryRead& read) {
  if (read.copied == Copied::corrupt) {
    std::lock_guard lock(mutex_);
    ++stats_.corrupt_copies;
  }
  end_read(read.request, read.copied == Copied::hit ? ReadEnd::ok : ReadEnd::missing);
}

void Engine::handle(Event& event) {
  if (std::holds_alternative<event::Seek>(event)) {
    carry_out();
    failures_.clear();
    next_to_publish_.reset();
    std::lock_guard lock(mutex_);
    ready_.clear();
    ++seeks_done_;
  }
  tell(event);
}

void Engine::end_read(uint64_t request, ReadEnd end) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;  // cancelled before
  Pending pending = std::move(found->second);
  pending_.erase(found);
  const bool from_tier = pending.origin.kind == Origin::Kind::tier;
  if (parts_.trace)
    parts_.trace->span(
        from_tier ? parts_.tiers[pending.origin.number].memory ? "memory" : "disk" : "source",
        "read", pending.begin, Clock::now(), pending.sample);
  if (end == ReadEnd::ok) {
    if (!from_tier) {
      last_error_.erase(pending.sample);
      std::lock_guard lock(mutex_);
      stats_.source_bytes += parts_.plan->sizes()[pending.sample];
      ++stats_.source_samples;
    } else {
      ahead_[pending.sample] = false;
    }
    if (pending.place.batch == kNoBatch)
      arrived_[request] = std::move(pending.memory);
    else
      open_.at(pending.place.batch).from[pending.place.index] = pending.from;
  } else if (end == ReadEnd::deadline && pending.place.batch != kNoBatch) {
    open_.at(pending.place.batch).tainted[pending.place.index] = true;
  }
  tell(event::ReadEnded{request, end});
}

void Engine::lose_tier(uint32_t tier, const std::string& why) {
  if (tier_lost_[tier]) return;
  tier_lost_[tier] = true;
  {
    std::lock_guard lock(mutex_);
    stats_.lost_tiers.push_back(why);
  }
  tell(event::TierLost{tier});
}

std::string Engine::name_of_sample(uint64_t sample) const {
  return std::string(parts_.index->object_name(parts_.index->part(sample, 0).object));
}

}  // namespace foreload
