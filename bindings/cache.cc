// SPDX-License-Identifier: Apache-2.0
#include "cache.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "foreload/loader/settling.h"

#include "calls.h"

namespace foreload::python {

CacheCore::CacheCore(LoaderSettings settings, uint32_t member, uint32_t members) {
  share_budgets(settings);
  cache_ = Cache::make({settings.memory, std::move(settings.disks), std::move(settings.memory_why),
                        member, members});
}

CacheCore::~CacheCore() {
  if (::getpid() != process_) {
    static_cast<void>(new std::shared_ptr<Cache>(std::move(cache_)));
    return;
  }
  py::gil_scoped_release release;
  cache_.reset();
}

namespace {

std::vector<uint64_t> disks_left(const CacheCore& core) {
  std::vector<uint64_t> left;
  for (const DiskBudget& disk : core.cache()->left().disks) left.push_back(disk.bytes);
  return left;
}

void write_blob(const CacheCore& core, const std::string& name, const py::buffer& data) {
  const py::buffer_info info = data.request();
  compute([&](SignalWatch&) -> Result<bool> {
    const auto sink = core.cache()->open_blob(name);
    FORELOAD_CHECK(sink->write(
        {static_cast<const std::byte*>(info.ptr), static_cast<size_t>(info.size * info.itemsize)}));
    FORELOAD_CHECK(sink->commit());
    return true;
  });
}

std::optional<py::bytes> read_blob(const CacheCore& core, const std::string& name) {
  const auto blob = compute([&](SignalWatch&) { return core.cache()->read_blob(name); });
  if (!blob) return std::nullopt;
  return py::bytes(reinterpret_cast<const char*>(blob->data()), blob->size());
}

}  // namespace

void register_cache(py::module_& module) {
  py::class_<CacheCore>(module, "Cache")
      .def(py::init<LoaderSettings, uint32_t, uint32_t>(), py::arg("budgets"), py::arg("member"),
           py::arg("members"))
      .def_property_readonly("memory_left",
                             [](const CacheCore& core) { return core.cache()->left().memory; })
      .def_property_readonly("disks_left", &disks_left)
      .def("write_blob", &write_blob, py::arg("name"), py::arg("data"))
      .def("read_blob", &read_blob, py::arg("name"));
}

}  // namespace foreload::python
