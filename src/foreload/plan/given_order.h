// SPDX-License-Identifier: Apache-2.0
//
// An order that grows: somebody, a sampler for instance, gives this rank's list of an epoch, and
// from then on that epoch is known. Lists are the rank's own: no other rank knows them, and a list
// is for one time: whoever goes elsewhere gives lists again.
//
// Any thread may read it; lists are given by one.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "foreload/plan/order.h"

namespace foreload {

class GivenOrder final : public Order {
 public:
  // `like`: what a plan takes it for; may be null.
  explicit GivenOrder(uint64_t samples, std::unique_ptr<const Order> like = nullptr);

  struct Given {
    uint64_t epoch;
    std::shared_ptr<const EpochOrder> list;
  };
  // The list of the next epoch that has none; `batch_ends` says where each batch ends, empty: all
  // are equally long. Fails with `invalid` for a sample that is not there, and for ends that do not
  // grow up to the length of the list.
  Result<Given> give(std::vector<uint64_t> samples, std::vector<uint64_t> batch_ends = {});
  // All lists are forgotten. The next one is of this epoch.
  void seek(uint64_t epoch);
  // Epochs before it are over: their lists are forgotten, and none is given for them any more.
  void drop_before(uint64_t epoch);

  uint64_t known_until() const override;
  EpochShape shape(uint64_t epoch) const override;
  Result<std::shared_ptr<const EpochOrder>> epoch(uint64_t epoch) const override;
  bool shared() const override { return false; }
  const Order* expected() const override { return like_.get(); }
  GivenOrder* given() override { return this; }
  Digest digest() const override;

 private:
  const std::unique_ptr<const Order> like_;
  mutable std::mutex mutex_;  // guards the others
  std::map<uint64_t, std::shared_ptr<const EpochOrder>> lists_;
  uint64_t next_ = 0;  // epoch to be given
};

}  // namespace foreload
