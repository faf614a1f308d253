// SPDX-License-Identifier: Apache-2.0
//
// The order in which an epoch visits samples, before it is dealt out to ranks (sharding.h). Four
// kinds:
//   torch       the permutation torch.randperm draws from a CPU generator seeded with seed + epoch,
//               bit for bit, which is DistributedSampler's with shuffle=True
//   sequential  0, 1, 2, ...: DistributedSampler's with shuffle=False
//   feistel     a keyed permutation computed entry by entry, both ways, in constant memory
//   given       whatever list a sampler gave for an epoch, repeats allowed
//
// Orders and epoch orders are immutable: any thread may read them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/plan/sharding.h"

namespace foreload {

// One epoch's order: `size()` sample ids.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;
  virtual uint64_t size() const = 0;
  // The ids at positions first, first + 1, ... REQUIRES: first + out.size() <= size().
  virtual void read(uint64_t first, std::span<uint64_t> out) const = 0;
  // The first position of a sample, if the epoch has it. Constant time for feistel and sequential
  // orders, a search for the others.
  virtual std::optional<uint64_t> find(uint64_t sample) const;
};

enum class OrderKind : uint8_t { torch, sequential, feistel, given };

class Order {
 public:
  virtual ~Order() = default;
  virtual OrderKind kind() const = 0;
  // Number of samples in the data set: every id is below it.
  virtual uint64_t samples() const = 0;
  // Epochs below this number are known; UINT64_MAX where the seed decides all of them.
  virtual uint64_t known_epochs() const = 0;
  // Fails with `invalid` if the epoch is not known.
  virtual Result<std::unique_ptr<const EpochOrder>> epoch(uint64_t epoch) const = 0;
};

// torch, sequential or feistel. seed + epoch wraps at 64 bits. Fails with `invalid` for a data set
// without samples and for OrderKind::given.
Result<std::unique_ptr<const Order>> make_order(OrderKind kind, uint64_t samples, uint64_t seed);

// Epoch e of the result is epochs[e]. Fails with `invalid` if an id is not below `samples`.
Result<std::unique_ptr<const Order>> make_given_order(uint64_t samples,
                                                      std::vector<std::vector<uint64_t>> epochs);

// The samples a rank reads in an epoch: entries [first, first + out.size()) of its reading list.
// REQUIRES: sharding.samples == epoch.size(); first + out.size() <= sharding.per_rank().
void read_list(const EpochOrder& epoch, const Sharding& sharding, uint32_t rank, uint64_t first,
               std::span<uint64_t> out);

// What all ranks read together, rank 0 first in every step: entries of the global list.
// REQUIRES: sharding.samples == epoch.size(); first + out.size() <= sharding.total().
void read_global_list(const EpochOrder& epoch, const Sharding& sharding, uint64_t first,
                      std::span<uint64_t> out);

Result<OrderKind> parse_order_kind(std::string_view name);
std::string_view name_of(OrderKind kind);

}  // namespace foreload
