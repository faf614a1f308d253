// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/order.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "calls.h"
#include "lists.h"

namespace foreload::python {

namespace {

// One epoch's order, with what it was made from.
struct Epoch {
  std::unique_ptr<const Order> order;
  std::unique_ptr<const EpochOrder> ids;

  static Result<Epoch> of(Result<std::unique_ptr<const Order>> order, uint64_t number) {
    Epoch epoch;
    FORELOAD_TRY(epoch.order, std::move(order));
    FORELOAD_TRY(epoch.ids, epoch.order->epoch(number));
    return epoch;
  }
};

Epoch seeded(const std::string& kind, uint64_t samples, uint64_t seed, uint64_t epoch) {
  return compute([&](SignalWatch&) -> Result<Epoch> {
    FORELOAD_TRY(const OrderKind order, parse_order_kind(kind));
    return Epoch::of(make_order(order, samples, seed), epoch);
  });
}

Epoch given(uint64_t samples, const py::array_t<int64_t, py::array::c_style>& ids) {
  std::vector<std::vector<uint64_t>> epochs(1);
  epochs[0].assign(ids.data(), ids.data() + ids.size());
  return compute([&](SignalWatch&) -> Result<Epoch> {
    return Epoch::of(make_given_order(samples, std::move(epochs)), 0);
  });
}

Sharding shard(const Epoch& epoch, uint32_t ranks, const std::string& pad, uint64_t start) {
  return {epoch.ids->size(), ranks, take(parse_pad(pad)), start};
}

// The first position of the sample that has not been consumed yet.
std::optional<uint64_t> find_from(const EpochOrder& ids, uint64_t sample, uint64_t start) {
  const auto first = ids.find(sample);
  if (!first || *first >= start) return first;
  // Consumed once; only an order with repeats has it again.
  std::vector<uint64_t> piece(uint64_t{1} << 16);
  for (uint64_t position = start; position < ids.size(); position += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), ids.size() - position));
    ids.read(position, piece);
    const auto found = std::find(piece.begin(), piece.end(), sample);
    if (found != piece.end()) return position + static_cast<uint64_t>(found - piece.begin());
  }
  return std::nullopt;
}

std::optional<std::pair<uint32_t, uint64_t>> find(const Epoch& epoch, int64_t sample,
                                                  uint32_t ranks, const std::string& pad,
                                                  uint64_t start) {
  const uint64_t id = within("sample", sample, 0, epoch.order->samples());
  const Sharding sharding = shard(epoch, ranks, pad, start);
  const bool repeats = epoch.order->kind() == OrderKind::given;
  const auto position = compute([&](SignalWatch&) -> Result<std::optional<uint64_t>> {
    return repeats ? find_from(*epoch.ids, id, start) : epoch.ids->find(id);
  });
  if (!position) return std::nullopt;
  const auto read = sharding.reader(*position);
  if (!read) return std::nullopt;
  return std::pair(read->rank, read->step);
}

}  // namespace

void register_order(py::module_& module) {
  py::class_<Epoch>(module, "Epoch", "The order in which one epoch visits samples.")
      .def(py::init(&seeded), py::arg("kind"), py::arg("samples"), py::arg("seed"),
           py::arg("epoch"))
      .def_static("given", &given, py::arg("samples"), py::arg("ids").noconvert())
      .def("__len__", [](const Epoch& epoch) { return epoch.ids->size(); })
      .def(
          "reading_list",
          [](const Epoch& epoch, uint32_t ranks, std::optional<uint32_t> rank,
             const std::string& pad, uint64_t start, std::optional<uint64_t> limit) {
            if (rank) within("rank", *rank, 0, ranks);
            return list_array(*epoch.ids, shard(epoch, ranks, pad, start), rank, limit);
          },
          py::arg("ranks"), py::arg("rank"), py::arg("pad"), py::arg("start"), py::arg("limit"))
      .def("find", &find, py::arg("sample"), py::arg("ranks"), py::arg("pad"), py::arg("start"));
}

}  // namespace foreload::python
