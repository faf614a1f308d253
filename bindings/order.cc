// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "foreload/plan/given_order.h"

#include "calls.h"
#include "lists.h"

namespace foreload::python {

namespace {

// One epoch's order, with what it was made from.
struct Epoch {
  std::unique_ptr<Order> order;
  std::shared_ptr<const EpochOrder> ids;
};

// Of lists that somebody will give, what they are expected to be like.
const Order& expected_of(const Order& order) {
  return order.expected() == nullptr ? order : *order.expected();
}

Epoch seeded(const OrderSettings& settings, uint64_t samples, uint64_t seed, uint64_t number) {
  return compute([&](SignalWatch&) -> Result<Epoch> {
    Epoch epoch;
    FORELOAD_TRY(epoch.order, make_order(settings, samples, seed));
    FORELOAD_TRY(epoch.ids, expected_of(*epoch.order).epoch(number));
    return epoch;
  });
}

Epoch given(uint64_t samples, const py::array_t<int64_t, py::array::c_style>& ids) {
  std::vector<uint64_t> list(ids.data(), ids.data() + ids.size());
  return compute([&](SignalWatch&) -> Result<Epoch> {
    Epoch epoch;
    FORELOAD_TRY(epoch.order, make_order({"given"}, samples, 0));
    FORELOAD_TRY(auto known, epoch.order->given()->give(std::move(list)));
    epoch.ids = std::move(known.list);
    return epoch;
  });
}

Sharding shard(const Epoch& epoch, uint32_t ranks, const std::string& pad, uint64_t start) {
  return {epoch.ids->size(), ranks, take(parse_pad(pad)), start};
}

std::optional<std::pair<uint32_t, uint64_t>> find(const Epoch& epoch, int64_t sample,
                                                  uint32_t ranks, const std::string& pad,
                                                  uint64_t start) {
  const uint64_t id = within("sample", sample, 0, epoch.order->samples());
  const Sharding sharding = shard(epoch, ranks, pad, start);
  const auto position = compute([&](SignalWatch&) -> Result<std::optional<uint64_t>> {
    return epoch.ids->next_use(id, start);
  });
  if (!position) return std::nullopt;
  const auto read = sharding.reader(*position);
  if (!read) return std::nullopt;
  return std::pair(read->rank, read->step);
}

}  // namespace

void register_order(py::module_& module) {
  using Weights = py::array_t<double, py::array::c_style | py::array::forcecast>;
  py::class_<OrderSettings>(module, "OrderSettings", "Which order samples come in.")
      .def(py::init([](std::string name) { return OrderSettings{std::move(name)}; }),
           py::arg("name"))
      .def(py::init([](const Weights& weights, uint64_t draws) {
             auto all = std::make_shared<const std::vector<double>>(
                 weights.data(), weights.data() + weights.size());
             return OrderSettings{"weighted", {}, std::move(all), draws};
           }),
           py::arg("weights"), py::arg("draws"))
      .def("as_given", &OrderSettings::as_given)
      .def_property_readonly(
          "kind",
          [](const OrderSettings& order) { return order.like.empty() ? order.name : order.like; },
          "Its name, or that of what it is like.")
      .def_property_readonly(
          "given", [](const OrderSettings& order) { return order.name == "given"; },
          "Whether lists of one rank alone are given, epoch by epoch.")
      .def(
          "entries",
          [](const OrderSettings& order, uint64_t samples) {
            return expected_of(*take(make_order(order, samples, 0))).shape(0).entries;
          },
          py::arg("samples"), "How many samples an epoch has.")
      .def(
          "identity",
          [](const OrderSettings& order, uint64_t samples) {
            const auto made = take(make_order(order, samples, 0));
            const Order& known = expected_of(*made);
            const std::string name(known.name());
            return parse_order(name) ? name : name + " " + known.digest().hex();
          },
          py::arg("samples"), "What must be the same for it to be the same order, the seed apart.");
  py::implicitly_convertible<py::str, OrderSettings>();
  py::class_<Epoch>(module, "Epoch", "The order in which one epoch visits samples.")
      .def(py::init(&seeded), py::arg("order"), py::arg("samples"), py::arg("seed"),
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
