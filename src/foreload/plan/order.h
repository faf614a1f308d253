// SPDX-License-Identifier: Apache-2.0
//
// The order in which epochs visit samples, before they are dealt out to ranks (sharding.h). A place
// in an order is an epoch and a position: whoever knows an epoch reads it from any position, so
// that going somewhere costs nothing. Each order is a file of its own and one row of the table in
// order.cc:
//   torch       the permutation torch.randperm draws from a CPU generator seeded with seed + epoch,
//               bit for bit, which is DistributedSampler's with shuffle=True
//   sequential  0, 1, 2, ...: DistributedSampler's with shuffle=False
//   feistel     a keyed permutation computed entry by entry, both ways, in constant memory
//   given       whatever lists a sampler gives to one rank, epoch by epoch, repeats allowed
//   weighted    samples drawn without replacement, those of more weight sooner
//
// Orders and epochs are immutable, but for a given order, which grows: any thread may read them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/hash.h"
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
  // The first position from `from` on that has the sample, if one has. Constant time for feistel
  // and sequential orders, a search for the others.
  virtual std::optional<uint64_t> next_use(uint64_t sample, uint64_t from = 0) const;
  // The position after the last sample of each batch; empty: all batches are equally long.
  virtual std::span<const uint64_t> batch_ends() const { return {}; }
};

// How long an epoch is, before anybody computes it.
struct EpochShape {
  uint64_t entries = 0;
  std::optional<uint64_t> batches = std::nullopt;  // nothing: all are equally long
};

class GivenOrder;

class Order {
 public:
  static constexpr uint64_t kForEver = UINT64_MAX;

  virtual ~Order() = default;
  std::string_view name() const { return name_; }
  // Number of samples in the data set: every id is below it.
  uint64_t samples() const { return samples_; }
  // Epochs below this number are known; kForEver where the seed decides all of them.
  virtual uint64_t known_until() const { return kForEver; }
  // No entries if the epoch is not known.
  virtual EpochShape shape(uint64_t /*epoch*/) const { return {samples_}; }
  // Fails with `invalid` if the epoch is not known.
  virtual Result<std::shared_ptr<const EpochOrder>> epoch(uint64_t epoch) const = 0;
  // All ranks know it, and each reads its share. Otherwise it is one rank's own: an epoch is what
  // that rank has left of it, and nobody else knows.
  virtual bool shared() const { return true; }
  // What a plan takes it for: itself, or what it is expected to be like; null: nobody can tell.
  virtual const Order* expected() const { return this; }
  // Where lists are given; null: nobody gives any.
  virtual GivenOrder* given() { return nullptr; }
  // Of what defines it: orders of equal digests are equal, as far as they are shared.
  virtual Digest digest() const;

 protected:
  Order(std::string_view name, uint64_t samples, uint64_t seed)
      : name_(name), samples_(samples), seed_(seed) {}
  uint64_t seed() const { return seed_; }

 private:
  std::string_view name_;
  uint64_t samples_;
  uint64_t seed_;
};

// What an order is made from, beside samples and seed; each takes what it needs.
struct OrderSettings {
  std::string name = "torch";
  std::string like = {};  // given: the name of what it is expected to be like; empty: nothing
  std::shared_ptr<const std::vector<double>> weights = {};  // weighted: by sample
  uint64_t draws = 0;  // weighted: of an epoch; 0: all samples that have a weight

  // Somebody gives lists that are like this order.
  OrderSettings as_given() const { return {"given", name, weights, draws}; }
};

// seed + epoch wraps at 64 bits. Fails with `invalid` for a name that no order has, a data set
// without samples, and settings that do not make that order.
Result<std::unique_ptr<Order>> make_order(const OrderSettings& settings, uint64_t samples,
                                          uint64_t seed);

// Orders that a name alone describes.
std::vector<std::string> order_names();
// One of them; fails with `invalid` otherwise.
Result<OrderSettings> parse_order(std::string_view name);

// The samples a rank reads in an epoch: entries [first, first + out.size()) of its reading list.
// REQUIRES: sharding.samples == epoch.size(); first + out.size() <= sharding.per_rank().
void read_list(const EpochOrder& epoch, const Sharding& sharding, uint32_t rank, uint64_t first,
               std::span<uint64_t> out);

// What all ranks read together, rank 0 first in every step: entries of the global list.
// REQUIRES: sharding.samples == epoch.size(); first + out.size() <= sharding.total().
void read_global_list(const EpochOrder& epoch, const Sharding& sharding, uint64_t first,
                      std::span<uint64_t> out);

// Rows of the table.
using MadeOrder = Result<std::unique_ptr<Order>>;
MadeOrder torch_order(const OrderSettings& settings, uint64_t samples, uint64_t seed);
MadeOrder sequential_order(const OrderSettings& settings, uint64_t samples, uint64_t seed);
MadeOrder feistel_order(const OrderSettings& settings, uint64_t samples, uint64_t seed);
MadeOrder given_order(const OrderSettings& settings, uint64_t samples, uint64_t seed);
MadeOrder weighted_order(const OrderSettings& settings, uint64_t samples, uint64_t seed);

}  // namespace foreload
