// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/rank_peers.h"

#include <utility>

#include "foreload/sim/policy_rank.h"

namespace foreload::sim {

RankPeers::RankPeers(const RankDesk& desk, RankOperations& operations, RankTiers& tiers, Life& life,
                     PolicyRank& own)
    : desk_(desk),
      operations_(operations),
      tiers_(tiers),
      life_(life),
      own_(own),
      dropped_(desk.settings.plan->job().ranks) {}

void RankPeers::send(const Operation& message, uint64_t bytes) {
  if (dropped_[message.peer]) return;
  desk_.cluster.send(desk_.rank, message.peer, bytes, operations_.keep(message),
                     desk_.world.delay(desk_.rank, message.peer));
}

void RankPeers::ask(uint32_t peer, uint64_t request, uint64_t sample) {
  send({.work = Work::ask, .peer = peer, .request = request, .sample = sample}, 0);
}

void RankPeers::stop_asking(uint32_t peer, uint64_t request) {
  send({.work = Work::stop_asking, .peer = peer, .request = request}, 0);
}

void RankPeers::carry(action::Refuse& a) {
  send({.work = Work::refuse, .peer = a.rank, .request = a.request}, 0);
}

void RankPeers::carry(action::SendPush& a) {
  send({.work = Work::push, .peer = a.rank, .request = a.push, .sample = a.sample},
       desk_.bytes(a.sample));
}

void RankPeers::carry(action::TellUnread& a) {
  send({.work = Work::push, .peer = a.rank, .request = kNoPush, .sample = a.sample}, 0);
}

void RankPeers::carry(action::AnswerPush& a) {
  send({.work = Work::answer_push,
        .end = a.end == PushEnd::kept ? ReadEnd::ok : ReadEnd::permanent,
        .peer = a.rank,
        .request = a.push},
       0);
}

void RankPeers::carry(action::Serve& a) {
  Operation serve{.work = Work::serve,
                  .peer = a.rank,
                  .request = a.request,
                  .sample = a.sample,
                  .where = {Origin::Kind::tier, a.tier}};
  if (!desk_.world.serves(desk_.rank, a.sample, a.tier)) tiers_.drop(a.tier, a.sample);
  if (!tiers_.holds(a.tier, a.sample)) {
    serve.end = ReadEnd::missing;
    return desk_.cluster.wait(0, operations_.keep(serve));
  }
  desk_.cluster.read(a.rank, {Place::Kind::peer, false, false, a.tier, desk_.rank},
                     desk_.bytes(a.sample), operations_.keep(serve),
                     desk_.world.delay(desk_.rank, a.rank));
}

void RankPeers::carry(action::DropPeer& a) {
  dropped_[a.rank] = true;
  go_on_sending();
}

void RankPeers::sent(const Operation& message) {
  if (message.work == Work::serve)
    end_serve(message);
  else
    deliver(message);
}

// Who is stopped takes nothing: what is sent to it stays here until it goes on, or counts as dead.
void RankPeers::end_serve(const Operation& serve) {
  const bool ok = serve.end == ReadEnd::ok;
  const bool dropped = dropped_[serve.peer];
  if (ok && !dropped && ranks_[serve.peer]->life().stopped()) return held_up_.push_back(serve);
  if (ok && !dropped) deliver(serve);
  own_.tell(event::Served{serve.peer, serve.request, serve.sample, serve.where.number, ok});
}

void RankPeers::go_on_sending() {
  if (life_.dead()) return;
  for (const Operation& serve : std::exchange(held_up_, {})) end_serve(serve);
}

void RankPeers::woken() {
  for (const auto& other : ranks_) other->peers().go_on_sending();
}

void RankPeers::deliver(const Operation& message) {
  const Arrival arrival = desk_.world.arrival(desk_.rank, message.peer, message.sample);
  if (arrival != Arrival::never)
    ranks_[message.peer]->peers().receive(desk_.rank, message, arrival == Arrival::whole);
}

void RankPeers::receive(uint32_t from, const Operation& message, bool intact) {
  if (life_.dead() || dropped_[from]) return;
  if (life_.stopped())
    return life_.miss([this, from, message, intact] { receive(from, message, intact); });
  switch (message.work) {
    case Work::ask:
      return own_.tell(event::PeerRequest{from, message.sample, message.request});
    case Work::stop_asking:
      return own_.tell(event::PeerCancel{from, message.request});
    case Work::refuse:
    case Work::serve:
      own_.tell(event::PeerHeard{from});
      return own_.end(message.request,
                      message.work == Work::serve && intact ? ReadEnd::ok : ReadEnd::missing);
    case Work::push:
      return own_.tell(event::PeerPush{from, message.sample, message.request, intact});
    case Work::answer_push:
      return own_.tell(event::PushAnswered{
          message.request, message.end == ReadEnd::ok ? PushEnd::kept : PushEnd::refused});
    case Work::ping:
      own_.tell(event::PeerHeard{from});
      return send({.work = Work::pong, .peer = from}, 0);
    default:
      return own_.tell(event::PeerHeard{from});
  }
}

// Its memory is read whatever it does: it may be stopped, or dead and not known to be.
std::optional<uint32_t> RankPeers::neighbour_with(uint64_t sample, uint32_t number) const {
  for (const uint32_t rank : desk_.settings.policy.neighbours)
    if ((number == kNoOwner || number == rank) && !dropped_[rank] &&
        ranks_[rank]->tiers().holds(0, sample))
      return rank;
  return std::nullopt;
}

}  // namespace foreload::sim
