// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/device.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

namespace foreload::sim {
namespace {

// Curves end long before; beyond this the last rate is shared.
constexpr double kLongestTable = 1 << 16;

}  // namespace

ShareTable::ShareTable(const Curve& curve) {
  const double last = std::min(kLongestTable, std::ceil(curve.points().back().concurrency));
  shares_.resize(static_cast<size_t>(last) + 1);
  for (size_t n = 1; n < shares_.size(); ++n)
    shares_[n] = curve.rate(static_cast<double>(n)) / static_cast<double>(n);
  last_ = curve.points().back().rate;
  best_ = std::ranges::max(curve.points(), {}, &Curve::Point::rate).rate;
}

Device::Device(std::shared_ptr<const ShareTable> table, Agenda& agenda)
    : table_(std::move(table)), slot_(agenda.add()) {}

void Device::pass_time(const Agenda& agenda) {
  virtual_ += rate_ * (agenda.now() - as_of_);
  as_of_ = agenda.now();
}

void Device::schedule(Agenda& agenda) {
  if (reads_.empty()) {
    rate_ = 0;
    virtual_ = 0;
    agenda.set(slot_, kNever);
    return;
  }
  rate_ = table_->share(readers()) * speed_;
  const double left = std::max(0.0, reads_.front().end - virtual_);
  agenda.set(slot_, rate_ > 0 ? agenda.now() + left / rate_ : kNever);
}

void Device::start(Agenda& agenda, uint64_t bytes, uint64_t ticket) {
  pass_time(agenda);
  reads_.push_back({virtual_ + static_cast<double>(bytes), ticket});
  std::push_heap(reads_.begin(), reads_.end(), std::greater<>());
  schedule(agenda);
}

uint64_t Device::end(Agenda& agenda) {
  pass_time(agenda);
  virtual_ = std::max(virtual_, reads_.front().end);  // rounding
  std::pop_heap(reads_.begin(), reads_.end(), std::greater<>());
  const uint64_t ticket = reads_.back().ticket;
  reads_.pop_back();
  schedule(agenda);
  return ticket;
}

void Device::set_speed(Agenda& agenda, double speed) {
  pass_time(agenda);
  speed_ = speed;
  schedule(agenda);
}

}  // namespace foreload::sim
