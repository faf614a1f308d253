// SPDX-License-Identifier: Apache-2.0
//
// The part of the policy that deals with peers: what this rank serves, pushes and waits for.
#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "foreload/policy/policy.h"

namespace foreload {

namespace {

// The first epoch in which somebody reads the sample, as a row of the table.
uint32_t first_row(const ReaderTable& table, uint64_t sample) {
  uint32_t row = 0;
  while (row < table.epochs() && table.reader(row, sample) >= table.ranks()) ++row;
  return row;
}

}  // namespace

uint32_t Policy::first_reader(uint64_t sample) const {
  const ReaderTable* table = plan_->table();
  if (table == nullptr || cut_off_[sample]) return kNoOwner;
  const uint32_t row = first_row(*table, sample);
  return row < table->epochs() ? table->reader(row, sample) : kNoOwner;
}

bool Policy::was_read(uint64_t sample) const {
  return unsure_ || seen_.empty() || seen_[sample];
}

// The position in the epoch's order after the last one that anybody reads; padding apart.
uint64_t Policy::end_of_reads(const KnownEpoch& known, const Sharding& sharding) const {
  const uint64_t batches = batches_of(known, sharding);
  const uint64_t steps = batches == 0 ? 0 : end_of_batch(known, sharding, batches - 1);
  return std::min(sharding.samples, sharding.start + steps * sharding.ranks);
}

void Policy::mark(const EpochOrder& order, uint64_t first, uint64_t end,
                  std::vector<bool>& marks) const {
  std::array<uint64_t, 1024> ids{};
  for (; first < end; first += ids.size()) {
    const std::span<uint64_t> some(ids.data(), std::min<uint64_t>(ids.size(), end - first));
    order.read(first, some);
    for (const uint64_t id : some) marks[id] = true;
  }
}

void Policy::mark_seen(const KnownEpoch& known, const Sharding& sharding) {
  if (seen_.empty()) return;
  mark(*known.order, sharding.start, end_of_reads(known, sharding), seen_);
  if (std::ranges::find(seen_, false) == seen_.end()) seen_ = std::vector<bool>();
}

void Policy::mark_cut_off(const KnownEpoch& known, const Sharding& sharding) {
  mark(*known.order, end_of_reads(known, sharding), sharding.samples, cut_off_);
}

// Whether the first reader of a sample that this rank owns will push it.
bool Policy::may_expect(uint64_t sample) const {
  if (unsure_ || came_[sample] || !is_owner(sample)) return false;
  const uint32_t from = first_reader(sample);
  // In the last epoch nothing is pushed.
  if (from == kNoOwner ||
      past_the_end(plan_->job().first_epoch + first_row(*plan_->table(), sample) + 1))
    return false;
  return from != settings_.rank && peers_[from].up && !peers_[from].late &&
         tier_alive_[plan_->placement().owner(sample).tier];
}

void Policy::expect(uint64_t sample) {
  on_its_way_[sample] = OnItsWay::expected;
  expected_[sample] = {first_reader(sample), now_};
}

// It does not come: who waits here reads it, peers are told to.
void Policy::end_expecting(uint64_t sample, Actions& actions) {
  expected_.erase(sample);
  on_its_way_[sample] = OnItsWay::no;
  came_[sample] = true;  // or as good as
  wake_waiters(sample, actions);
}

// The place is queued to be asked for. Peers that did not answer it for the peer timeout have cost
// its batch enough: then it is the source's.
void Policy::ask(uint32_t keeper, BatchPlace place) {
  Entry& entry = *entry_of(place);
  entry.asked = std::min(entry.asked, now_);
  if (now_ - entry.asked >= settings_.peer_timeout) {
    for_source_.push_front(place);
  } else {
    for_peer_[keeper].push_back(place);
    peers_wanted_.insert(keeper);
  }
}

// Peers' requests.

void Policy::handle(const event::PeerHeard& e, RunTime, Actions&) {
  if (with_peers()) heard_from(e.rank);
}

void Policy::handle(const event::PeerRequest& e, RunTime now, Actions& actions) {
  if (!with_peers() || !peers_[e.rank].up) return;
  heard_from(e.rank);
  const Ask ask{e.rank, e.request, now};
  if (copies_[e.sample] != 0) return serve({ask, e.sample}, actions);
  const bool own = is_owner(e.sample);
  if (on_its_way_[e.sample] == OnItsWay::no) {
    if (may_expect(e.sample)) {
      expect(e.sample);
    } else if (!own || unsure_ || came_[e.sample] || peers_[settings_.rank].late ||
               first_reader(e.sample) != settings_.rank) {
      return refuse(ask, actions);
    }  // else this rank reads it itself, when its turn comes
  }
  uint32_t tier = 0;
  if (!keeps(e.sample, tier)) return refuse(ask, actions);
  parked_[e.sample].push_back(ask);
}

void Policy::handle(const event::PeerCancel& e, RunTime, Actions&) {
  if (!with_peers()) return;
  heard_from(e.rank);
  auto is_it = [&e](const Ask& ask) { return ask.rank == e.rank && ask.number == e.request; };
  for (auto asks = parked_.begin(); asks != parked_.end();) {
    std::erase_if(asks->second, is_it);
    asks = asks->second.empty() ? parked_.erase(asks) : std::next(asks);
  }
  std::erase_if(to_serve_, [&](const ToServe& wanted) { return is_it(wanted.ask); });
}

void Policy::refuse(const Ask& ask, Actions& actions) {
  if (!peers_[ask.rank].up) return;
  ++totals_.refused;
  actions.push_back(action::Refuse{ask.rank, ask.number});
}

void Policy::answer_parked(uint64_t sample, Actions& actions) {
  const auto found = parked_.find(sample);
  if (found == parked_.end()) return;
  const std::vector<Ask> asks = std::move(found->second);
  parked_.erase(found);
  for (const Ask& ask : asks) {
    if (copies_[sample] != 0)
      serve({ask, sample}, actions);
    else
      refuse(ask, actions);
  }
}

void Policy::serve(const ToServe& wanted, Actions& actions) {
  if (may_send(wanted))
    send(wanted, actions);
  else
    to_serve_.push_back(wanted);
}

// Bounded in all, but everybody who asks has one sample under way: a peer that takes nothing keeps
// nobody else waiting.
bool Policy::may_send(const ToServe& wanted) const {
  return !sending_.contains(wanted.ask.rank) ||
         serving_bytes_ + plan_->sizes()[wanted.sample] <= settings_.serve_bytes;
}

void Policy::send(const ToServe& wanted, Actions& actions) {
  const uint64_t size = plan_->sizes()[wanted.sample];
  const auto [sending, is_first] = sending_.try_emplace(wanted.ask.rank);
  if (is_first) sending->second.since = now_;
  sending->second.bytes += size;
  ++sending->second.samples;
  serving_bytes_ += size;
  actions.push_back(action::Serve{wanted.ask.rank, wanted.ask.number, wanted.sample,
                                  static_cast<uint32_t>(std::countr_zero(copies_[wanted.sample]))});
}

void Policy::handle(const event::Served& e, RunTime now, Actions& actions) {
  if (!with_peers()) return;
  const uint64_t size = plan_->sizes()[e.sample];
  serving_bytes_ -= size;
  const auto sending = sending_.find(e.rank);
  sending->second.bytes -= size;
  sending->second.since = now;
  if (--sending->second.samples == 0) sending_.erase(sending);
  if (e.ok) {
    ++totals_.served;
  } else {
    forget_copy(e.sample, e.tier);
    to_serve_.push_front({{e.rank, e.request}, e.sample});  // from another copy, or refused
  }
  // Whoever may be sent something, those who have waited longest first.
  for (auto next = to_serve_.begin(); next != to_serve_.end();) {
    const ToServe wanted = *next;
    const bool up = peers_[wanted.ask.rank].up;
    if (up && copies_[wanted.sample] != 0 && !may_send(wanted)) {
      ++next;
      continue;
    }
    next = to_serve_.erase(next);
    if (!up) continue;
    if (copies_[wanted.sample] != 0)
      send(wanted, actions);
    else
      refuse(wanted.ask, actions);
  }
}

// Pushes to this rank.

void Policy::handle(const event::PeerPush& e, RunTime now, Actions& actions) {
  if (!with_peers() || !peers_[e.rank].up) return;
  heard_from(e.rank);
  peers_[e.rank].late = false;
  if (e.push == kNoPush) {
    const auto expected = expected_.find(e.sample);
    if (expected == expected_.end())
      came_[e.sample] = came_[e.sample] || first_reader(e.sample) == e.rank;
    else if (expected->second.from == e.rank)
      end_expecting(e.sample, actions);
    return;
  }
  uint32_t tier = 0;
  if (copies_[e.sample] != 0) {
    actions.push_back(action::AnswerPush{e.rank, e.push, PushEnd::kept});
    return;
  }
  if (!e.intact || !keeps(e.sample, tier)) {
    actions.push_back(action::AnswerPush{e.rank, e.push, PushEnd::refused});
    came_[e.sample] = true;  // and will not come again
    if (on_its_way_[e.sample] == OnItsWay::expected) end_expecting(e.sample, actions);
    return;
  }
  came_[e.sample] = true;
  std::vector<Ask>& pushes = pushed_in_[e.sample];
  pushes.push_back({e.rank, e.push, now});
  if (pushes.size() > 1) return;  // one of them is being placed
  if (on_its_way_[e.sample] == OnItsWay::placing) return;
  expected_.erase(e.sample);
  if (on_its_way_[e.sample] != OnItsWay::arriving) on_its_way_[e.sample] = OnItsWay::placing;
  const bool own = is_owner(e.sample);
  if (!own) adopt(e.sample, tier, actions);
  auto place_on = [&](uint32_t where) {
    if (!own) ++arriving_guests_[e.sample];
    if (where > 0) placing_bytes_ += plan_->sizes()[e.sample];
    actions.push_back(action::PlacePushed{e.rank, e.push, e.sample, where});
  };
  place_on(tier);
  const uint32_t backing = plan_->placement().backing(e.sample);
  if (own && backing != kNoTier && tier_alive_[backing]) place_on(backing);
}

void Policy::answer_pushes(uint64_t sample, bool kept, Actions& actions) {
  const auto found = pushed_in_.find(sample);
  if (found == pushed_in_.end()) return;
  for (const Ask& push : found->second) {
    if (peers_[push.rank].up)
      actions.push_back(
          action::AnswerPush{push.rank, push.number, kept ? PushEnd::kept : PushEnd::refused});
  }
  pushed_in_.erase(found);
}

// Pushes of this rank.

void Policy::push(const Request& request, uint64_t id, Actions& actions) {
  const uint32_t keeper = keeper_of(request.sample);
  if (keeper == kNoOwner || keeper == settings_.rank || request.place.batch == kNoBatch) return;
  if (past_the_end(batch_of(request.place.batch)->epoch + 1)) return;  // nobody would read it
  const uint64_t number = next_push_++;
  pushes_[number] = {keeper, request.sample, now_};
  pushing_bytes_ += plan_->sizes()[request.sample];
  actions.push_back(action::HoldPush{number, id, request.sample, request.place});
  peers_[keeper].pushes.push_back(number);
  send_pushes(keeper, actions);
}

void Policy::send_pushes(uint32_t rank, Actions& actions) {
  Peer& peer = peers_[rank];
  const uint64_t room = settings_.push_bytes / peers_.size();
  while (!peer.pushes.empty()) {
    OutgoingPush& push = pushes_.at(peer.pushes.front());
    const uint64_t size = plan_->sizes()[push.sample];
    if (peer.pushing_bytes > 0 && peer.pushing_bytes + size > room) return;
    push.sent = true;
    push.since = now_;
    // At least one byte, so that samples without bytes go one by one too.
    peer.pushing_bytes += std::max<uint64_t>(size, 1);
    actions.push_back(action::SendPush{peer.pushes.front(), rank, push.sample});
    peer.pushes.pop_front();
  }
}

void Policy::handle(const event::PushAnswered& e, RunTime, Actions& actions) {
  const auto push = pushes_.find(e.push);
  if (push == pushes_.end()) return;
  const uint32_t rank = push->second.rank;
  heard_from(rank);
  // An heir may have refused because it did not know yet that it is one.
  const bool of_the_living = peers_[plan_->placement().owner(push->second.sample).rank].up;
  if (e.end == PushEnd::refused && of_the_living) unkept_[push->second.sample] = true;
  end_push(push, e.end == PushEnd::kept, actions);
  send_pushes(rank, actions);
}

void Policy::end_push(std::map<uint64_t, OutgoingPush>::iterator push, bool kept,
                      Actions& actions) {
  const uint64_t size = plan_->sizes()[push->second.sample];
  pushing_bytes_ -= size;
  if (push->second.sent) peers_[push->second.rank].pushing_bytes -= std::max<uint64_t>(size, 1);
  ++(kept ? totals_.pushed : totals_.push_failed);
  actions.push_back(action::EndPush{push->first});
  pushes_.erase(push);
}

// A seek: nobody knows any more what was read and what is still to come.
void Policy::forget_peers_work(Actions& actions) {
  unsure_ = true;
  for (auto& queued : for_peer_) queued.clear();
  peers_wanted_.clear();
  for_neighbours_.clear();
  for (const auto& [sample, expected] : expected_) on_its_way_[sample] = OnItsWay::no;
  expected_.clear();
  for (const auto& [sample, asks] : parked_) {
    if (on_its_way_[sample] == OnItsWay::placing) continue;  // it comes nevertheless
    for (const Ask& ask : asks) refuse(ask, actions);
  }
  std::erase_if(
      parked_, [this](const auto& entry) { return on_its_way_[entry.first] != OnItsWay::placing; });
}

}  // namespace foreload
