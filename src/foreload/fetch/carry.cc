// SPDX-License-Identifier: Apache-2.0
//
// The engine's side that carries out what the policy decided.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "foreload/fetch/engine.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

// Reads from neighbours' memory that one hand does in one go: enough to forget what passing them on
// costs, few enough to share a batch among hands.
constexpr size_t kNeighbourReadsPerJob = 16;

const char* remedy_for(const action::Fail& fail) {
  if (is_fetch(fail.place.batch))
    return fail.end == ReadEnd::changed ? "List the data set again (revalidate)."
                                        : "Check the file and its mount.";
  if (fail.skipping) {
    return "All samples of its batch are bad, so that none can take its place: remove them, or "
           "take larger batches.";
  }
  switch (fail.end) {
    case ReadEnd::changed:
      return "List the data set again (revalidate), or set on_error='skip'.";
    case ReadEnd::permanent:
    case ReadEnd::undecodable:
      return "Check the file, or set on_error='skip'.";
    default:
      return "Check the mount, or set on_error='skip'.";
  }
}

}  // namespace

void Engine::carry(action::ComputeEpoch& a) {
  computing_->copy([plan = parts_.plan, inbox = parts_.inbox, epoch = a.epoch] {
    auto order = plan->order().epoch(epoch);
    if (order) inbox->post(Event{event::EpochKnown{epoch, std::move(*order)}});
  });
}

void Engine::carry(action::OpenBatch& a) {
  std::vector<uint64_t> sizes;
  sizes.reserve(a.samples.size());
  for (const uint64_t sample : a.samples) sizes.push_back(parts_.plan->sizes()[sample]);
  if (!next_to_publish_ && !is_fetch(a.batch)) next_to_publish_ = a.batch;
  OpenBatch& batch = open_[a.batch];
  batch.epoch = a.epoch;
  batch.first = a.first;
  batch.sharding = a.sharding;
  batch.last_of_epoch = a.last_of_epoch;
  batch.as_bytes = a.as_bytes || !parts_.transform;
  batch.samples = std::move(a.samples);
  batch.from.assign(sizes.size(), From::source);
  batch.tainted.assign(sizes.size(), false);
  batch.ranges.resize(sizes.size());
  auto slot = parts_.staging->take(sizes);
  if (!slot) {
    for (uint32_t i = 0; i < sizes.size(); ++i) fail_place({a.batch, i}, slot.error());
    return;
  }
  batch.slot = std::move(*slot);
  for (size_t i = 0; i < sizes.size(); ++i) batch.ranges[i] = batch.slot->range(i);
  if (!batch.as_bytes) open_decoded(a.batch, batch);
}

void Engine::open_decoded(uint64_t number, OpenBatch& batch) {
  auto decoded =
      DecodedBatch::open(parts_.transform, parts_.form, batch.samples.size(), *parts_.decoded);
  if (decoded)
    batch.decoded = std::move(*decoded);
  else
    for (uint32_t i = 0; i < batch.samples.size(); ++i) fail_place({number, i}, decoded.error());
}

void Engine::fail_place(BatchPlace place, Error error) {
  if (is_fetch(place.batch))
    open_.at(place.batch).errors.emplace(place.index, std::move(error));
  else
    failures_.emplace(place.batch, std::move(error));
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

std::optional<uint32_t> Engine::put_by_others(uint64_t sample) {
  // Once in a row: what is found and cannot be read is the source's.
  if (!parts_.lent_to_others || others_.erase(sample) > 0) return std::nullopt;
  if (parts_.peers && parts_.plan->placement().owner(sample).rank != parts_.policy.rank)
    return std::nullopt;
  for (uint32_t tier = 0; tier < lent_.size(); ++tier) {
    if (lent_[tier].lost || !parts_.tiers[tier]->holds(key_of(sample))) continue;
    others_.insert(sample);
    return tier;
  }
  return std::nullopt;
}

void Engine::carry(action::Read& a) {
  if (a.from.kind == Origin::Kind::source && !a.hedge)
    if (const auto tier = put_by_others(a.sample)) return tell(event::Found{a.request, *tier});
  Pending& pending = pending_[a.request];
  pending.sample = a.sample;
  pending.place = a.place;
  pending.origin = a.from;
  pending.begin = Clock::now();
  const bool made = is_made(a.from);
  const uint64_t size = made ? parts_.index->sample_size(a.sample) : parts_.plan->sizes()[a.sample];
  std::span<std::byte> into;
  std::shared_ptr<const void> keeper;
  if (a.place.batch == kNoBatch || a.hedge || made) {
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
  if (a.from.kind == Origin::Kind::peer) {
    pending.from = From::peer;
    ++asked_;
    return parts_.peers->ask(a.from.number, a.request, a.sample, into, std::move(keeper));
  }
  if (a.from.kind == Origin::Kind::neighbour) {
    pending.from = From::same_host;
    return read_neighbour(a, into, std::move(keeper));
  }
  Lent& tier = lent_[a.from.number];
  pending.from = ahead_.test(a.sample, 0) ? From::source : tier.from;
  tier.reads.push_back({begin_tier_job(a.from.number, TierJob::read, a.request), key_of(a.sample),
                        size, 0, into, std::move(keeper)});
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
                     Destination{into, keeper},
                     Clock::now() + a.deadline});
    into += part.length;
  }
  parts_.source->submit(reads);
}

void Engine::flush_reads() {
  for (size_t i = 0; i < lent_.size(); ++i) {
    Lent& tier = lent_[i];
    if (!tier.reads.empty())
      parts_.tiers[i]->submit(tier.borrower, std::span(tier.reads), Traffic::training);
    if (!tier.serves.empty())
      parts_.tiers[i]->submit(tier.borrower, std::span(tier.serves), Traffic::peer);
    tier.reads.clear();
    tier.serves.clear();
  }
  for (size_t first = 0; first < neighbour_reads_.size(); first += kNeighbourReadsPerJob) {
    const size_t last = std::min(first + kNeighbourReadsPerJob, neighbour_reads_.size());
    std::vector<NeighbourJob> jobs(std::make_move_iterator(neighbour_reads_.begin() + first),
                                   std::make_move_iterator(neighbour_reads_.begin() + last));
    parts_.hands->copy([inbox = parts_.inbox, jobs = std::move(jobs)] {
      std::vector<Message> done;
      done.reserve(jobs.size());
      for (const NeighbourJob& job : jobs) {
        message::NeighbourRead read{job.request, Copied::miss, 0};
        for (size_t i = 0; i < job.neighbours.size() && read.copied == Copied::miss; ++i) {
          read.neighbour = job.neighbours[i].first;
          read.copied = job.neighbours[i].second->get(job.key, job.into.size(), job.into);
        }
        done.push_back(read);
      }
      inbox->post(std::move(done));
    });
  }
  neighbour_reads_.clear();
}

void Engine::taint(BatchPlace place) {
  const auto batch = open_.find(place.batch);
  if (batch != open_.end()) batch->second.tainted[place.index] = true;
}

void Engine::carry(action::Cancel& a) {
  if (const auto making = making_.find(a.request); making != making_.end()) {
    taint(making->second.place);
    making_.erase(making);
    return;
  }
  const auto found = pending_.find(a.request);
  if (found == pending_.end()) return;
  for (uint32_t i = 0; i < found->second.parts; ++i) {
    if (source_reads_.erase(found->second.first_part + i) > 0)
      parts_.source->cancel(found->second.first_part + i);
  }
  const Pending& pending = found->second;
  if (pending.origin.kind == Origin::Kind::peer) {
    parts_.peers->cancel(pending.origin.number, a.request);
    count_peer_read(pending, ReadEnd::deadline);
  } else if (pending.origin.kind == Origin::Kind::tier) {
    const uint32_t tier = pending.origin.number;
    parts_.tiers[tier]->cancel(lent_[tier].borrower, id_of(TierJob::read, a.request));
  }
  if (!pending.memory) taint(pending.place);
  pending_.erase(found);
}

void Engine::carry(action::Make& a) {
  std::shared_ptr<const Slot> file = std::move(arrived_.at(a.request));
  arrived_.erase(a.request);
  const uint64_t size = parts_.plan->sizes()[a.sample];
  MakingJob job{a.place, nullptr};
  std::span<std::byte> into;
  std::shared_ptr<const void> keeper;
  std::shared_ptr<std::atomic<uint32_t>> left;  // of its batch; a read ahead wakes the loop itself
  const auto out_of_memory = [&] {
    unmade_[a.sample] = "there is no memory for it; use a smaller batch or less staging";
    tell(event::Made{a.request, false});
  };
  if (a.place.batch == kNoBatch) {
    auto slot = parts_.staging->take(std::span(&size, 1));
    if (!slot) return out_of_memory();
    job.memory = std::move(*slot);
    into = job.memory->range(0);
    keeper = job.memory;
    left = std::make_shared<std::atomic<uint32_t>>(0);
  } else {
    OpenBatch& batch = open_.at(a.place.batch);
    if (!batch.slot || !batch.decoded ||
        (batch.tainted[a.place.index] && !spill(batch, a.place.index, size)))
      return out_of_memory();
    into = batch.ranges[a.place.index];
    keeper = batch.keeper_of(a.place.index);
    left = {batch.decoded, &batch.decoded->under_way};
  }
  making_[a.request] = std::move(job);
  ++*left;
  parts_.hands->decode(a.place, [left = std::move(left), inbox = parts_.inbox, form = parts_.form,
                                 request = a.request, sample = a.sample, file = std::move(file),
                                 into, keeper = std::move(keeper)](Scratch& scratch) {
    const auto begin = Clock::now();
    message::Made made{request, sample, {}, {}};
    if (auto done = form->make(file->range(0), into, scratch); !done)
      made.error = std::move(done.error().message);
    made.took = Clock::now() - begin;
    inbox->leave(std::move(made));
    if (--*left == 0) inbox->wake();
  });
}

void Engine::carry(action::Decode& a) {
  OpenBatch& batch = open_.at(a.place.batch);
  SampleKey key{parts_.transform_seed, 0, a.sample};
  if (!is_fetch(a.place.batch))
    key = {parts_.transform_seed, batch.epoch,
           batch.sharding.position(parts_.policy.rank, batch.first + a.place.index)};
  if (!batch.decoded) return tell(event::Decoded{a.place, false});  // failed already
  ++batch.decoded->under_way;
  parts_.hands->decode(a.place, [into = batch.decoded, inbox = parts_.inbox, index = parts_.index,
                                 sample = a.sample, place = a.place, key,
                                 bytes = std::span<const std::byte>(batch.ranges[a.place.index]),
                                 keeper = batch.keeper_of(a.place.index)](Scratch& scratch) {
    const auto begin = Clock::now();
    message::Decoded decoded{place, sample, {}, {}};
    if (auto done = into->decode(place.index, {*index, sample, bytes}, key, scratch); !done)
      decoded.error = std::move(done.error().message);
    decoded.took = Clock::now() - begin;
    // A batch waits for its last sample. As long as others are on their way the loop may sleep:
    // whenever it wakes, it takes the processor from a hand.
    inbox->leave(std::move(decoded));
    if (--into->under_way == 0) inbox->wake();
  });
}

void Engine::carry(action::Place& a) {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeper;
  if (a.place.batch == kNoBatch) {
    const auto& slot = arrived_.at(a.request);
    bytes = slot->range(0);
    keeper = slot;
    ahead_.set(a.sample, 0);
  } else {
    const OpenBatch& batch = open_.at(a.place.batch);
    bytes = batch.ranges[a.place.index];
    keeper = batch.keeper_of(a.place.index);
  }
  place(a.tier, a.sample, bytes, std::move(keeper), Traffic::fill);
}

CopyKey Engine::key_of(uint64_t sample) const {
  return {parts_.index->content(sample), form_id(parts_.form.get())};
}

uint64_t Engine::begin_tier_job(uint32_t tier, TierJob job, uint64_t number) {
  if (lent_[tier].from == From::disk) {
    ++disk_jobs_;
    placing_ += job == TierJob::place;
  }
  return id_of(job, number);
}

void Engine::place(uint32_t tier, uint64_t sample, std::span<const std::byte> bytes,
                   std::shared_ptr<const void> keeper, Traffic traffic) {
  Put put{begin_tier_job(tier, TierJob::place, sample), key_of(sample), bytes, std::nullopt,
          std::move(keeper)};
  parts_.tiers[tier]->submit(lent_[tier].borrower, std::span(&put, 1), traffic);
}

void Engine::carry(action::Evict& a) {
  parts_.tiers[a.tier]->drop(key_of(a.sample));
}

void Engine::carry(action::Copy& a) {
  const OpenBatch& source = open_.at(a.from.batch);
  OpenBatch& target = open_.at(a.to.batch);
  const std::span<const std::byte> bytes = source.ranges[a.from.index];
  if (!target.slot) return;
  if (target.ranges[a.to.index].size() != bytes.size() || target.tainted[a.to.index]) {
    if (!spill(target, a.to.index, bytes.size())) {
      fail_place(a.to, Error{ErrorKind::unreadable,
                             "out of memory for a batch. Use a smaller batch or look-ahead."});
      return;
    }
  }
  if (!bytes.empty()) std::memcpy(target.ranges[a.to.index].data(), bytes.data(), bytes.size());
  // Memory would have had it in a moment where it keeps it.
  const Owner owner = parts_.plan->placement().owner(source.samples[a.from.index]);
  const bool kept = owner.rank == parts_.policy.rank && lent_[owner.tier].from == From::memory;
  target.from[a.to.index] = kept ? From::memory : From::staging;
}

void Engine::carry(action::Substitute& a) {
  OpenBatch& batch = open_.at(a.to.batch);
  batch.samples[a.to.index] = batch.samples[a.from.index];
  if (!parts_.transform || parts_.transform.gives_bytes()) {
    action::Copy copy{a.from, a.to};
    carry(copy);
  }
  if (!parts_.transform) return;
  batch.from[a.to.index] = From::staging;
  if (batch.decoded) batch.decoded->copy(a.from.index, a.to.index);
}

void Engine::carry(action::LoseTier& a) {
  lose_tier(a.tier,
            fmt::format("{} does not answer any more; its disk may be broken",
                        lent_[a.tier].from == From::disk ? "a disk cache" : "the memory cache"));
}

void Engine::carry(action::Deliver& a) {
  OpenBatch open = std::move(open_.at(a.batch));
  open_.erase(a.batch);
  if (is_fetch(a.batch)) return answer_fetch(a.batch, std::move(open));
  if (failures_.contains(a.batch)) return;
  publish(a.batch, finish(std::move(open)));
  next_to_publish_ = a.batch + 1;
}

void Engine::answer_fetch(uint64_t number, OpenBatch open) {
  Fetched fetched;
  fetched.errors = open.errors;
  fetched.batch = finish(std::move(open));
  for (const auto& [place, error] : fetched.errors)
    if (!fetched.batch.bytes.empty()) fetched.batch.bytes[place] = {};
  std::shared_ptr<Ticket> ticket;
  {
    const std::lock_guard lock(mutex_);
    const auto found = tickets_.find(number);
    if (found == tickets_.end()) return;
    ticket = found->second.lock();
    tickets_.erase(found);
    stats_.fetched_samples += fetched.batch.samples.size() - fetched.errors.size();
    for (const uint64_t bytes : fetched.batch.from_bytes) stats_.fetched_bytes += bytes;
  }
  if (ticket) ticket->set(std::move(fetched));
}

Batch Engine::finish(OpenBatch open) const {
  Batch batch;
  batch.epoch = open.epoch;
  batch.first = open.first;
  batch.last_of_epoch = open.last_of_epoch;
  batch.samples = std::move(open.samples);
  batch.skipped = std::move(open.skipped);
  for (size_t i = 0; i < open.ranges.size(); ++i) {
    if (open.errors.contains(static_cast<uint32_t>(i))) continue;
    batch.from_bytes[static_cast<size_t>(open.from[i])] += open.ranges[i].size();
    ++batch.from_samples[static_cast<size_t>(open.from[i])];
  }
  if (open.as_bytes) batch.bytes.assign(open.ranges.begin(), open.ranges.end());
  if (open.decoded) open.decoded->give_to(batch);
  for (size_t p = 0; p < batch.parts.size(); ++p) {
    if (parts_.transform.parts()[p].transform) continue;
    for (uint32_t i = 0; i < open.ranges.size(); ++i) {
      const SampleBytes sample{*parts_.index, batch.samples[i], open.ranges[i]};
      const auto none = std::span<const std::byte>();
      batch.parts[p].bytes.push_back(
          open.errors.contains(i) ? none : sample.part(batch.parts[p].name).value_or(none));
    }
  }
  if (open.as_bytes || parts_.transform.gives_bytes()) {
    batch.memory.push_back(std::move(open.slot));
    for (auto& spilled : open.spilled) batch.memory.push_back(std::move(spilled));
  }
  return batch;
}

void Engine::carry(action::Fail& a) {
  std::string message;
  const auto why = [&] {
    const auto& undecoded = open_.at(a.place.batch).undecoded;
    const auto found = undecoded.find(a.place.index);
    return found == undecoded.end() ? unmade_[a.sample] : found->second;
  };
  ErrorKind kind = ErrorKind::unreadable;
  if (a.end == ReadEnd::undecodable && parts_.transform.named()) {
    kind = ErrorKind::corrupt;
    message = fmt::format("cannot make sample {}: {}{}{}", a.sample, why(), a.skipping ? ". " : "",
                          a.skipping ? remedy_for(a) : "");
  } else if (a.end == ReadEnd::undecodable) {
    message = fmt::format("cannot decode sample {} ({}): {}. {}", a.sample,
                          name_of_sample(a.sample), why(), remedy_for(a));
  } else {
    const auto found = last_error_.find(a.sample);
    message = fmt::format(
        "cannot read sample {} ({}): {} after {} {} over {:.1f} s; last good copy: none. {}",
        a.sample, name_of_sample(a.sample),
        found == last_error_.end() ? "it cannot be read" : found->second, a.tries,
        a.tries == 1 ? "try" : "tries", std::chrono::duration<double>(a.since_first_try).count(),
        remedy_for(a));
  }
  fail_place(a.place, Error{kind, std::move(message)});
}

void Engine::carry(action::Skip& a) {
  open_.at(a.place.batch).skipped.push_back(a.sample);
}

void Engine::carry(action::SetTimer& a) {
  timer_ = start_ + a.at;
}

void Engine::carry(action::CloseBatch& a) {
  open_.erase(a.batch);
}

}  // namespace foreload
