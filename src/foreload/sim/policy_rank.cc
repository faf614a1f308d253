// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/policy_rank.h"

#include <cmath>
#include <utility>

namespace foreload::sim {
namespace {

double seconds(RunTime time) {
  return static_cast<double>(time.count()) / 1e9;
}

RunTime run_time(Time time) {
  return RunTime(std::llround(time * 1e9));
}

}  // namespace

PolicyRank::PolicyRank(PolicyRankSettings settings, Cluster& cluster, World& world)
    : Driver(peers_),
      desk_(std::move(settings), cluster, world),
      policy_(desk_.settings.plan, desk_.settings.policy, desk_.settings.held),
      timer_(cluster.agenda().add()),
      ahead_(desk_.settings.plan->sizes().samples()) {}

void PolicyRank::begin() {
  policy_.begin(run_time(desk_.cluster.now()), actions_);
  carry_out_all();
}

void PolicyRank::tell(const Event& event) {
  if (life_.dead()) return;
  if (life_.stopped()) return life_.miss([this, event] { tell(event); });
  desk_.world.heard(desk_.rank, event);
  policy_.on(event, run_time(desk_.cluster.now()), actions_);
  carry_out_all();
}

void PolicyRank::carry_out_all() {
  if (carrying_) return;  // an action ended at once; what follows is carried out after it
  carrying_ = true;
  carry_out(actions_);
  carrying_ = false;
}

void PolicyRank::seek(uint64_t epoch, uint64_t start) {
  batches_.ready().clear();
  tell(event::Seek{epoch, start});
}

void PolicyRank::lose_tier(uint32_t tier) {
  if (tiers_.lose(tier)) tell(event::TierLost{tier});
}

void PolicyRank::carry(action::ComputeEpoch& a) {
  desk_.cluster.wait(0, operations_.keep({.work = Work::compute_epoch, .sample = a.epoch}));
}

void PolicyRank::carry(action::Read& a) {
  if (a.from.kind == Origin::Kind::peer) {
    operations_.expect_read(
        a.request,
        operations_.keep(
            {.request = a.request, .sample = a.sample, .place = a.place, .where = a.from}));
    return peers_.ask(a.from.number, a.request, a.sample);
  }
  const Fate fate = desk_.world.fate(desk_.rank, a);
  const uint64_t token = operations_.keep({.end = fate.end,
                                           .request = a.request,
                                           .sample = a.sample,
                                           .place = a.place,
                                           .where = a.from,
                                           .deadline = desk_.cluster.now() + seconds(a.deadline)});
  operations_.expect_read(a.request, token);
  if (fate.held) return;
  Operation& operation = operations_[token];
  if (fate.hangs) {
    operation.end = ReadEnd::deadline;
    if (a.from.kind == Origin::Kind::source) desk_.cluster.wait(seconds(a.deadline), token);
    return;
  }
  if (fate.delay > 0) {
    operation.work = Work::delayed_read;
    return desk_.cluster.wait(fate.delay, token);
  }
  start_read(token);
}

void PolicyRank::start_read(uint64_t token) {
  Operation& operation = operations_[token];
  operation.work = Work::read;
  const Origin from = operation.where;
  Place place;
  if (from.kind == Origin::Kind::tier) {
    if (!tiers_.holds(from.number, operation.sample)) operation.end = ReadEnd::missing;
    place = {Place::Kind::own, false, false, from.number, desk_.rank};
  }
  if (from.kind == Origin::Kind::neighbour) {
    const auto holder = peers_.neighbour_with(operation.sample, from.number);
    if (!holder)
      operation.end = ReadEnd::missing;
    else
      place = {Place::Kind::own, false, false, 0, *holder};
  }
  if (operation.end != ReadEnd::ok) return desk_.cluster.wait(0, token);
  desk_.cluster.read(desk_.rank, place,
                     from.kind == Origin::Kind::source ? desk_.source_bytes(operation.sample)
                                                       : desk_.bytes(operation.sample),
                     token);
}

void PolicyRank::carry(action::Cancel& a) {
  const auto token = operations_.token_of(a.request);
  if (!token) return;
  operations_.forget(a.request);
  Operation& operation = operations_[*token];
  if (operation.where.kind != Origin::Kind::peer) {
    operation.cancelled = true;  // the device, or who makes it, does not know and goes on
    return;
  }
  const uint32_t peer = operations_.take(*token).where.number;
  peers_.stop_asking(peer, a.request);
}

void PolicyRank::carry(action::Make& a) {
  const Fate fate = desk_.world.makes(desk_.rank, a);
  const uint64_t token = operations_.keep({.work = Work::make,
                                           .end = fate.end,
                                           .request = a.request,
                                           .sample = a.sample,
                                           .place = a.place});
  operations_.expect_made(a.request, token);
  if (!fate.held) threads_.add(token);
}

void PolicyRank::carry(action::Decode& a) {
  const bool ok = desk_.world.decodes(desk_.rank, a);
  threads_.add(operations_.keep({.work = Work::decode,
                                 .end = ok ? ReadEnd::ok : ReadEnd::undecodable,
                                 .sample = a.sample,
                                 .place = a.place}));
}

void PolicyRank::carry(action::Place& a) {
  if (a.place.batch == kNoBatch) ahead_[a.sample] = true;
  tiers_.place(a.sample, a.tier);
}

void PolicyRank::carry(action::SetTimer& a) {
  desk_.cluster.agenda().set(timer_, seconds(a.at));
}

void PolicyRank::end(uint64_t request, ReadEnd end) {
  const auto token = operations_.token_of(request);
  if (!token) return;  // cancelled before
  Operation operation = operations_.take(*token);
  operation.end = end;
  if (operation.work == Work::make)
    end_make(operation);
  else
    end_read(operation);
}

void PolicyRank::ended(uint64_t token) {
  if (operations_[token].work == Work::delayed_read && !operations_[token].cancelled)
    return start_read(token);
  const Operation operation = operations_.take(token);
  if (life_.dead()) return;
  switch (operation.work) {
    case Work::read:
    case Work::delayed_read:
      return end_read(operation);
    case Work::place:
      return tell(
          event::Placed{operation.sample, operation.where.number, tiers_.placed(operation)});
    case Work::make:
      threads_.ended();
      return end_make(operation);
    case Work::decode:
      threads_.ended();
      return tell(event::Decoded{operation.place, operation.end == ReadEnd::ok});
    case Work::compute_epoch:
      return tell(
          event::EpochKnown{operation.sample, desk_.settings.orders->epoch(operation.sample)});
    default:
      return peers_.sent(operation);
  }
}

void PolicyRank::end_read(const Operation& operation) {
  if (operation.cancelled) return;
  operations_.forget(operation.request);
  const bool from_tier = operation.where.kind == Origin::Kind::tier;
  const bool from_source = operation.where.kind == Origin::Kind::source;
  ReadEnd end = operation.end;
  if (end == ReadEnd::ok && from_source && desk_.cluster.now() > operation.deadline)
    end = ReadEnd::deadline;
  if (from_tier && end == ReadEnd::missing) tiers_.drop(operation.where.number, operation.sample);
  if (end == ReadEnd::ok) {
    if (from_source) source_bytes_ += desk_.source_bytes(operation.sample);
    if (!from_source || !desk_.makes())
      batches_.fill(operation.place, operation.sample,
                    from_tier && ahead_[operation.sample] ? Origin{} : operation.where);
    if (from_tier) ahead_[operation.sample] = false;
  }
  tell(event::ReadEnded{operation.request, end});
}

void PolicyRank::end_make(const Operation& operation) {
  if (operation.cancelled) return;
  operations_.forget(operation.request);
  const bool ok = operation.end == ReadEnd::ok;
  if (ok) batches_.fill(operation.place, operation.sample, {});
  tell(event::Made{operation.request, ok});
}

}  // namespace foreload::sim
