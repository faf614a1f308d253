// SPDX-License-Identifier: Apache-2.0
//
// How an epoch's order is dealt out to ranks. Positions of the epoch's order go to ranks in turn,
// one each, as torch's DistributedSampler does; the end is padded by starting over, or cut, so that
// every rank reads equally many.
//
// An epoch that is resumed after `start` positions were consumed deals the rest in the same way, to
// any number of ranks: nothing is lost and nothing is read twice, padding apart. With the old
// number of ranks the result is exactly the rest of the old reading lists.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "foreload/base/result.h"

namespace foreload {

enum class Pad : uint8_t {
  repeat,    // ranks read some samples again so that all read equally many
  truncate,  // the last few samples of the order are not read
};

struct Sharding {
  uint64_t samples = 0;  // length of the epoch's order
  uint32_t ranks = 1;
  Pad pad = Pad::repeat;
  uint64_t start = 0;  // positions already consumed, by all ranks together

  uint64_t remaining() const { return start < samples ? samples - start : 0; }
  uint64_t per_rank() const {
    return remaining() / ranks + (pad == Pad::repeat && remaining() % ranks != 0 ? 1 : 0);
  }
  // Reads of all ranks together, padding included.
  uint64_t total() const { return per_rank() * ranks; }

  // The position in the epoch's order that `rank` reads as its step-th sample.
  // REQUIRES: rank < ranks, step < per_rank(); the result is below `samples`.
  uint64_t position(uint32_t rank, uint64_t step) const {
    const uint64_t p = start + step * ranks + rank;
    return p < samples ? p : p % samples;
  }
  // Whether the position is read without counting padding, and if so by whom and when.
  struct Read {
    uint32_t rank;
    uint64_t step;
  };
  std::optional<Read> reader(uint64_t position) const {
    if (position < start || position - start >= total()) return std::nullopt;
    return Read{static_cast<uint32_t>((position - start) % ranks), (position - start) / ranks};
  }
};

// How a rank's reading list is cut into batches.
struct Batching {
  uint64_t batch_size = 1;
  bool drop_last = false;  // leave out a last batch that is not full

  uint64_t batches(uint64_t reads) const {
    return reads / batch_size + (!drop_last && reads % batch_size != 0 ? 1 : 0);
  }
  // Length of batch `i` of a list of `reads` samples; it starts at i * batch_size.
  uint64_t length(uint64_t reads, uint64_t i) const {
    const uint64_t first = i * batch_size;
    return reads - first < batch_size ? reads - first : batch_size;
  }
};

Result<Pad> parse_pad(std::string_view name);

}  // namespace foreload
