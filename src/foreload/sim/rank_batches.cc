// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/rank_batches.h"

#include <utility>

namespace foreload::sim {

RankBatches::RankBatches(const RankDesk& desk) : desk_(desk) {
  hits_.own.resize(desk.settings.plan->capacities().tiers());
}

void RankBatches::open(const action::OpenBatch& a) {
  OpenBatch& batch = open_[a.batch];
  batch.opened = a;
  batch.filled.assign(a.samples.size(), kNoSample);
  batch.from.resize(a.samples.size());
  // The loop has one besides.
  batch.fresh = open_.size() + ready_.size() + 1 > slots_;
  if (batch.fresh) ++slots_;
}

void RankBatches::fill(BatchPlace place, uint64_t sample, const Origin& from) {
  const auto batch = open_.find(place.batch);
  if (batch == open_.end()) return;
  batch->second.filled[place.index] = sample;
  batch->second.from[place.index] = from;
}

void RankBatches::copy(BatchPlace from, BatchPlace to) {
  const auto source = open_.find(from.batch);
  const auto target = open_.find(to.batch);
  if (source == open_.end() || target == open_.end()) return;
  target->second.filled[to.index] = source->second.filled[from.index];
  target->second.from[to.index] = {Origin::Kind::tier, 0};
}

void RankBatches::deliver(uint64_t number) {
  const auto found = open_.find(number);
  if (found == open_.end()) return;
  const OpenBatch batch = std::move(found->second);
  open_.erase(found);
  if (is_fetch(number)) return desk_.world.fetched(desk_.rank, batch.opened, batch.filled);
  Ready ready{number, 0, batch.filled.size()};
  for (size_t i = 0; i < batch.filled.size(); ++i) {
    if (batch.filled[i] != kNoSample) ready.bytes += desk_.bytes(batch.filled[i]);
    const Origin& from = batch.from[i];
    if (from.kind == Origin::Kind::source)
      ++hits_.source;
    else if (from.kind != Origin::Kind::tier)
      ++hits_.peer;
    else if (from.number < hits_.own.size())
      ++hits_.own[from.number];
  }
  desk_.world.delivered(desk_.rank, batch.opened, batch.filled);
  ready_.push_back(ready);
  desk_.world.ready(desk_.rank);
}

bool RankBatches::fresh(uint64_t batch) const {
  const auto found = open_.find(batch);
  return found != open_.end() && found->second.fresh;
}

}  // namespace foreload::sim
