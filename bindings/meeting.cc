// SPDX-License-Identifier: Apache-2.0
//
// How ranks find each other, for Python: what the environment says, and a meeting whose rendezvous
// may be two Python functions.
#include "foreload/loader/meeting.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <pybind11/stl.h>

#include "foreload/loader/loader.h"

#include "calls.h"

namespace foreload::python {
namespace {

// put(key, value) and get(key, seconds), which gives None when the time is over. What they raise
// becomes the reason of a failure. Called without the GIL.
class PythonRendezvous final : public Rendezvous {
 public:
  PythonRendezvous(py::object put, py::object get) : put_(std::move(put)), get_(std::move(get)) {}

  Result<void> put(const std::string& key, const std::string& value) override {
    py::gil_scoped_acquire acquire;
    try {
      put_(key, py::bytes(value));
      return {};
    } catch (const py::error_already_set& error) {
      return failed("put", key, error);
    }
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    py::gil_scoped_acquire acquire;
    try {
      const py::object value = get_(key, std::chrono::duration<double>(timeout).count());
      if (!value.is_none()) return std::string(py::bytes(value));
      return fail(ErrorKind::cancelled, key + " did not appear in time in the program's store");
    } catch (const py::error_already_set& error) {
      if (!error.matches(PyExc_KeyboardInterrupt)) return failed("get", key, error);
      // Seen again, and passed on, by whoever asks for signals while it waits.
      PyErr_SetInterrupt();
      return fail(ErrorKind::cancelled, "interrupted");
    }
  }

 private:
  static tl::unexpected<Error> failed(const char* action, const std::string& key,
                                      const py::error_already_set& error) {
    return fail(ErrorKind::unreadable, std::string("cannot ") + action + " " + key +
                                           " in the program's store: " + error.what());
  }
  const py::object put_;
  const py::object get_;
};

// Python objects may only be let go with the GIL.
std::shared_ptr<Rendezvous> make_python_rendezvous(py::object put, py::object get) {
  return {new PythonRendezvous(std::move(put), std::move(get)), [](Rendezvous* rendezvous) {
            py::gil_scoped_acquire acquire;
            delete rendezvous;
          }};
}

std::pair<std::shared_ptr<Meeting>, std::string> arrange(
    const LoaderSettings& of_loader, uint32_t local_rank, const std::string& said_by,
    const std::optional<std::pair<py::object, py::object>>& store, const std::string& ucx_package) {
  MeetingSettings settings;
  settings.ucx_package = ucx_package;
  settings.transport = of_loader.transport;
  settings.timeout = of_loader.join_timeout;
  if (store) settings.rendezvous = make_python_rendezvous(store->first, store->second);
  std::string warning;
  std::optional<Meeting> meeting = compute([&](SignalWatch&) {
    const JobRanks ranks{of_loader.rank, of_loader.ranks, local_rank, of_loader.ranks_per_node,
                         said_by};
    return Meeting::arrange(ranks, settings, warning);
  });
  if (!meeting) return {nullptr, warning};
  return {std::make_shared<Meeting>(std::move(*meeting)), warning};
}

}  // namespace

void register_meeting(py::module_& module) {
  py::class_<Meeting, std::shared_ptr<Meeting>>(module, "Meeting");
  module.def(
      "ranks_from_environment",
      [](const std::map<std::string, std::string>& environment) {
        const JobRanks found = take(ranks_from_environment([&](const char* name) {
          const auto entry = environment.find(name);
          return entry == environment.end() ? std::string() : entry->second;
        }));
        return std::tuple(found.rank, found.ranks, found.local_rank, found.local_ranks,
                          found.said_by);
      },
      py::arg("environment"));
  module.def("arrange_meeting", &arrange, py::arg("settings"), py::kw_only(), py::arg("local_rank"),
             py::arg("said_by"), py::arg("store"), py::arg("ucx_package"));
}

}  // namespace foreload::python
