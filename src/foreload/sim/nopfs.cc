// SPDX-License-Identifier: Apache-2.0
//
// NoPFS as published: every rank counts its own reads over all epochs, keeps what it reads most
// often on its fastest tier, then the next, and fetches each tier's samples in the order in which
// it first needs them. Whether another rank has a sample already is guessed from how far one's own
// tier of the same kind is; a wrong guess costs a question, and the source is read. Nothing is
// evicted.
#include <algorithm>
#include <numeric>
#include <span>

#include "foreload/sim/rival.h"

namespace foreload::sim {
namespace {

class NoPfs final : public Rival {
 public:
  NoPfs(const Scenario& scenario, const Workload& workload)
      : cluster_(scenario.cluster),
        tiers_(static_cast<uint32_t>(scenario.cluster.tiers.size())),
        lists_(uint64_t{workload.ranks()} * tiers_) {
    std::vector<EpochLists> epochs;
    for (uint64_t epoch = 0; epoch < workload.epochs(); ++epoch)
      epochs.push_back(workload.lists(epoch));
    for (uint32_t rank = 0; rank < workload.ranks(); ++rank)
      choose_samples(rank, epochs, workload.sizes());
    index_copies(workload.sizes().samples());
    for (const TierSettings& tier : cluster_.tiers) {
      const double threads = std::max(1u, tier.threads);
      rates_.push_back(tier.read.curve.rate(threads) / threads);
    }
  }

  std::optional<uint32_t> next_fill(uint32_t rank, uint32_t tier) override {
    TierList& list = lists_[rank * tiers_ + tier];
    while (list.next < list.samples.size() && list.states[list.next] != State::missing) ++list.next;
    if (list.next == list.samples.size()) return std::nullopt;
    list.states[list.next] = State::filling;
    return list.samples[list.next++];
  }
  void filled(uint32_t rank, uint32_t, uint32_t sample) override { hold(rank, sample); }
  void arrived(uint32_t rank, uint32_t sample, const Place& place) override {
    if (place.kind == Place::Kind::source) hold(rank, sample);
  }

  bool shares_work() const override { return true; }
  Place choose(uint32_t rank, uint32_t sample, const Cluster& cluster) override {
    Place best;
    double best_rate = cluster.source().next_share();
    const Copy* best_copy = nullptr;
    State* own_state = nullptr;
    const std::span<const Copy> copies = copies_of(sample);
    // Ranks that have a sample are asked in turn.
    const size_t first = copies.empty() ? 0 : (rank + turn_++) % copies.size();
    for (size_t i = 0; i < copies.size(); ++i) {
      const Copy& copy = copies[first + i < copies.size() ? first + i : first + i - copies.size()];
      const uint32_t holder = copy.list / tiers_;
      const uint32_t tier = copy.list % tiers_;
      const bool own = holder == rank;
      if (own) {
        own_state = &state_of(copy);
        if (*own_state == State::filling) return {Place::Kind::own, false, true, tier, rank};
      }
      if (own ? *own_state != State::held : !guesses(rank, tier, copy.index)) continue;
      const double rate = own ? rates_[tier] : std::min(rates_[tier], cluster_.network);
      if (rate <= best_rate) continue;
      best_rate = rate;
      best = {own ? Place::Kind::own : Place::Kind::peer, false, false, tier, holder};
      best_copy = &copy;
    }
    const bool there = best_copy == nullptr || state_of(*best_copy) == State::held;
    if (!there) best = {.detour = true};
    if (best.kind == Place::Kind::source && own_state != nullptr && *own_state == State::missing)
      *own_state = State::staging;
    return best;
  }

 private:
  enum class State : uint8_t {
    missing,
    filling,  // a thread of the tier reads it
    staging,  // a staging thread reads it, and will leave a copy
    held,
  };
  struct TierList {
    std::vector<uint32_t> samples;  // in the order in which the rank first needs them
    std::vector<State> states;
    uint64_t next = 0;
    uint64_t holds = 0;
  };
  struct Copy {
    uint32_t list;   // rank * tiers + tier
    uint32_t index;  // in that list
  };
  struct Candidate {
    uint32_t sample;
    uint32_t count;
    uint64_t first;  // read
  };

  void choose_samples(uint32_t rank, const std::vector<EpochLists>& epochs, const Sizes& sizes) {
    reads_.clear();
    uint64_t position = 0;
    for (const EpochLists& epoch : epochs) {
      for (const uint32_t sample : epoch.of(rank))
        reads_.push_back(uint64_t{sample} << 32 | position++);
    }
    std::ranges::sort(reads_);
    candidates_.clear();
    for (const uint64_t read : reads_) {
      const auto sample = static_cast<uint32_t>(read >> 32);
      if (candidates_.empty() || candidates_.back().sample != sample)
        candidates_.push_back({sample, 0, read & UINT32_MAX});
      ++candidates_.back().count;
    }
    std::ranges::sort(candidates_, [](const Candidate& a, const Candidate& b) {
      return a.count > b.count || (a.count == b.count && a.first < b.first);
    });
    auto from = candidates_.begin();
    for (uint32_t tier = 0; tier < tiers_; ++tier) {
      uint64_t room = cluster_.capacity(tier);
      auto to = from;
      while (to != candidates_.end() && sizes[to->sample] <= room) room -= sizes[(to++)->sample];
      std::sort(from, to, [](const Candidate& a, const Candidate& b) { return a.first < b.first; });
      TierList& list = lists_[rank * tiers_ + tier];
      for (; from != to; ++from) list.samples.push_back(from->sample);
      list.states.resize(list.samples.size());
    }
  }

  void index_copies(uint64_t samples) {
    first_copy_.resize(samples + 1);
    for (const TierList& list : lists_) {
      for (const uint32_t sample : list.samples) ++first_copy_[sample + 1];
    }
    std::partial_sum(first_copy_.begin(), first_copy_.end(), first_copy_.begin());
    all_copies_.resize(first_copy_.back());
    std::vector<uint64_t> next(first_copy_.begin(), first_copy_.end() - 1);
    for (uint32_t i = 0; i < lists_.size(); ++i) {
      for (uint32_t index = 0; index < lists_[i].samples.size(); ++index)
        all_copies_[next[lists_[i].samples[index]]++] = {i, index};
    }
  }
  std::span<const Copy> copies_of(uint32_t sample) const {
    return {all_copies_.data() + first_copy_[sample], all_copies_.data() + first_copy_[sample + 1]};
  }

  State& state_of(const Copy& copy) { return lists_[copy.list].states[copy.index]; }

  void hold(uint32_t rank, uint32_t sample) {
    for (const Copy& copy : copies_of(sample)) {
      if (copy.list / tiers_ != rank) continue;
      TierList& list = lists_[copy.list];
      if (list.states[copy.index] != State::held) ++list.holds;
      list.states[copy.index] = State::held;
    }
  }
  bool guesses(uint32_t rank, uint32_t tier, uint32_t index) const {
    const TierList& own = lists_[rank * tiers_ + tier];
    return index < own.holds || own.holds == own.samples.size();
  }

  const ClusterSettings& cluster_;
  uint32_t tiers_;
  std::vector<TierList> lists_;       // [rank][tier]
  std::vector<double> rates_;         // of one read, by tier
  std::vector<uint64_t> first_copy_;  // by sample
  std::vector<Copy> all_copies_;
  uint64_t turn_ = 0;
  std::vector<uint64_t> reads_;
  std::vector<Candidate> candidates_;
};

}  // namespace

std::unique_ptr<Rival> make_nopfs(const Scenario& scenario, const Workload& workload) {
  return std::make_unique<NoPfs>(scenario, workload);
}

}  // namespace foreload::sim
