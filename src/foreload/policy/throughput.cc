// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/throughput.h"

namespace foreload {
namespace {

double seconds_of(RunTime time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

void Throughput::pass_time(RunTime now) {
  if (under_way_ > 0) {
    const double passed = seconds_of(now - as_of_);
    busy_ += passed;
    crowd_ += passed * under_way_;
  }
  as_of_ = now;
}

void Throughput::end(RunTime now, double amount) {
  pass_time(now);
  --under_way_;
  if (ended_ >= kMemory) {
    constexpr double kKept = 1 - 1 / kMemory;
    ended_ *= kKept;
    amount_ *= kKept;
    busy_ *= kKept;
    crowd_ *= kKept;
  }
  ++ended_;
  amount_ += amount;
}

double Throughput::seconds_for_one(RunTime now) const {
  const double open = under_way_ > 0 ? seconds_of(now - as_of_) : 0;
  return amount_ > 0 ? (busy_ + open) / amount_ : 0;
}

}  // namespace foreload
