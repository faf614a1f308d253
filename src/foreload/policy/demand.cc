// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/demand.h"

#include <algorithm>

namespace foreload {

bool Demand::computes() const {
  constexpr double kSome = 1.0 / 64;
  return pace_ >= kSome * round_ && (pace_ > 0 || round_ == 0);
}

// Loops wait for other ranks, too, which only makes them look slow: what was fast counts for more.
void Demand::consumed(RunTime since) {
  const RunTime begin = std::max(since, last_taken_);
  const double round = std::chrono::duration<double>(desk_.now - last_taken_).count();
  round_ += (round - round_) / 16;
  last_taken_ = desk_.now;
  const double took = std::chrono::duration<double>(desk_.now - begin).count();
  if (pace_ == 0)
    pace_ = took;
  else
    pace_ += (took - pace_) / (took < pace_ ? 4 : 16);
}

double Demand::until_loop(uint64_t batch) const {
  const double passed =
      std::chrono::duration<double>(desk_.now - std::max(last_taken_, window_.first_delivered_at()))
          .count();
  const double left = waits() ? 0 : std::max(0.0, pace_ - passed);
  const uint64_t before = window_.delivered() > 1 ? window_.delivered() - 1 : 0;
  return left + pace_ * static_cast<double>(before + batch - window_.next_delivery());
}

double Demand::seconds(BatchPlace place) const {
  if (is_fetch(place.batch)) return 0;
  const Throughput& decoding = window_.decoding();
  const double decoders = decoding.known() ? static_cast<double>(window_.unready()) *
                                                 decoding.seconds_for_one(desk_.now)
                                           : 0;
  return std::max(decoders, until_loop(place.batch));
}

}  // namespace foreload
