// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/engine_driver.h"

#include <atomic>
#include <cassert>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace foreload {
namespace {

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

void EngineDriver::carry_out_all() {
  carry_out(parts_.run.wanted());
  reads_.flush();
  parts_.hand_over.publish_failure();
}

void EngineDriver::carry(action::ComputeEpoch& a) {
  computing_.copy([plan = parts_.plan, inbox = parts_.inbox, epoch = a.epoch] {
    auto order = plan->order().epoch(epoch);
    if (order) inbox->post(Event{event::EpochKnown{epoch, std::move(*order)}});
  });
}

void EngineDriver::carry(action::OpenBatch& a) {
  if (!is_fetch(a.batch)) parts_.hand_over.opened(a.batch);
  const auto opened = parts_.batches.open(a);
  if (opened) return;
  const auto samples = static_cast<uint32_t>(parts_.batches.at(a.batch).samples.size());
  for (uint32_t i = 0; i < samples; ++i) fail_place({a.batch, i}, opened.error());
}

void EngineDriver::fail_place(BatchPlace place, Error error) {
  if (is_fetch(place.batch))
    parts_.batches.at(place.batch).errors.emplace(place.index, std::move(error));
  else
    parts_.hand_over.end_with(place.batch, std::move(error));
}

void EngineDriver::carry(action::Cancel& a) {
  const auto making = making_.find(a.request);
  if (making == making_.end()) return reads_.cancel(a.request);
  parts_.batches.taint(making->second.place);
  making_.erase(making);
}

void EngineDriver::carry(action::Make& a) {
  std::shared_ptr<const Slot> file = std::move(reads_.arrived().at(a.request));
  reads_.arrived().erase(a.request);
  const uint64_t size = parts_.plan->sizes()[a.sample];
  MakingJob job{a.place, nullptr};
  KeptBytes into;
  std::shared_ptr<std::atomic<uint32_t>> left;  // of its batch; a read ahead wakes the loop itself
  const auto out_of_memory = [&] {
    unmade_[a.sample] = "there is no memory for it; use a smaller batch or less staging";
    parts_.run.tell(event::Made{a.request, false});
  };
  if (a.place.batch == kNoBatch) {
    auto slot = parts_.staging->take(std::span(&size, 1));
    if (!slot) return out_of_memory();
    job.memory = std::move(*slot);
    into = {job.memory->range(0), job.memory};
    left = std::make_shared<std::atomic<uint32_t>>(0);
  } else {
    const auto& decoded = parts_.batches.at(a.place.batch).decoded;
    auto room = decoded ? parts_.batches.room(a.place, size) : std::nullopt;
    if (!room) return out_of_memory();
    into = std::move(*room);
    left = {decoded, &decoded->under_way};
  }
  making_[a.request] = std::move(job);
  ++*left;
  const uint64_t cost = expected_cost(a.sample);
  parts_.hands->decode(
      a.place, cost,
      [left = std::move(left), inbox = parts_.inbox, form = parts_.form, request = a.request,
       sample = a.sample, file = std::move(file), into = std::move(into)](Scratch& scratch) {
        const auto begin = std::chrono::steady_clock::now();
        message::Made made{request, sample, {}, {}};
        if (auto done = form->make(file->range(0), into.bytes, scratch); !done)
          made.error = std::move(done.error().message);
        made.took = std::chrono::steady_clock::now() - begin;
        inbox->leave(std::move(made));
        if (--*left == 0) inbox->wake();
      });
}

bool EngineDriver::finish_decodes() const {
  return !parts_.form || parts_.form->finish_decodes();
}

void EngineDriver::count_decoded(uint64_t sample, std::chrono::nanoseconds took) {
  parts_.counts.count_decoded(sample, took);
  costs_.count(sample, parts_.index->sample_size(sample), took);
}

uint64_t EngineDriver::expected_cost(uint64_t sample) const {
  return static_cast<uint64_t>(costs_.expected(sample, parts_.index->sample_size(sample)).count());
}

void EngineDriver::handle(message::Made& made) {
  const auto found = making_.find(made.request);
  if (found == making_.end()) return;  // cancelled
  if (found->second.memory) reads_.arrived()[made.request] = std::move(found->second.memory);
  making_.erase(found);
  count_decoded(made.sample, made.took);
  const bool ok = !made.error;
  if (ok)
    unmade_.erase(made.sample);
  else
    unmade_[made.sample] = std::move(*made.error);
  parts_.run.tell(event::Made{made.request, ok});
}

void EngineDriver::carry(action::Decode& a) {
  const OpenBatch& batch = parts_.batches.at(a.place.batch);
  SampleKey key{parts_.transform_seed, 0, a.sample};
  if (!is_fetch(a.place.batch))
    key = {parts_.transform_seed, batch.epoch,
           batch.sharding.position(parts_.policy.rank, batch.first + a.place.index)};
  if (!batch.decoded) return parts_.run.tell(event::Decoded{a.place, false});  // failed already
  ++batch.decoded->under_way;
  const uint64_t cost = finish_decodes() ? expected_cost(a.sample) : 0;
  parts_.hands->decode(
      a.place, cost,
      [into = batch.decoded, inbox = parts_.inbox, index = parts_.index, sample = a.sample,
       place = a.place, key, from = batch.at(a.place.index)](Scratch& scratch) {
        const auto begin = std::chrono::steady_clock::now();
        message::Decoded decoded{place, sample, {}, {}};
        if (auto done = into->decode(place.index, {*index, sample, from.bytes}, key, scratch);
            !done)
          decoded.error = std::move(done.error().message);
        decoded.took = std::chrono::steady_clock::now() - begin;
        // A batch waits for its last sample. As long as others are on their way the loop may sleep:
        // whenever it wakes, it takes the processor from a hand.
        inbox->leave(std::move(decoded));
        if (--into->under_way == 0) inbox->wake();
      });
}

void EngineDriver::handle(message::Decoded& decoded) {
  OpenBatch* batch = parts_.batches.find(decoded.place.batch);
  if (!batch) return;  // closed by a seek
  if (decoded.error) batch->undecoded[decoded.place.index] = std::move(*decoded.error);
  if (finish_decodes()) count_decoded(decoded.sample, decoded.took);
  parts_.run.tell(event::Decoded{decoded.place, !decoded.error});
}

void EngineDriver::carry(action::Place& a) {
  KeptBytes kept;
  if (a.place.batch == kNoBatch) {
    const auto& slot = reads_.arrived().at(a.request);
    kept = {slot->range(0), slot};
    parts_.lent.mark_ahead(a.sample);
  } else {
    kept = parts_.batches.at(a.place);
  }
  parts_.lent.place(a.tier, a.sample, kept.bytes, std::move(kept.keeper), Traffic::fill);
}

void EngineDriver::carry(action::Copy& a) {
  if (!parts_.batches.copy(a.from, a.to))
    return fail_place(a.to, Error{ErrorKind::unreadable,
                                  "out of memory for a batch. Use a smaller batch or look-ahead."});
  // Memory would have had it in a moment where it keeps it.
  const uint64_t sample = parts_.batches.at(a.from.batch).samples[a.from.index];
  const Owner owner = parts_.plan->placement().owner(sample);
  const bool kept = owner.rank == parts_.policy.rank && !parts_.lent.is_disk(owner.tier);
  parts_.batches.at(a.to.batch).from[a.to.index] = kept ? From::memory : From::staging;
}

void EngineDriver::carry(action::Substitute& a) {
  OpenBatch& batch = parts_.batches.at(a.to.batch);
  batch.samples[a.to.index] = batch.samples[a.from.index];
  if (!parts_.transform || parts_.transform.gives_bytes()) {
    action::Copy copy{a.from, a.to};
    carry(copy);
  }
  if (!parts_.transform) return;
  batch.from[a.to.index] = From::staging;
  if (batch.decoded) batch.decoded->copy(a.from.index, a.to.index);
}

void EngineDriver::carry(action::LoseTier& a) {
  parts_.lent.lose(a.tier,
                   fmt::format("{} does not answer any more; its disk may be broken",
                               parts_.lent.is_disk(a.tier) ? "a disk cache" : "the memory cache"));
}

void EngineDriver::carry(action::Deliver& a) {
  assert(parts_.batches.find(a.batch) != nullptr);
  OpenBatch open = parts_.batches.close(a.batch);
  if (is_fetch(a.batch)) {
    std::map<uint32_t, Error> errors = open.errors;
    return parts_.hand_over.answer(a.batch,
                                   {parts_.batches.finish(std::move(open)), std::move(errors)});
  }
  if (!parts_.hand_over.failed(a.batch))
    parts_.hand_over.publish(a.batch, parts_.batches.finish(std::move(open)));
}

void EngineDriver::carry(action::Fail& a) {
  std::string message;
  const auto why = [&] {
    const auto& undecoded = parts_.batches.at(a.place.batch).undecoded;
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
                          parts_.index->sample_name(a.sample), why(), remedy_for(a));
  } else {
    message = fmt::format(
        "cannot read sample {} ({}): {} after {} {} over {:.1f} s; last good copy: none. {}",
        a.sample, parts_.index->sample_name(a.sample), reads_.last_error(a.sample), a.tries,
        a.tries == 1 ? "try" : "tries", std::chrono::duration<double>(a.since_first_try).count(),
        remedy_for(a));
  }
  fail_place(a.place, Error{kind, std::move(message)});
}

void EngineDriver::carry(action::Skip& a) {
  parts_.batches.at(a.place.batch).skipped.push_back(a.sample);
}

}  // namespace foreload
