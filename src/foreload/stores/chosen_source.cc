// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/chosen_source.h"

#include <array>
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foreload/stores/engine_choice.h"

namespace foreload {
namespace {

// With fewer there is no load that two could share.
constexpr unsigned kLeastInFlight = 8;

// What reads of the trial took, and where the next ones go. Any thread may use it.
class Trial {
 public:
  Trial(unsigned most_in_flight, std::function<SteadyTime()> clock)
      : most_in_flight_(most_in_flight), clock_(std::move(clock)) {}

  bool over() const { return over_.load(std::memory_order_acquire); }
  // REQUIRES: over.
  Candidate chosen() const { return chosen_; }

  // The reads of each candidate, in their order.
  std::array<std::vector<SourceRead>, 2> share(std::span<const SourceRead> reads) {
    const std::scoped_lock lock(mutex_);
    const SteadyTime now = clock_();
    std::array<std::vector<SourceRead>, 2> shares;
    for (const SourceRead& read : reads) {
      if (begun_.size() >= most_in_flight_) choice_.give_up();
      const Candidate by = choice_.next(now);
      shares[static_cast<size_t>(by)].push_back(read);
      if (!choice_.decided()) begun_.insert_or_assign(read.id, now);
    }
    end_if_decided();
    return shares;
  }

  void answered(Candidate by, const SourceAnswer& answer) {
    const std::scoped_lock lock(mutex_);
    const auto begun = begun_.find(answer.id);
    if (begun == begun_.end()) return;
    const SteadyTime now = clock_();
    if (answer.fault == Fault::none) choice_.answered(by, now - begun->second, now);
    begun_.erase(begun);
    end_if_decided();
  }

 private:
  void end_if_decided() {  // REQUIRES: mutex_ held
    if (over() || !choice_.decided()) return;
    chosen_ = choice_.chosen();
    begun_.clear();
    over_.store(true, std::memory_order_release);
  }

  const unsigned most_in_flight_;
  const std::function<SteadyTime()> clock_;
  Candidate chosen_ = Candidate::preferred;  // written once, before over_
  std::atomic<bool> over_ = false;
  std::mutex mutex_;  // guards the two below
  EngineChoice choice_;
  std::unordered_map<uint64_t, SteadyTime> begun_;  // reads of the trial that are not answered
};

class ChosenSource final : public Source {
 public:
  ChosenSource(std::shared_ptr<Trial> trial, std::unique_ptr<Source> preferred,
               std::unique_ptr<Source> other)
      : trial_(std::move(trial)), sources_{std::move(preferred), std::move(other)} {}

  void submit(std::span<const SourceRead> reads) override {
    if (trial_->over()) return of(trial_->chosen()).submit(reads);
    const auto shares = trial_->share(reads);
    for (size_t i = 0; i < sources_.size(); ++i) {
      if (!shares[i].empty()) sources_[i]->submit(shares[i]);
    }
  }
  // The one that does not know the read ignores it.
  void cancel(uint64_t id) override {
    for (const auto& source : sources_) source->cancel(id);
  }
  uint64_t abandoned() const override {
    return sources_[0]->abandoned() + sources_[1]->abandoned();
  }
  std::string describe() const override {
    if (trial_->over()) return of(trial_->chosen()).describe();
    return sources_[0]->describe() + ", while the other engine is tried";
  }

 private:
  Source& of(Candidate candidate) const { return *sources_[static_cast<size_t>(candidate)]; }

  const std::shared_ptr<Trial> trial_;
  const std::array<std::unique_ptr<Source>, 2> sources_;
};

}  // namespace

Result<std::unique_ptr<Source>> start_chosen_source(const Candidates& candidates,
                                                    const Source::Answered& answered,
                                                    std::function<SteadyTime()> clock) {
  if (candidates.most_in_flight < kLeastInFlight) return candidates.preferred(answered);
  const auto trial = std::make_shared<Trial>(candidates.most_in_flight, std::move(clock));
  // The trial hears of an answer before those who may give the read's id to another one.
  const auto heard_by = [&](Candidate by) -> Source::Answered {
    return [trial, by, answered](SourceAnswer answer) {
      if (!trial->over()) trial->answered(by, answer);
      answered(std::move(answer));
    };
  };
  auto preferred = candidates.preferred(heard_by(Candidate::preferred));
  if (!preferred) {
    auto other = candidates.other(answered);
    return other ? std::move(other) : std::move(preferred);
  }
  auto other = candidates.other(heard_by(Candidate::other));
  if (!other) return candidates.preferred(answered);
  return std::make_unique<ChosenSource>(trial, std::move(*preferred), std::move(*other));
}

}  // namespace foreload
