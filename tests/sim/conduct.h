// SPDX-License-Identifier: Apache-2.0
//
// What a policy may never do, whatever happens around it: an eye between the policy of one rank and
// its driver, that sees events and actions and keeps its own account of them.
//
//   places    a batch is opened once, its places are filled once with the sample they are for,
//             decoded where that is done, and it is delivered once and complete;
//   reads     what the source gives is made into what is kept, where that is another form; numbers
//             of requests are new, cancelled reads were under way, nothing is read from the
//             source twice at a time, but for a hedge beside the read that is late, and for
//             reads beside a copy;
//   bounds    open batches stay within the window, but for one, or two where all of the memory has
//             room for two;
//   copies    what a rank owns goes to the tier of the plan, or to that of its second copy;
//   peers     pushes are held until they end, nobody talks to a peer that counts as dead.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/plan/plan.h"
#include "foreload/policy/actions.h"
#include "foreload/policy/settings.h"

namespace foreload::sim {

class Conduct {
 public:
  // REQUIRES: the plan outlives it.
  Conduct(const Plan& plan, PolicySettings settings)
      : plan_(&plan), settings_(std::move(settings)) {}

  void heard(const Event& event) {
    if (const auto* read = std::get_if<event::ReadEnded>(&event)) return ended(*read);
    if (const auto* made = std::get_if<event::Made>(&event)) return ended(*made);
    if (const auto* found = std::get_if<event::Found>(&event))
      reads_.erase(found->request);
    else if (const auto* decoded = std::get_if<event::Decoded>(&event))
      decoding_.erase(decoded->place);
    else if (const auto* consumed = std::get_if<event::Consumed>(&event))
      std::erase_if(open_, [&](const auto& entry) {
        return entry.first <= consumed->batch && entry.second.delivered;
      });
    else if (const auto* forget = std::get_if<event::ForgetFetch>(&event))
      incomplete_.insert(forget->batch);
  }
  // What is wrong with an action, if anything is.
  std::optional<std::string> decided(const Action& action) {
    const char* wrong = std::visit([this](const auto& a) { return look_at(a); }, action);
    if (wrong == nullptr) return std::nullopt;
    return fmt::format("rank {}: {} (action {})", settings_.rank, wrong, action.index());
  }
  // Nothing is under way that somebody should have ended.
  bool idle() const {
    return reads_.empty() && making_.empty() && decoding_.empty() && held_.empty() &&
           std::ranges::all_of(open_, [](const auto& entry) { return entry.second.delivered; });
  }
  bool is_open(uint64_t batch) const { return open_.contains(batch); }
  const std::map<uint64_t, action::Read>& reads() const { return reads_; }  // by request
  const std::map<uint64_t, action::Make>& making() const { return making_; }

 private:
  struct Batch {
    action::OpenBatch opened;
    std::vector<bool> filled;
    uint64_t bytes = 0;
    bool delivered = false;
  };

  void ended(const event::ReadEnded& e) {
    const auto read = reads_.find(e.request);
    if (read == reads_.end()) return;
    const bool is_made = settings_.made_from && read->second.from.kind == Origin::Kind::source;
    if (e.end == ReadEnd::ok && !is_made && has(read->second.place)) fill(read->second.place);
    reads_.erase(read);
  }
  void ended(const event::Made& e) {
    const auto make = making_.find(e.request);
    if (make == making_.end()) return;
    if (e.ok && has(make->second.place)) fill(make->second.place);
    making_.erase(make);
  }
  static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }
  bool has(BatchPlace place) const {
    const auto batch = open_.find(place.batch);
    return batch != open_.end() && place.index < batch->second.filled.size();
  }
  bool is_filled(BatchPlace place) const {
    return has(place) && open_.at(place.batch).filled[place.index];
  }
  void fill(BatchPlace place) { open_.at(place.batch).filled[place.index] = true; }
  uint64_t sample_of(BatchPlace place) const {
    return open_.at(place.batch).opened.samples[place.index];
  }
  // A hedge whose late read may still win: nobody else can count on it.
  bool is_beside_another(const action::Read& hedge) const {
    return hedge.hedge && std::ranges::any_of(reads_, [&hedge](const auto& entry) {
             return entry.second.request != hedge.request && entry.second.place == hedge.place;
           });
  }
  bool talks_to(uint32_t rank) const { return !dropped_.contains(rank); }

  // Whatever is not about a place, a read, a copy or a peer.
  template <class Other>
  const char* look_at(const Other&) {
    return nullptr;
  }
  const char* look_at(const action::OpenBatch& a) {
    Batch batch{a, std::vector<bool>(a.samples.size())};
    for (const uint64_t sample : a.samples)
      batch.bytes += aligned(plan_->sizes()[sample]) + settings_.decoded_bytes +
                     (settings_.made_from ? aligned((*settings_.made_from)[sample]) : 0);
    uint64_t bytes = batch.bytes;
    uint64_t samples = a.samples.size();
    uint64_t others = 0;
    bool delivered = true;  // all others
    for (const auto& [number, open] : open_) {
      if (is_fetch(number)) continue;
      ++others;
      delivered = delivered && open.delivered;
      bytes += open.bytes;
      samples += open.filled.size();
    }
    if (!open_.emplace(a.batch, std::move(batch)).second) return "a batch is opened twice";
    const bool too_much = bytes > settings_.window_bytes || samples > settings_.window_samples;
    const bool two = others == 1 && samples <= settings_.window_samples &&
                     ((settings_.objective == Objective::time && delivered) ||
                      bytes <= settings_.most_of_two_batches());
    return !is_fetch(a.batch) && others > 0 && too_much && !two ? "the window is too large"
                                                                : nullptr;
  }
  const char* look_at(const action::Read& a) {
    const bool source = a.from.kind == Origin::Kind::source;
    for (const auto& [request, other] : reads_)
      if (source && !a.hedge && !a.detour && !other.detour && other.sample == a.sample &&
          other.from.kind == Origin::Kind::source && !is_beside_another(other))
        return "a sample is read from the source twice at a time";
    for (const auto& [request, make] : making_)
      if (source && !a.detour && make.sample == a.sample)
        return "a sample is read that is being made";
    if (!reads_.emplace(a.request, a).second) return "a request is not new";
    if (a.from.kind == Origin::Kind::peer && !talks_to(a.from.number)) return "the dead are asked";
    if (a.place.batch == kNoBatch) return nullptr;
    if (!has(a.place)) return "a read for a place that is not open";
    if (is_filled(a.place)) return "a place is filled twice";
    return sample_of(a.place) == a.sample ? nullptr : "a place is for another sample";
  }
  const char* look_at(const action::Cancel& a) {
    return reads_.erase(a.request) + making_.erase(a.request) == 1
               ? nullptr
               : "a read is cancelled that is not under way";
  }
  const char* look_at(const action::Make& a) {
    if (!settings_.made_from) return "a sample is made that is kept as it is read";
    return making_.emplace(a.request, a).second ? nullptr : "a sample is made twice";
  }
  const char* look_at(const action::Decode& a) {
    if (!is_filled(a.place)) return "a place is decoded without bytes";
    return decoding_.insert(a.place).second ? nullptr : "a place is decoded twice at a time";
  }
  const char* look_at(const action::Copy& a) {
    if (!is_filled(a.from)) return "a place without bytes is copied";
    if (!has(a.to) || is_filled(a.to)) return "a copy for a place that wants none";
    if (sample_of(a.from) != sample_of(a.to)) return "a copy for a place of another sample";
    fill(a.to);
    return nullptr;
  }
  const char* look_at(const action::Substitute& a) {
    if (!is_filled(a.from) || a.from.batch != a.to.batch) return "a substitute that is not there";
    fill(a.to);
    return nullptr;
  }
  const char* look_at(const action::Place& a) {
    if (a.place.batch != kNoBatch && has(a.place) && !is_filled(a.place))
      return "a place without bytes is kept";
    return look_at_copy(a.sample, a.tier);
  }
  const char* look_at(const action::PlacePushed& a) { return look_at_copy(a.sample, a.tier); }
  const char* look_at_copy(uint64_t sample, uint32_t tier) const {
    const Owner owner = plan_->placement().owner(sample);
    if (owner.rank != settings_.rank)
      return settings_.peers ? nullptr : "a rank without peers keeps what it does not own";
    const bool wanted = tier == owner.tier || tier == plan_->placement().backing(sample);
    return wanted ? nullptr : "a copy goes to a tier on which the plan does not want it";
  }
  const char* look_at(const action::Fail& a) {
    incomplete_.insert(a.place.batch);
    return nullptr;
  }
  const char* look_at(const action::Deliver& a) {
    const auto found = open_.find(a.batch);
    if (found == open_.end() || found->second.delivered) return "a delivery of what is not open";
    Batch& batch = found->second;
    batch.delivered = true;
    const bool complete = std::ranges::all_of(batch.filled, std::identity{});
    const bool decoding = std::ranges::any_of(
        decoding_, [&a](const BatchPlace& place) { return place.batch == a.batch; });
    if (is_fetch(a.batch)) open_.erase(found);
    if (decoding) return "a batch is delivered that is being decoded";
    if (complete) return nullptr;
    const bool excused = is_fetch(a.batch) && incomplete_.contains(a.batch);
    return excused ? nullptr : "a batch is delivered that is not complete";
  }
  const char* look_at(const action::CloseBatch& a) {
    std::erase_if(decoding_, [&a](const BatchPlace& place) { return place.batch == a.batch; });
    return open_.erase(a.batch) == 1 ? nullptr : "a batch is closed that is not open";
  }
  const char* look_at(const action::Serve& a) {
    return talks_to(a.rank) ? nullptr : "the dead are served";
  }
  const char* look_at(const action::Refuse& a) {
    return talks_to(a.rank) ? nullptr : "the dead are refused";
  }
  const char* look_at(const action::HoldPush& a) {
    return held_.insert(a.push).second ? nullptr : "a push is held twice";
  }
  const char* look_at(const action::SendPush& a) {
    if (!held_.contains(a.push)) return "a push is sent that is not held";
    return talks_to(a.rank) ? nullptr : "a push to the dead";
  }
  const char* look_at(const action::EndPush& a) {
    return held_.erase(a.push) == 1 ? nullptr : "a push ends that is not held";
  }
  const char* look_at(const action::DropPeer& a) {
    return dropped_.insert(a.rank).second ? nullptr : "a peer is given up twice";
  }

  const Plan* plan_;
  PolicySettings settings_;
  std::map<uint64_t, Batch> open_;  // until consumed, closed or, of fetches, delivered
  std::map<uint64_t, action::Read> reads_;
  std::map<uint64_t, action::Make> making_;
  std::set<BatchPlace> decoding_;
  std::set<uint64_t> incomplete_;  // fetches of which something failed, or that were forgotten
  std::set<uint64_t> held_;        // pushes
  std::set<uint32_t> dropped_;
};

}  // namespace foreload::sim
