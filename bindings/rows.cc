// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "foreload/base/cpus.h"
#include "foreload/rows/gatherer.h"
#include "foreload/staging/staging.h"

#include "calls.h"

namespace foreload::python {

namespace {

using Integers = py::array_t<int64_t, py::array::c_style>;

// Copying is limited by memory, which a few threads use up.
constexpr unsigned kMostThreads = 4;

// The threads, and the Python object that has the memory they read.
struct RowThreads {
  std::unique_ptr<RowGatherer> gatherer;
  py::object memory;
  pid_t process = ::getpid();

  // A child made by fork has none of these threads: there they can neither be used nor ended.
  bool here() const { return ::getpid() == process; }
  ~RowThreads() {
    if (!here()) {
      static_cast<void>(gatherer.release());
      return;
    }
    py::gil_scoped_release release;
    gatherer.reset();
  }
};

// What gathers until it is closed, by any thread. Batches on their way keep the threads, because
// these write into their memory, but nobody gets such a batch any more.
class Gatherer {
 public:
  Gatherer(std::vector<RowColumn> columns, unsigned threads, py::object memory)
      : threads_(new RowThreads{std::make_unique<RowGatherer>(std::move(columns), threads),
                                std::move(memory)}) {}

  void close() {
    closed_ = true;
    threads_.reset();
  }
  bool closed() const { return closed_; }
  // For the length of a call or of a job. REQUIRES: the GIL is held, also when it is let go of.
  std::shared_ptr<RowThreads> threads() const {
    if (!threads_ || !threads_->here()) throw py::value_error(kClosed);
    return threads_;
  }

  static constexpr const char* kClosed = "rows cannot be gathered after close() or fork()";

 private:
  std::shared_ptr<RowThreads> threads_;  // guarded by the GIL
  std::atomic<bool> closed_{false};
};

// A batch that is being gathered, with the Python object that has its memory.
class GatheredRows {
 public:
  GatheredRows(std::shared_ptr<Gatherer> gatherer, std::shared_ptr<RowThreads> threads,
               std::shared_ptr<RowGatherer::Job> job, py::object batch)
      : gatherer_(std::move(gatherer)),
        threads_(std::move(threads)),
        job_(std::move(job)),
        batch_(std::move(batch)) {}
  ~GatheredRows() { drop(); }
  GatheredRows(const GatheredRows&) = delete;
  GatheredRows& operator=(const GatheredRows&) = delete;

  void drop() {
    if (RowGatherer::done(*job_) || !threads_->here()) return;
    py::gil_scoped_release release;
    threads_->gatherer->drop(*job_);
  }

  // The batch, or TimeoutError if `seconds` pass before. Signals and close() are seen while it
  // waits.
  py::object take(std::optional<double> seconds) {
    using Clock = RowGatherer::Clock;
    if (RowGatherer::done(*job_)) return batch_;
    if (gatherer_->closed() || !threads_->here()) throw py::value_error(Gatherer::kClosed);
    std::optional<Clock::time_point> deadline;
    if (seconds)
      deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(*seconds));
    const bool ready = compute([&](SignalWatch& watch) -> Result<bool> {
      while (true) {
        auto until = Clock::now() + std::chrono::milliseconds(50);
        if (deadline) until = std::min(until, *deadline);
        if (threads_->gatherer->wait(*job_, until)) return true;
        if (deadline && Clock::now() >= *deadline) return false;
        if (!watch.proceed()) return false;
        if (gatherer_->closed()) return fail(ErrorKind::invalid, Gatherer::kClosed);
      }
    });
    if (ready) return batch_;
    PyErr_SetString(PyExc_TimeoutError, "the batch is not ready yet");
    throw py::error_already_set();
  }

 private:
  const std::shared_ptr<Gatherer> gatherer_;
  const std::shared_ptr<RowThreads> threads_;
  const std::shared_ptr<RowGatherer::Job> job_;
  const py::object batch_;
};

// Memory of batches that is used again when nobody has the batch any more: fresh pages would cost
// as much as the rows that are copied there.
class BatchMemory {
 public:
  explicit BatchMemory(uint64_t budget) : staging_(Staging::create(budget)) {}

  py::array empty(const py::dtype& dtype, const std::vector<py::ssize_t>& shape) {
    auto bytes = static_cast<uint64_t>(dtype.itemsize());
    for (const py::ssize_t count : shape) bytes *= static_cast<uint64_t>(count);
    auto slot = std::make_unique<std::shared_ptr<Slot>>(
        foreload::python::take(staging_->take(std::span<const uint64_t>(&bytes, 1))));
    void* const memory = (*slot)->range(0).data();
    const py::capsule lease(slot.release(),
                            [](void* held) { delete static_cast<std::shared_ptr<Slot>*>(held); });
    return py::array(dtype, shape, memory, lease);
  }

 private:
  std::shared_ptr<Staging> staging_;
};

RowColumn column_of(const Integers& stretches, uint64_t rows, uint64_t item_bytes,
                    const std::vector<std::pair<uint64_t, int64_t>>& dimensions) {
  if (stretches.ndim() != 2 || stretches.shape(1) != 3)
    throw py::value_error("stretches are rows of (first row, address, stride)");
  const auto table = stretches.unchecked<2>();
  std::vector<RowStretch> each(static_cast<size_t>(table.shape(0)));
  for (py::ssize_t i = 0; i < table.shape(0); ++i)
    each[static_cast<size_t>(i)] = {static_cast<uint64_t>(table(i, 0)),
                                    reinterpret_cast<const std::byte*>(table(i, 1)), table(i, 2)};
  RowLayout layout{item_bytes, {}};
  for (const auto& [count, stride] : dimensions) layout.dimensions.push_back({count, stride});
  return take(RowColumn::of(std::move(each), rows, layout));
}

}  // namespace

void register_rows(py::module_& module) {
  py::class_<RowColumn>(module, "RowColumn", "Rows of equal size, somewhere in memory.")
      .def(py::init(&column_of), py::arg("stretches").noconvert(), py::arg("rows"),
           py::arg("item_bytes"), py::arg("dimensions"))
      .def("__len__", &RowColumn::rows)
      .def_property_readonly("row_bytes", &RowColumn::row_bytes);

  py::class_<BatchMemory>(module, "BatchMemory", "Memory of batches, used again and again.")
      .def(py::init<uint64_t>(), py::arg("budget"))
      .def("empty", &BatchMemory::empty, py::arg("dtype"), py::arg("shape"));

  py::class_<GatheredRows>(module, "GatheredRows", "A batch whose rows are being gathered.")
      .def("take", &GatheredRows::take, py::arg("seconds") = py::none())
      .def("drop", &GatheredRows::drop);

  py::class_<Gatherer, std::shared_ptr<Gatherer>>(module, "RowGatherer",
                                                  "Threads that gather rows into batches.")
      .def(py::init([](const std::vector<RowColumn>& columns, py::object memory,
                       std::optional<unsigned> threads) {
             const unsigned usual = std::min(kMostThreads, available_cpus());
             return std::make_shared<Gatherer>(columns, std::max(1U, threads.value_or(usual)),
                                               std::move(memory));
           }),
           py::arg("columns"), py::arg("memory"), py::arg("threads") = py::none())
      .def(
          "submit",
          [](const std::shared_ptr<Gatherer>& gatherer, const Integers& rows,
             const std::vector<uintptr_t>& to, py::object batch) {
            std::vector<std::byte*> places(to.size());
            std::transform(to.begin(), to.end(), places.begin(),
                           [](uintptr_t place) { return reinterpret_cast<std::byte*>(place); });
            const std::shared_ptr<RowThreads> threads = gatherer->threads();
            std::vector<int64_t> numbers(rows.data(), rows.data() + rows.size());
            auto job = [&] {
              py::gil_scoped_release release;
              return threads->gatherer->submit(std::move(numbers), std::move(places));
            }();
            return std::make_unique<GatheredRows>(gatherer, threads, take(std::move(job)),
                                                  std::move(batch));
          },
          py::arg("rows").noconvert(), py::arg("to"), py::arg("batch"))
      .def("times",
           [](const Gatherer& gatherer) {
             const GatherTimes times = gatherer.threads()->gatherer->times();
             return std::pair(times.seconds, times.cpu_seconds);
           })
      .def("close", &Gatherer::close);
}

}  // namespace foreload::python
