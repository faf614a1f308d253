// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/order.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/text.h"
#include "foreload/plan/feistel.h"
#include "foreload/plan/torch_shuffle.h"

namespace foreload {
namespace {

// An epoch whose ids lie in memory.
template <class Id>
class StoredEpoch final : public EpochOrder {
 public:
  explicit StoredEpoch(std::shared_ptr<const std::vector<Id>> ids) : ids_(std::move(ids)) {}
  uint64_t size() const override { return ids_->size(); }
  void read(uint64_t first, std::span<uint64_t> out) const override {
    assert(first + out.size() <= ids_->size());
    std::copy_n(ids_->begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
  }

 private:
  std::shared_ptr<const std::vector<Id>> ids_;
};

class SequentialEpoch final : public EpochOrder {
 public:
  explicit SequentialEpoch(uint64_t samples) : samples_(samples) {}
  uint64_t size() const override { return samples_; }
  void read(uint64_t first, std::span<uint64_t> out) const override {
    std::iota(out.begin(), out.end(), first);
  }
  std::optional<uint64_t> find(uint64_t sample) const override {
    return sample < samples_ ? std::optional(sample) : std::nullopt;
  }

 private:
  uint64_t samples_;
};

class FeistelEpoch final : public EpochOrder {
 public:
  FeistelEpoch(uint64_t samples, uint64_t seed, uint64_t epoch)
      : permutation_(samples, seed, epoch) {}
  uint64_t size() const override { return permutation_.size(); }
  void read(uint64_t first, std::span<uint64_t> out) const override {
    for (uint64_t& id : out) id = permutation_(first++);
  }
  std::optional<uint64_t> find(uint64_t sample) const override {
    return sample < size() ? std::optional(permutation_.inverse(sample)) : std::nullopt;
  }

 private:
  FeistelPermutation permutation_;
};

// The three kinds that a seed decides for all time.
class SeededOrder final : public Order {
 public:
  SeededOrder(OrderKind kind, uint64_t samples, uint64_t seed)
      : kind_(kind), samples_(samples), seed_(seed) {}
  OrderKind kind() const override { return kind_; }
  uint64_t samples() const override { return samples_; }
  uint64_t known_epochs() const override { return UINT64_MAX; }

  Result<std::unique_ptr<const EpochOrder>> epoch(uint64_t epoch) const override {
    switch (kind_) {
      case OrderKind::sequential:
        return std::make_unique<SequentialEpoch>(samples_);
      case OrderKind::feistel:
        return std::make_unique<FeistelEpoch>(samples_, seed_, epoch);
      default:
        return samples_ <= UINT32_MAX ? shuffled<uint32_t>(epoch) : shuffled<uint64_t>(epoch);
    }
  }

 private:
  template <class Id>
  std::unique_ptr<const EpochOrder> shuffled(uint64_t epoch) const {
    auto ids = std::make_shared<std::vector<Id>>(samples_);
    torch_randperm(seed_ + epoch, std::span(*ids));
    return std::make_unique<StoredEpoch<Id>>(std::move(ids));
  }

  OrderKind kind_;
  uint64_t samples_;
  uint64_t seed_;
};

class GivenOrder final : public Order {
 public:
  GivenOrder(uint64_t samples, std::vector<std::vector<uint64_t>> epochs) : samples_(samples) {
    for (auto& ids : epochs)
      epochs_.push_back(std::make_shared<const std::vector<uint64_t>>(std::move(ids)));
  }
  OrderKind kind() const override { return OrderKind::given; }
  uint64_t samples() const override { return samples_; }
  uint64_t known_epochs() const override { return epochs_.size(); }

  Result<std::unique_ptr<const EpochOrder>> epoch(uint64_t epoch) const override {
    if (epoch >= epochs_.size())
      return fail(ErrorKind::invalid,
                  fmt::format("cannot read epoch {}: the given order has {} epochs; give the list "
                              "of that epoch first",
                              epoch, epochs_.size()));
    return std::make_unique<StoredEpoch<uint64_t>>(epochs_[epoch]);
  }

 private:
  uint64_t samples_;
  std::vector<std::shared_ptr<const std::vector<uint64_t>>> epochs_;
};

constexpr uint64_t kBlock = 4096;

Result<void> check_samples(uint64_t samples) {
  if (samples == 0)
    return fail(ErrorKind::invalid, "the data set has no samples: give at least one");
  if (samples > uint64_t{1} << 62)
    return fail(ErrorKind::invalid, fmt::format("{} samples are too many: at most 2^62", samples));
  return {};
}

}  // namespace

std::optional<uint64_t> EpochOrder::find(uint64_t sample) const {
  std::vector<uint64_t> block(std::min(kBlock, size()));
  for (uint64_t first = 0; first < size(); first += block.size()) {
    block.resize(std::min<uint64_t>(block.size(), size() - first));
    read(first, block);
    const auto found = std::find(block.begin(), block.end(), sample);
    if (found != block.end()) return first + static_cast<uint64_t>(found - block.begin());
  }
  return std::nullopt;
}

Result<std::unique_ptr<const Order>> make_order(OrderKind kind, uint64_t samples, uint64_t seed) {
  FORELOAD_CHECK(check_samples(samples));
  if (kind == OrderKind::given)
    return fail(ErrorKind::invalid, "a given order has no seed: give the list of each epoch");
  // A shuffle lies in memory as a whole.
  constexpr uint64_t kMostShuffled = uint64_t{1} << 40;
  if (kind == OrderKind::torch && samples > kMostShuffled)
    return fail(ErrorKind::invalid,
                fmt::format("{} samples are too many to shuffle as torch does: use the order "
                            "feistel",
                            samples));
  return std::make_unique<SeededOrder>(kind, samples, seed);
}

Result<std::unique_ptr<const Order>> make_given_order(uint64_t samples,
                                                      std::vector<std::vector<uint64_t>> epochs) {
  FORELOAD_CHECK(check_samples(samples));
  for (size_t e = 0; e < epochs.size(); ++e) {
    for (size_t i = 0; i < epochs[e].size(); ++i) {
      if (epochs[e][i] >= samples)
        return fail(ErrorKind::invalid,
                    fmt::format("entry {} of the order given for epoch {} is sample {}, but the "
                                "data set has {} samples, numbered from 0",
                                i, e, epochs[e][i], samples));
    }
  }
  return std::make_unique<GivenOrder>(samples, std::move(epochs));
}

void read_list(const EpochOrder& epoch, const Sharding& sharding, uint32_t rank, uint64_t first,
               std::span<uint64_t> out) {
  assert(sharding.samples == epoch.size() && rank < sharding.ranks);
  assert(first + out.size() <= sharding.per_rank());
  if (sharding.ranks == 1) return read_global_list(epoch, sharding, first, out);
  for (uint64_t i = 0; i < out.size(); ++i)
    epoch.read(sharding.position(rank, first + i), out.subspan(i, 1));
}

void read_global_list(const EpochOrder& epoch, const Sharding& sharding, uint64_t first,
                      std::span<uint64_t> out) {
  assert(sharding.samples == epoch.size() && first + out.size() <= sharding.total());
  uint64_t position = sharding.start + first;
  while (!out.empty()) {
    position %= sharding.samples;
    const uint64_t run = std::min<uint64_t>(out.size(), sharding.samples - position);
    epoch.read(position, out.first(run));
    out = out.subspan(run);
    position += run;
  }
}

Result<OrderKind> parse_order_kind(std::string_view name) {
  for (OrderKind kind : {OrderKind::torch, OrderKind::sequential, OrderKind::feistel}) {
    if (name == name_of(kind)) return kind;
  }
  return fail(ErrorKind::invalid,
              fmt::format("unknown order '{}': use torch, sequential or feistel{}", name,
                          did_you_mean(name, {"torch", "sequential", "feistel"})));
}

std::string_view name_of(OrderKind kind) {
  switch (kind) {
    case OrderKind::torch:
      return "torch";
    case OrderKind::sequential:
      return "sequential";
    case OrderKind::feistel:
      return "feistel";
    case OrderKind::given:
      return "given";
  }
  return "unknown";
}

}  // namespace foreload
