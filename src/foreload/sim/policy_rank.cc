// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/policy_rank.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foreload::sim {
namespace {

constexpr size_t kOrdersKept = 3;

double seconds(RunTime time) {
  return static_cast<double>(time.count()) / 1e9;
}

}  // namespace

std::shared_ptr<const EpochOrder> SharedOrders::epoch(uint64_t epoch) {
  const auto found = orders_.find(epoch);
  if (found != orders_.end()) return found->second;
  auto order = order_.epoch(epoch);
  if (!order) return nullptr;
  while (orders_.size() >= kOrdersKept) orders_.erase(orders_.begin());
  return orders_[epoch] = std::move(*order);
}

PolicyRank::PolicyRank(PolicyRankSettings settings, Cluster& cluster, World& world)
    : settings_(std::move(settings)),
      cluster_(cluster),
      world_(world),
      policy_(settings_.plan, settings_.policy, settings_.held),
      timer_(cluster.agenda().add()),
      tiers_(settings_.plan->capacities().tiers()),
      ahead_(settings_.plan->sizes().samples()) {
  for (TierContent& tier : tiers_) tier.held.resize(settings_.plan->sizes().samples());
  for (const Held& copy : settings_.held) {
    if (copy.rank != settings_.policy.rank) continue;
    tiers_[copy.tier].held[copy.sample] = true;
    tiers_[copy.tier].bytes += settings_.plan->sizes()[copy.sample];
  }
  hits_.own.resize(tiers_.size());
  dropped_.resize(settings_.plan->job().ranks);
}

RunTime PolicyRank::now() const {
  return RunTime(std::llround(cluster_.now() * 1e9));
}

void PolicyRank::begin() {
  policy_.begin(now(), actions_);
  carry_out_all();
}

void PolicyRank::tell(const Event& event) {
  if (dead_) return;
  if (stopped_) return missed_.push_back([this, event] { tell(event); });
  world_.heard(settings_.policy.rank, event);
  policy_.on(event, now(), actions_);
  carry_out_all();
}

void PolicyRank::carry_out_all() {
  if (carrying_) return;  // an action ended at once; what follows is carried out after it
  carrying_ = true;
  carry_out(actions_);
  carrying_ = false;
}

uint64_t PolicyRank::keep(const Operation& operation) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(operations_.size()));
    operations_.emplace_back();
  }
  const uint32_t number = free_.back();
  free_.pop_back();
  operations_[number] = operation;
  return uint64_t{settings_.policy.rank} << 32 | number;
}

void PolicyRank::ring() {
  tell(event::Timer{});
}

void PolicyRank::wake() {
  stopped_ = false;
  for (const auto& missed : std::exchange(missed_, {})) missed();
  for (const auto& other : ranks_) other->go_on_sending();
}

void PolicyRank::consumed(uint64_t batch) {
  tell(event::Consumed{batch});
}

void PolicyRank::seek(uint64_t epoch, uint64_t start) {
  ready_.clear();
  tell(event::Seek{epoch, start});
}

void PolicyRank::carry(action::ComputeEpoch& a) {
  cluster_.wait(0, keep({.work = Work::compute_epoch, .sample = a.epoch}));
}

void PolicyRank::carry(action::OpenBatch& a) {
  OpenBatch& batch = open_[a.batch];
  batch.opened = a;
  batch.filled.assign(a.samples.size(), UINT64_MAX);
  batch.from.resize(a.samples.size());
  // The loop has one besides.
  batch.fresh = open_.size() + ready_.size() + 1 > slots_;
  if (batch.fresh) ++slots_;
}

void PolicyRank::carry(action::Read& a) {
  if (a.from.kind == Origin::Kind::peer) {
    expect(a.request,
           keep({.request = a.request, .sample = a.sample, .place = a.place, .where = a.from}));
    return send(
        {.work = Work::ask, .peer = a.from.number, .request = a.request, .sample = a.sample}, 0);
  }
  const Fate fate = world_.fate(settings_.policy.rank, a);
  const uint64_t token = keep({.end = fate.end,
                               .request = a.request,
                               .sample = a.sample,
                               .place = a.place,
                               .where = a.from,
                               .deadline = cluster_.now() + seconds(a.deadline)});
  expect(a.request, token);
  if (fate.held) return;
  Operation& operation = operations_[static_cast<uint32_t>(token)];
  if (fate.hangs) {
    operation.end = ReadEnd::deadline;
    if (a.from.kind == Origin::Kind::source) cluster_.wait(seconds(a.deadline), token);
    return;
  }
  if (fate.delay > 0) {
    operation.work = Work::delayed_read;
    return cluster_.wait(fate.delay, token);
  }
  start_read(token);
}

void PolicyRank::start_read(uint64_t token) {
  Operation& operation = operations_[static_cast<uint32_t>(token)];
  operation.work = Work::read;
  const bool from_tier = operation.where.kind == Origin::Kind::tier;
  if (from_tier && !tiers_[operation.where.number].held[operation.sample])
    operation.end = ReadEnd::missing;
  Place place;
  if (from_tier)
    place = {Place::Kind::own, false, false, operation.where.number, settings_.policy.rank};
  if (operation.where.kind == Origin::Kind::neighbour) {
    const PolicyRank* holder = neighbour_with(operation.sample, operation.where.number);
    if (holder == nullptr)
      operation.end = ReadEnd::missing;
    else
      place = {Place::Kind::own, false, false, 0, holder->settings_.policy.rank};
  }
  if (operation.end != ReadEnd::ok) return cluster_.wait(0, token);
  const bool from_source = operation.where.kind == Origin::Kind::source;
  cluster_.read(
      settings_.policy.rank, place,
      from_source ? source_bytes_of(operation.sample) : settings_.plan->sizes()[operation.sample],
      token);
}

uint64_t PolicyRank::source_bytes_of(uint64_t sample) const {
  const auto& made_from = settings_.policy.made_from;
  return made_from ? (*made_from)[sample] : settings_.plan->sizes()[sample];
}

// Its memory is read whatever it does: it may be stopped, or dead and not known to be.
const PolicyRank* PolicyRank::neighbour_with(uint64_t sample, uint32_t number) const {
  for (const uint32_t rank : settings_.policy.neighbours)
    if ((number == kNoOwner || number == rank) && !dropped_[rank] && ranks_[rank]->holds(0, sample))
      return ranks_[rank].get();
  return nullptr;
}

PolicyRank::Pending* PolicyRank::pending(uint64_t request) {
  const auto slot = static_cast<uint32_t>(request);
  if (slot >= requests_.size() || requests_[slot].request != request) return nullptr;
  return &requests_[slot];
}

void PolicyRank::expect(uint64_t request, uint64_t token) {
  const auto slot = static_cast<uint32_t>(request);
  if (slot >= requests_.size()) requests_.resize(slot + 1);
  requests_[slot] = {request, static_cast<uint32_t>(token)};
}

void PolicyRank::carry(action::Cancel& a) {
  if (const auto make = making_.find(a.request); make != making_.end()) {
    operations_[make->second].cancelled = true;  // who makes it goes on
    making_.erase(make);
    return;
  }
  Pending* found = pending(a.request);
  if (found == nullptr) return;
  found->request = UINT64_MAX;
  Operation& operation = operations_[found->operation];
  if (operation.where.kind != Origin::Kind::peer) {
    operation.cancelled = true;  // the device does not know, and goes on
    return;
  }
  const uint32_t peer = operation.where.number;
  free_.push_back(found->operation);
  send({.work = Work::stop_asking, .peer = peer, .request = a.request}, 0);
}

void PolicyRank::carry(action::Make& a) {
  const Fate fate = world_.makes(settings_.policy.rank, a);
  const uint64_t token = keep({.work = Work::make,
                               .end = fate.end,
                               .request = a.request,
                               .sample = a.sample,
                               .place = a.place});
  making_[a.request] = static_cast<uint32_t>(token);
  if (fate.held) return;
  to_decode_.emplace(a.place, token);
  decode_more();
}

uint64_t PolicyRank::decoding_bytes(const Operation& operation) const {
  const bool finishes = operation.work == Work::decode && settings_.policy.made_from;
  return finishes ? 0 : source_bytes_of(operation.sample);
}

void PolicyRank::carry(action::Decode& a) {
  const bool ok = world_.decodes(settings_.policy.rank, a);
  to_decode_.emplace(a.place, keep({.work = Work::decode,
                                    .end = ok ? ReadEnd::ok : ReadEnd::undecodable,
                                    .sample = a.sample,
                                    .place = a.place}));
  decode_more();
}

// Free threads take what the loop needs first.
void PolicyRank::decode_more() {
  while (decoding_ < std::max(1u, settings_.decode_threads) && !to_decode_.empty()) {
    const uint64_t token = to_decode_.begin()->second;
    to_decode_.erase(to_decode_.begin());
    ++decoding_;
    const Operation& operation = operations_[static_cast<uint32_t>(token)];
    const uint64_t bytes = decoding_bytes(operation);
    const auto batch = open_.find(operation.place.batch);
    const bool fresh = batch != open_.end() && batch->second.fresh;
    cluster_.preprocess(settings_.policy.rank, bytes,
                        fresh ? bytes + settings_.policy.decoded_bytes : 0, token);
  }
}

void PolicyRank::carry(action::Place& a) {
  if (a.place.batch == kNoBatch) ahead_[a.sample] = true;
  place(a.sample, a.tier);
}

void PolicyRank::place(uint64_t sample, uint32_t tier) {
  const bool ok = world_.takes(settings_.policy.rank, sample, tier) && tiers_[tier].alive;
  cluster_.write(settings_.policy.rank, tier, settings_.plan->sizes()[sample],
                 keep({.work = Work::place,
                       .end = ok ? ReadEnd::ok : ReadEnd::permanent,
                       .sample = sample,
                       .where = {Origin::Kind::tier, tier}}));
}

// Peers.

void PolicyRank::send(const Operation& message, uint64_t bytes) {
  if (dropped_[message.peer]) return;
  cluster_.send(settings_.policy.rank, message.peer, bytes, keep(message),
                world_.delay(settings_.policy.rank, message.peer));
}

// A message of this rank is at its end of the network.
void PolicyRank::arrive(const Operation& message) {
  const uint32_t rank = settings_.policy.rank;
  const Arrival arrival = world_.arrival(rank, message.peer, message.sample);
  if (arrival != Arrival::never)
    ranks_[message.peer]->receive(rank, message, arrival == Arrival::whole);
}

void PolicyRank::carry(action::Refuse& a) {
  send({.work = Work::refuse, .peer = a.rank, .request = a.request}, 0);
}

void PolicyRank::carry(action::SendPush& a) {
  send({.work = Work::push, .peer = a.rank, .request = a.push, .sample = a.sample},
       settings_.plan->sizes()[a.sample]);
}

void PolicyRank::carry(action::TellUnread& a) {
  send({.work = Work::push, .peer = a.rank, .request = kNoPush, .sample = a.sample}, 0);
}

void PolicyRank::carry(action::AnswerPush& a) {
  send({.work = Work::answer_push,
        .end = a.end == PushEnd::kept ? ReadEnd::ok : ReadEnd::permanent,
        .peer = a.rank,
        .request = a.push},
       0);
}

void PolicyRank::carry(action::Serve& a) {
  Operation serve{.work = Work::serve,
                  .peer = a.rank,
                  .request = a.request,
                  .sample = a.sample,
                  .where = {Origin::Kind::tier, a.tier}};
  if (!world_.serves(settings_.policy.rank, a.sample, a.tier)) drop(a.tier, a.sample);
  if (!tiers_[a.tier].held[a.sample]) {
    serve.end = ReadEnd::missing;
    return cluster_.wait(0, keep(serve));
  }
  cluster_.read(a.rank, {Place::Kind::peer, false, false, a.tier, settings_.policy.rank},
                settings_.plan->sizes()[a.sample], keep(serve),
                world_.delay(settings_.policy.rank, a.rank));
}

// Who is stopped takes nothing: what is sent to it stays here until it goes on, or counts as dead.
void PolicyRank::end_serve(const Operation& operation) {
  const bool ok = operation.end == ReadEnd::ok;
  const bool dropped = dropped_[operation.peer];
  if (ok && !dropped && ranks_[operation.peer]->stopped()) return held_up_.push_back(operation);
  if (ok && !dropped) arrive(operation);
  tell(event::Served{operation.peer, operation.request, operation.sample, operation.where.number,
                     ok});
}

void PolicyRank::go_on_sending() {
  if (dead_) return;
  for (const Operation& operation : std::exchange(held_up_, {})) end_serve(operation);
}

void PolicyRank::carry(action::DropPeer& a) {
  dropped_[a.rank] = true;
  go_on_sending();
}

void PolicyRank::receive(uint32_t from, const Operation& message, bool intact) {
  if (dead_ || dropped_[from]) return;
  if (stopped_)
    return missed_.push_back([this, from, message, intact] { receive(from, message, intact); });
  switch (message.work) {
    case Work::ask:
      return tell(event::PeerRequest{from, message.sample, message.request});
    case Work::stop_asking:
      return tell(event::PeerCancel{from, message.request});
    case Work::refuse:
    case Work::serve:
      tell(event::PeerHeard{from});
      return end(message.request,
                 message.work == Work::serve && intact ? ReadEnd::ok : ReadEnd::missing);
    case Work::push:
      return tell(event::PeerPush{from, message.sample, message.request, intact});
    case Work::answer_push:
      return tell(event::PushAnswered{
          message.request, message.end == ReadEnd::ok ? PushEnd::kept : PushEnd::refused});
    case Work::ping:
      tell(event::PeerHeard{from});
      return send({.work = Work::pong, .peer = from}, 0);
    default:
      return tell(event::PeerHeard{from});
  }
}

void PolicyRank::end(uint64_t request, ReadEnd end) {
  const auto make = making_.find(request);
  const Pending* found = pending(request);
  if (make == making_.end() && found == nullptr) return;  // cancelled before
  const uint32_t number = make == making_.end() ? found->operation : make->second;
  Operation operation = operations_[number];
  free_.push_back(number);
  operation.end = end;
  if (operation.work == Work::make)
    end_make(operation);
  else
    end_read(operation);
}

void PolicyRank::drop(uint32_t tier, uint64_t sample) {
  if (!tiers_[tier].held[sample]) return;
  tiers_[tier].held[sample] = false;
  tiers_[tier].bytes -= settings_.plan->sizes()[sample];
}

void PolicyRank::carry(action::Evict& a) {
  drop(a.tier, a.sample);
}

void PolicyRank::copy(BatchPlace from, BatchPlace to) {
  const auto source = open_.find(from.batch);
  const auto target = open_.find(to.batch);
  if (source == open_.end() || target == open_.end()) return;
  target->second.filled[to.index] = source->second.filled[from.index];
  target->second.from[to.index] = {Origin::Kind::tier, 0};
}

void PolicyRank::carry(action::Deliver& a) {
  const auto found = open_.find(a.batch);
  if (found == open_.end()) return;
  const OpenBatch batch = std::move(found->second);
  open_.erase(found);
  if (is_fetch(a.batch)) return world_.fetched(settings_.policy.rank, batch.opened, batch.filled);
  Ready ready{a.batch, 0, batch.filled.size()};
  for (size_t i = 0; i < batch.filled.size(); ++i) {
    if (batch.filled[i] != UINT64_MAX) ready.bytes += settings_.plan->sizes()[batch.filled[i]];
    const Origin& from = batch.from[i];
    if (from.kind == Origin::Kind::source)
      ++hits_.source;
    else if (from.kind != Origin::Kind::tier)
      ++hits_.peer;
    else if (from.number < hits_.own.size())
      ++hits_.own[from.number];
  }
  world_.delivered(settings_.policy.rank, batch.opened, batch.filled);
  ready_.push_back(ready);
  world_.ready(settings_.policy.rank);
}

void PolicyRank::carry(action::SetTimer& a) {
  cluster_.agenda().set(timer_, seconds(a.at));
}

void PolicyRank::lose_tier(uint32_t tier) {
  if (!tiers_[tier].alive) return;
  tiers_[tier].alive = false;
  std::fill(tiers_[tier].held.begin(), tiers_[tier].held.end(), false);
  tiers_[tier].bytes = 0;
  tell(event::TierLost{tier});
}

void PolicyRank::ended(uint64_t token) {
  const auto number = static_cast<uint32_t>(token);
  if (operations_[number].work == Work::delayed_read && !operations_[number].cancelled)
    return start_read(token);
  const Operation operation = operations_[number];
  free_.push_back(number);
  if (dead_) return;
  switch (operation.work) {
    case Work::read:
    case Work::delayed_read:
      return end_read(operation);
    case Work::place:
      return end_place(operation);
    case Work::make:
      --decoding_;
      decode_more();
      return end_make(operation);
    case Work::decode:
      --decoding_;
      decode_more();
      return tell(event::Decoded{operation.place, operation.end == ReadEnd::ok});
    case Work::compute_epoch:
      return tell(event::EpochKnown{operation.sample, settings_.orders->epoch(operation.sample)});
    case Work::serve:
      return end_serve(operation);
    default:
      return arrive(operation);
  }
}

void PolicyRank::end_read(const Operation& operation) {
  if (operation.cancelled) return;
  if (Pending* found = pending(operation.request)) found->request = UINT64_MAX;
  const bool from_tier = operation.where.kind == Origin::Kind::tier;
  const bool from_source = operation.where.kind == Origin::Kind::source;
  ReadEnd end = operation.end;
  if (end == ReadEnd::ok && from_source && cluster_.now() > operation.deadline)
    end = ReadEnd::deadline;
  if (from_tier && end == ReadEnd::missing) drop(operation.where.number, operation.sample);
  if (end == ReadEnd::ok) {
    if (from_source) source_bytes_ += source_bytes_of(operation.sample);
    if (!from_source || !settings_.policy.made_from)
      fill(operation, from_tier && ahead_[operation.sample] ? Origin{} : operation.where);
    if (from_tier) ahead_[operation.sample] = false;
  }
  tell(event::ReadEnded{operation.request, end});
}

// The bytes of a sample are in its place.
void PolicyRank::fill(const Operation& operation, const Origin& from) {
  const auto batch = open_.find(operation.place.batch);
  if (batch == open_.end()) return;
  batch->second.filled[operation.place.index] = operation.sample;
  batch->second.from[operation.place.index] = from;
}

void PolicyRank::end_make(const Operation& operation) {
  if (operation.cancelled) return;
  making_.erase(operation.request);
  const bool ok = operation.end == ReadEnd::ok;
  if (ok) fill(operation, {});
  tell(event::Made{operation.request, ok});
}

void PolicyRank::end_place(const Operation& operation) {
  TierContent& tier = tiers_[operation.where.number];
  const bool ok = operation.end == ReadEnd::ok && tier.alive;
  if (ok && !tier.held[operation.sample]) {
    tier.held[operation.sample] = true;
    tier.bytes += settings_.plan->sizes()[operation.sample];
  }
  tell(event::Placed{operation.sample, operation.where.number, ok});
}

}  // namespace foreload::sim
