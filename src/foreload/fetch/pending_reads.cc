// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/pending_reads.h"

#include <algorithm>
#include <iterator>

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

// Reads from neighbours' memory that one hand does in one go: enough to forget what passing them on
// costs, few enough to share a batch among hands.
constexpr size_t kNeighbourReadsPerJob = 16;

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

}  // namespace

void PendingReads::begin(const action::Read& a) {
  if (a.from.kind == Origin::Kind::source && !a.hedge && !a.detour)
    if (const auto tier = parts_.lent.put_by_others(a.sample))
      return parts_.run.tell(event::Found{a.request, *tier});
  PendingRead& pending = pending_[a.request];
  pending.sample = a.sample;
  pending.place = a.place;
  pending.origin = a.from;
  pending.begin = Clock::now();
  const bool made = is_made(a.from);
  const uint64_t size = made ? parts_.index->sample_size(a.sample) : parts_.plan->sizes()[a.sample];
  KeptBytes into;
  if (a.place.batch == kNoBatch || a.hedge || made) {
    auto slot = parts_.staging->take(std::span(&size, 1));
    if (!slot) return end(a.request, ReadEnd::permanent);
    pending.memory = std::move(*slot);
    into = {pending.memory->range(0), pending.memory};
  } else {
    auto room = parts_.batches.room(a.place, size);
    if (!room) return end(a.request, ReadEnd::permanent);
    into = std::move(*room);
  }
  switch (a.from.kind) {
    case Origin::Kind::source:
      pending.from = From::source;
      return read_source(a, pending, into);
    case Origin::Kind::peer:
      pending.from = From::peer;
      ++asked_;
      return parts_.peers->ask(a.from.number, a.request, a.sample, into.bytes,
                               std::move(into.keeper));
    case Origin::Kind::neighbour:
      pending.from = From::same_host;
      return read_neighbour(a, std::move(into));
    case Origin::Kind::tier:
      pending.from = parts_.lent.from(a.from.number, a.sample);
      parts_.lent.ask(a.from.number, LentTiers::Job::read, a.request, a.sample, std::move(into));
  }
}

void PendingReads::read_source(const action::Read& a, PendingRead& pending, const KeptBytes& into) {
  const size_t count = parts_.index->part_count(a.sample);
  pending.parts = static_cast<uint32_t>(count);
  pending.parts_left = pending.parts;
  pending.first_part = next_source_read_;
  std::vector<SourceRead> reads;
  std::byte* to = into.bytes.data();
  for (size_t i = 0; i < count; ++i) {
    const Part part = parts_.index->part(a.sample, i);
    source_reads_[next_source_read_] = a.request;
    reads.push_back({next_source_read_++,
                     {part.object, part.offset, part.length},
                     Destination{to, into.keeper},
                     Clock::now() + a.deadline});
    to += part.length;
  }
  parts_.source->submit(reads);
}

void PendingReads::read_neighbour(const action::Read& a, KeptBytes into) {
  NeighbourJob job{{}, a.request, parts_.lent.key_of(a.sample), std::move(into)};
  for (uint32_t rank = 0; rank < parts_.neighbours.size(); ++rank) {
    const bool wanted = a.from.number == kNoOwner || a.from.number == rank;
    if (wanted && parts_.neighbours[rank])
      job.neighbours.emplace_back(rank, parts_.neighbours[rank]);
  }
  neighbour_reads_.push_back(std::move(job));
}

void PendingReads::flush() {
  parts_.lent.flush();
  for (size_t first = 0; first < neighbour_reads_.size(); first += kNeighbourReadsPerJob) {
    const size_t last = std::min(first + kNeighbourReadsPerJob, neighbour_reads_.size());
    std::vector<NeighbourJob> jobs(std::make_move_iterator(neighbour_reads_.begin() + first),
                                   std::make_move_iterator(neighbour_reads_.begin() + last));
    parts_.hands->copy([inbox = parts_.inbox, jobs = std::move(jobs)] {
      std::vector<Message> done;
      done.reserve(jobs.size());
      for (const NeighbourJob& job : jobs) {
        message::NeighbourRead read{job.request, Copied::miss, 0};
        const std::span<std::byte> into = job.into.bytes;
        for (size_t i = 0; i < job.neighbours.size() && read.copied == Copied::miss; ++i) {
          read.neighbour = job.neighbours[i].first;
          read.copied = job.neighbours[i].second->get(job.key, into.size(), into);
        }
        done.push_back(read);
      }
      inbox->post(std::move(done));
    });
  }
  neighbour_reads_.clear();
  arrived_.clear();
}

void PendingReads::cancel(uint64_t request) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;
  const PendingRead& pending = found->second;
  for (uint32_t i = 0; i < pending.parts; ++i) {
    if (source_reads_.erase(pending.first_part + i) > 0)
      parts_.source->cancel(pending.first_part + i);
  }
  if (pending.origin.kind == Origin::Kind::peer) {
    parts_.peers->cancel(pending.origin.number, request);
    count_peer_read(pending, ReadEnd::deadline);
  } else if (pending.origin.kind == Origin::Kind::tier) {
    parts_.lent.cancel_read(pending.origin.number, request);
  }
  if (!pending.memory) parts_.batches.taint(pending.place);
  pending_.erase(found);
}

const PendingRead* PendingReads::find(uint64_t request) const {
  const auto found = pending_.find(request);
  return found == pending_.end() ? nullptr : &found->second;
}

void PendingReads::handle(SourceAnswer& answer) {
  const auto read = source_reads_.find(answer.id);
  if (read == source_reads_.end()) return;  // cancelled before
  const uint64_t request = read->second;
  source_reads_.erase(read);
  PendingRead& pending = pending_.at(request);
  if (answer.fault != Fault::none) {
    pending.fault = answer.fault;
    last_error_[pending.sample] = answer.what;
    parts_.counts.count([](EngineStats& stats) { ++stats.source_errors; });
  }
  if (--pending.parts_left == 0) end(request, end_of(pending.fault));
}

void PendingReads::handle(message::NeighbourRead& read) {
  const auto pending = pending_.find(read.request);
  if (read.copied != Copied::miss && pending != pending_.end())
    pending->second.origin.number = read.neighbour;
  if (read.copied == Copied::corrupt) parts_.counts.count_corrupt(read.neighbour);
  end(read.request, read.copied == Copied::hit ? ReadEnd::ok : ReadEnd::missing);
}

const char* PendingReads::track_of(Origin origin) const {
  if (origin.kind == Origin::Kind::source) return "source";
  if (origin.kind == Origin::Kind::peer) return "peer";
  if (origin.kind == Origin::Kind::neighbour) return "same host";
  return parts_.lent.is_disk(origin.number) ? "disk" : "memory";
}

void PendingReads::end(uint64_t request, ReadEnd end) {
  const auto found = pending_.find(request);
  if (found == pending_.end()) return;
  PendingRead pending = std::move(found->second);
  pending_.erase(found);
  count_peer_read(pending, end);
  if (parts_.trace)
    parts_.trace->span(track_of(pending.origin), "read", pending.begin, Clock::now(),
                       pending.sample);
  if (end == ReadEnd::ok) {
    if (pending.origin.kind == Origin::Kind::source) {
      last_error_.erase(pending.sample);
      const uint64_t size = parts_.index->sample_size(pending.sample);
      parts_.counts.count([size](EngineStats& stats) {
        stats.source_bytes += size;
        ++stats.source_samples;
      });
    } else if (pending.origin.kind == Origin::Kind::tier) {
      parts_.lent.count_read(pending.origin.number, pending.sample);
    }
    if (pending.place.batch != kNoBatch) {
      OpenBatch& batch = parts_.batches.at(pending.place.batch);
      batch.from[pending.place.index] = pending.from;
      if (pending.memory && !is_made(pending.origin))  // a hedge that came first
        batch.spill(pending.place.index, std::move(pending.memory));
    }
    if (pending.memory) arrived_[request] = std::move(pending.memory);
  } else if (end == ReadEnd::deadline && !pending.memory) {
    parts_.batches.taint(pending.place);
  }
  parts_.run.tell(event::ReadEnded{request, end});
}

void PendingReads::count_peer_read(const PendingRead& pending, ReadEnd end) {
  const bool in_place = pending.origin.kind == Origin::Kind::neighbour;
  if (pending.from == From::peer) --asked_;
  if (pending.origin.kind != Origin::Kind::peer && !in_place) return;
  if (pending.origin.number == kNoOwner) return;  // no neighbour had it
  const uint64_t size = parts_.plan->sizes()[pending.sample];
  const double took = std::chrono::duration<double>(Clock::now() - pending.begin).count();
  parts_.counts.count([&](EngineStats& stats) {
    PeerStats& peer = stats.peers[pending.origin.number];
    if (!in_place) {
      peer.wait_seconds += took;
      peer.longest_wait = std::max(peer.longest_wait, took);
    }
    if (end == ReadEnd::ok) {
      ++(in_place ? peer.same_host_samples : peer.samples);
      (in_place ? peer.same_host_bytes : peer.bytes) += size;
    } else if (end == ReadEnd::deadline) {
      ++peer.given_up;
    } else if (!in_place) {  // in place it may come a little later, and is asked for then
      ++peer.missing;
    }
  });
}

std::string PendingReads::last_error(uint64_t sample) const {
  const auto found = last_error_.find(sample);
  return found == last_error_.end() ? "it cannot be read" : found->second;
}

}  // namespace foreload
