// SPDX-License-Identifier: Apache-2.0
//
// Who reads a sample first in this run, and what has been read so far. The first reader takes it
// from the source and pushes it to its owner; an owner that somebody asks meanwhile expects it.
//
// For one thread.
#pragma once

#include <cstdint>
#include <map>

#include "foreload/policy/copies.h"
#include "foreload/policy/lives.h"

namespace foreload {

class FirstReads {
 public:
  FirstReads(Desk& desk, Copies& copies, const Lives& lives);

  uint32_t first_reader(uint64_t sample) const;  // kNoOwner: nobody knows
  // Somebody has it, or nobody knows.
  bool was_read(uint64_t sample) const {
    return unsure_ || unseen_ == 0 || copies_.is(sample, Past::seen);
  }
  // Positions of an epoch that somebody reads, when it is over, and those that nobody reads.
  void note_read(const EpochOrder& order, uint64_t first, uint64_t end);
  void note_left_out(const EpochOrder& order, uint64_t first, uint64_t end);
  // After a seek, or where each rank has an order of its own, nobody knows what was read.
  bool unsure() const { return unsure_; }

  // A sample that this rank keeps and somebody waits for, until its first reader pushes it.
  struct Expected {
    uint32_t from;
    RunTime since;
  };
  const std::map<uint64_t, Expected>& expected() const { return expected_; }  // by sample
  // False if the first reader will not push it, or this rank does not own it.
  bool expect(uint64_t sample);
  // It has come.
  void came(uint64_t sample);
  // It does not come, nor will it later.
  void give_up(uint64_t sample);
  // A seek.
  void forget();

 private:
  bool will_come(uint64_t sample) const;

  Desk& desk_;
  Copies& copies_;
  const Lives& lives_;
  bool unsure_;
  uint64_t unseen_;  // samples
  std::map<uint64_t, Expected> expected_;
};

}  // namespace foreload
