// SPDX-License-Identifier: Apache-2.0
//
// First in, first out. Unlike std::deque an empty one takes no memory on the heap: a rank has a
// few for every other rank.
//
// For one thread.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace foreload {

template <class Value>
class Fifo {
 public:
  bool empty() const { return first_ == values_.size(); }
  const Value& front() const { return values_[first_]; }
  void push_back(Value value) { values_.push_back(std::move(value)); }
  void pop_front() {
    ++first_;
    // What is gone is thrown out now and then, so that each value is moved once at most.
    if (2 * first_ < values_.size()) return;
    values_.erase(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  void clear() {
    values_.clear();
    first_ = 0;
  }
  auto begin() const { return values_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() const { return values_.end(); }

 private:
  std::vector<Value> values_;
  size_t first_ = 0;
};

}  // namespace foreload
