// SPDX-License-Identifier: Apache-2.0
//
// What was read from the source and is being made into the form in which samples are kept. The read
// is over for its path; for whoever waits for the sample it is still arriving.
//
// For one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "foreload/policy/flights.h"

namespace foreload {

class Making {
 public:
  explicit Making(Desk& desk) : desk_(desk) {}

  // Of a read that has just ended.
  void begin(uint64_t request, const Flight& read);
  // The read that it was made of; nothing if it was cancelled.
  std::optional<Flight> end(uint64_t request);
  void cancel_all();

  // Memory of those without a place.
  uint64_t ahead_bytes() const { return ahead_bytes_; }

 private:
  uint64_t ahead_bytes_of(const Flight& read) const;

  Desk& desk_;
  std::map<uint64_t, Flight> reads_;  // by request
  uint64_t ahead_bytes_ = 0;
};

}  // namespace foreload
