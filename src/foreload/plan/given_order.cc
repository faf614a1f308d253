// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/given_order.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "foreload/plan/stored_epoch.h"

namespace foreload {
namespace {

Result<void> check(const std::vector<uint64_t>& list, const std::vector<uint64_t>& batch_ends,
                   uint64_t samples, uint64_t epoch) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] >= samples)
      return fail(ErrorKind::invalid,
                  fmt::format("entry {} of the order given for epoch {} is sample {}, but the "
                              "data set has {} samples, numbered from 0",
                              i, epoch, list[i], samples));
  }
  if (!std::is_sorted(batch_ends.begin(), batch_ends.end()))
    return fail(ErrorKind::invalid, "the ends of batches must grow from batch to batch");
  if (!batch_ends.empty() && batch_ends.back() != list.size())
    return fail(ErrorKind::invalid, fmt::format("the last batch ends at {}, but {} samples are "
                                                "given",
                                                batch_ends.back(), list.size()));
  return {};
}

}  // namespace

GivenOrder::GivenOrder(uint64_t samples, std::unique_ptr<const Order> like)
    : Order("given", samples, 0), like_(std::move(like)) {}

Result<GivenOrder::Given> GivenOrder::give(std::vector<uint64_t> samples,
                                           std::vector<uint64_t> batch_ends) {
  const std::lock_guard lock(mutex_);
  FORELOAD_CHECK(check(samples, batch_ends, this->samples(), next_));
  const auto list =
      std::make_shared<StoredEpoch<uint64_t>>(std::move(samples), std::move(batch_ends));
  lists_[next_] = list;
  return Given{next_++, list};
}

void GivenOrder::seek(uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  lists_.clear();
  next_ = epoch;
}

void GivenOrder::drop_before(uint64_t epoch) {
  const std::lock_guard lock(mutex_);
  lists_.erase(lists_.begin(), lists_.lower_bound(epoch));
  next_ = std::max(next_, epoch);
}

uint64_t GivenOrder::known_until() const {
  const std::lock_guard lock(mutex_);
  return lists_.empty() ? 0 : next_;
}

EpochShape GivenOrder::shape(uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(epoch);
  if (found == lists_.end()) return {};
  EpochShape shape{found->second->size()};
  if (const auto ends = found->second->batch_ends(); !ends.empty()) shape.batches = ends.size();
  return shape;
}

Result<std::shared_ptr<const EpochOrder>> GivenOrder::epoch(uint64_t epoch) const {
  const std::lock_guard lock(mutex_);
  const auto found = lists_.find(epoch);
  if (found != lists_.end()) return found->second;
  return fail(ErrorKind::invalid,
              fmt::format("cannot read epoch {}: the given order has no list of it; give that "
                          "first",
                          epoch));
}

Digest GivenOrder::digest() const {
  const Digest like = like_ ? like_->digest() : Digest{};
  return Digester().add(name()).add(samples()).add(like.high).add(like.low).digest();
}

MadeOrder given_order(const OrderSettings& settings, uint64_t samples, uint64_t seed) {
  std::unique_ptr<const Order> like;
  if (!settings.like.empty()) {
    OrderSettings expected = settings;
    expected.name = std::exchange(expected.like, {});
    FORELOAD_TRY(like, make_order(expected, samples, seed));
  }
  return std::make_unique<GivenOrder>(samples, std::move(like));
}

}  // namespace foreload
