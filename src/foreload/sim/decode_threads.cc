// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/decode_threads.h"

#include <algorithm>

namespace foreload::sim {

void DecodeThreads::add(uint64_t token) {
  waiting_.emplace(operations_[token].place, token);
  go_on();
}

void DecodeThreads::ended() {
  --busy_;
  go_on();
}

void DecodeThreads::go_on() {
  while (busy_ < std::max(1u, desk_.settings.decode_threads) && !waiting_.empty()) {
    const uint64_t token = waiting_.begin()->second;
    waiting_.erase(waiting_.begin());
    ++busy_;
    const Operation& operation = operations_[token];
    // Made forms are finished without work worth counting.
    const bool finishes = operation.work == Work::decode && desk_.makes();
    const uint64_t bytes = finishes ? 0 : desk_.source_bytes(operation.sample);
    const bool fresh = batches_.fresh(operation.place.batch);
    desk_.cluster.preprocess(desk_.rank, bytes,
                             fresh ? bytes + desk_.settings.policy.decoded_bytes : 0, token);
  }
}

}  // namespace foreload::sim
