// SPDX-License-Identifier: Apache-2.0
//
// The batches that are being filled, those of fetches included: their memory, what each place has,
// and the batch that comes out in the end.
//
// For the loop thread. Others write to the memory that it gives them, and keep it meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/fetch/batch.h"
#include "foreload/fetch/decoded_batch.h"
#include "foreload/fetch/engine_parts.h"
#include "foreload/policy/actions.h"
#include "foreload/staging/staging.h"

namespace foreload {

// Bytes, and who keeps them.
struct KeptBytes {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> keeper;
};

struct OpenBatch {
  uint64_t epoch = 0;
  uint64_t first = 0;
  Sharding sharding;
  bool last_of_epoch = false;
  std::vector<uint64_t> samples;
  std::vector<uint64_t> skipped;
  std::shared_ptr<Slot> slot;
  std::vector<std::span<std::byte>> ranges;  // by place; in the slot, or in one of `spilled`
  std::vector<From> from;
  std::vector<bool> tainted;  // an abandoned read may still write there
  std::vector<std::shared_ptr<Slot>> spilled;
  std::shared_ptr<DecodedBatch> decoded;      // null: it is delivered as bytes, or has failed
  std::map<uint32_t, std::string> undecoded;  // why, by place
  bool as_bytes = false;
  std::map<uint32_t, Error> errors;  // of a fetch

  // The memory of a place.
  KeptBytes at(uint32_t index) const;
  // The place has this memory from now on.
  void spill(uint32_t index, std::shared_ptr<Slot> memory);
};

class OpenBatches {
 public:
  explicit OpenBatches(const EngineParts& parts) : parts_(parts) {}

  // Fails with `invalid` if there is no memory; the batch is open all the same.
  Result<void> open(action::OpenBatch& a);
  // REQUIRES: it is open.
  OpenBatch& at(uint64_t batch) { return open_.at(batch); }
  KeptBytes at(BatchPlace place) const { return open_.at(place.batch).at(place.index); }
  // Null if it is closed.
  OpenBatch* find(uint64_t batch);
  // Memory to fill the place with `size` bytes, of which it has the same or is tainted; nothing if
  // there is none.
  std::optional<KeptBytes> room(BatchPlace place, uint64_t size);
  // An abandoned read, or a making, may go on writing there.
  void taint(BatchPlace place);
  // False if there is no memory.
  bool copy(BatchPlace from, BatchPlace to);
  // Empty if it is closed: a seek closes what was delivered, too.
  OpenBatch close(uint64_t batch);
  Batch finish(OpenBatch open) const;

 private:
  // Fresh memory for a place, because its own is too small or still written to.
  bool renew(OpenBatch& batch, uint32_t index, uint64_t size);

  const EngineParts& parts_;
  std::unordered_map<uint64_t, OpenBatch> open_;  // by number
};

}  // namespace foreload
