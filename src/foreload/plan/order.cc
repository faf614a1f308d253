// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/order.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/text.h"

namespace foreload {
namespace {

struct OrderRow {
  std::string_view name;
  MadeOrder (*make)(const OrderSettings&, uint64_t samples, uint64_t seed);
  bool by_name = true;  // it needs nothing but samples and seed
};

constexpr std::array kOrders{
    OrderRow{"torch", torch_order},  //
    OrderRow{"sequential", sequential_order}, OrderRow{"feistel", feistel_order},
    OrderRow{"given", given_order, false},    OrderRow{"weighted", weighted_order, false},
};

auto unknown_order(std::string_view name) {
  const auto names = order_names();
  return fail(ErrorKind::invalid, fmt::format("unknown order '{}': use {}{}", name,
                                              alternatives(names), did_you_mean(name, names)));
}

}  // namespace

std::optional<uint64_t> EpochOrder::next_use(uint64_t sample, uint64_t from) const {
  std::vector<uint64_t> block(4096);
  for (; from < size(); from += block.size()) {
    block.resize(std::min<uint64_t>(block.size(), size() - from));
    read(from, block);
    const auto found = std::find(block.begin(), block.end(), sample);
    if (found != block.end()) return from + static_cast<uint64_t>(found - block.begin());
  }
  return std::nullopt;
}

Digest Order::digest() const {
  return Digester().add(name_).add(samples_).add(seed_).digest();
}

Result<std::unique_ptr<Order>> make_order(const OrderSettings& settings, uint64_t samples,
                                          uint64_t seed) {
  const auto* const row = std::ranges::find(kOrders, settings.name, &OrderRow::name);
  if (row == kOrders.end()) return unknown_order(settings.name);
  if (samples == 0)
    return fail(ErrorKind::invalid, "the data set has no samples: give at least one");
  if (samples > uint64_t{1} << 62)
    return fail(ErrorKind::invalid, fmt::format("{} samples are too many: at most 2^62", samples));
  return row->make(settings, samples, seed);
}

std::vector<std::string> order_names() {
  std::vector<std::string> names;
  for (const OrderRow& row : kOrders)
    if (row.by_name) names.emplace_back(row.name);
  return names;
}

Result<OrderSettings> parse_order(std::string_view name) {
  const auto* const row = std::ranges::find(kOrders, name, &OrderRow::name);
  if (row == kOrders.end() || !row->by_name) return unknown_order(name);
  return OrderSettings{std::string(name)};
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

}  // namespace foreload
