// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/loader.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "foreload/base/cpus.h"
#include "foreload/loader/meeting.h"
#include "foreload/loader/report.h"
#include "foreload/loader/start_report.h"

#include "cache.h"
#include "calls.h"
#include "endings.h"
#include "pixels.h"
#include "settings.h"
#include "tensor_memory.h"

namespace foreload::python {

namespace {

using Integers = py::array_t<int64_t, py::array::c_style>;

// A batch on its way to Python. Arrays over its memory keep it.
struct LoaderBatch {
  std::shared_ptr<Batch> batch;
  std::vector<int64_t> labels;
  std::shared_ptr<TensorMemory> tensors;  // where its memory lies; null: not in tensors

  py::capsule lease() const {
    return py::capsule(new std::shared_ptr<Batch>(batch),
                       [](void* held) { delete static_cast<std::shared_ptr<Batch>*>(held); });
  }
  // All samples in one writable array; None where they are apart or bytes.
  py::object pixels() const {
    if (batch->decoded.empty()) return py::none();
    return array_of(batch->form, batch->decoded);
  }
  // The tensor of bytes that begins with the decoded samples; None where memory is no tensor's.
  py::object tensor() const {
    return tensors ? tensors->tensor_at(batch->decoded.data()) : py::none();
  }
  // One writable array for each sample, where sizes differ.
  py::list apart() const { return arrays_of(batch->apart); }
  // Read-only views of the bytes of each sample, where nothing was decoded.
  py::list data() const { return views_of(batch->bytes); }
  // By name, what the three above are of a whole sample: one array, a list of arrays, or views.
  py::dict parts() const {
    py::dict found;
    for (BatchPart& part : batch->parts) {
      py::object value = views_of(part.bytes);
      if (!part.decoded.empty()) value = array_of(part.form, part.decoded);
      if (!part.apart.empty()) value = arrays_of(part.apart);
      found[py::str(part.name)] = std::move(value);
    }
    return found;
  }

 private:
  py::array array_of(const OutputForm& form, std::span<std::byte> decoded) const {
    std::vector<py::ssize_t> shape = shape_of(form);
    shape.insert(shape.begin(), static_cast<py::ssize_t>(batch->samples.size()));
    return py::array(dtype_of(form.type), shape, decoded.data(), lease());
  }
  py::list arrays_of(std::vector<Transform::Sample>& samples) const {
    py::list arrays;
    for (Transform::Sample& sample : samples)
      arrays.append(py::array(dtype_of(sample.form.type), shape_of(sample.form),
                              sample.bytes.data(), lease()));
    return arrays;
  }
  py::list views_of(const std::vector<std::span<const std::byte>>& all) const {
    py::list views;
    for (const auto& bytes : all) {
      py::array view(py::dtype("uint8"), {static_cast<py::ssize_t>(bytes.size())}, {1},
                     bytes.data(), lease());
      py::detail::array_proxy(view.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
      views.append(py::memoryview(view));
    }
    return views;
  }
};

Endings& endings() {
  static Endings all;
  return all;
}

// Ends a loader for whoever lets go of it last. A child made by fork has none of its threads: there
// it cannot be ended, so it is left alone. REQUIRES: the GIL is held.
struct EndLoader {
  pid_t process;

  void operator()(Loader* loader) const {
    std::unique_ptr<Loader> owned(loader);
    if (::getpid() != process) {
      static_cast<void>(owned.release());
      return;
    }
    py::gil_scoped_release release;
    if (BorrowedThread::inside())
      endings().end(std::move(owned));
    else
      owned.reset();
  }
};

std::vector<int64_t> labels_of(const DatasetIndex& index, const std::vector<uint64_t>& samples) {
  std::vector<int64_t> labels;
  labels.reserve(samples.size());
  for (const uint64_t sample : samples) labels.push_back(index.label(sample));
  return labels;
}

std::vector<uint64_t> vector_of(const Integers& array) {
  return {array.data(), array.data() + array.size()};
}

// Samples that somebody fetches.
struct FetchTicket {
  std::shared_ptr<Ticket> ticket;
  std::shared_ptr<const DatasetIndex> index;
  std::shared_ptr<TensorMemory> tensors;

  // The samples, and by place why some cannot be had. Signals are seen while it waits.
  std::pair<LoaderBatch, std::map<uint32_t, std::string>> take() const {
    const Fetched fetched = compute([this](SignalWatch& watch) -> Result<Fetched> {
      while (!ticket->wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(100)))
        if (!watch.proceed()) return fail(ErrorKind::cancelled, "interrupted");
      if (!ticket->answer()) return fail(ErrorKind::invalid, ticket->answer().error().message);
      return *ticket->answer();
    });
    std::map<uint32_t, std::string> errors;
    for (const auto& [place, error] : fetched.errors) errors[place] = error.message;
    return {
        {std::make_shared<Batch>(fetched.batch), labels_of(*index, fetched.batch.samples), tensors},
        std::move(errors)};
  }
};

// The loader of one process. Any thread may close it: a call that is going on in another one keeps
// what it uses until it is over, and next() ends soon.
class LoaderCore {
 public:
  LoaderCore(std::unique_ptr<Loader> loader, std::shared_ptr<TensorMemory> tensors)
      : loader_(loader.release(), EndLoader{::getpid()}), tensors_(std::move(tensors)) {}

  void close() {
    closed_ = true;
    loader_.reset();
  }

  // The next batch, nothing at the end of an epoch, TimeoutError if `seconds` pass before. Signals
  // and close() are seen while it waits.
  std::optional<LoaderBatch> next(std::optional<double> seconds) {
    using Clock = std::chrono::steady_clock;
    const std::shared_ptr<Loader> from = loader();
    std::optional<Clock::time_point> deadline;
    if (seconds)
      deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                    std::chrono::duration<double>(*seconds));
    bool late = false;
    auto batch = compute([&](SignalWatch& watch) -> Result<std::optional<Batch>> {
      while (true) {
        auto until = Clock::now() + std::chrono::milliseconds(50);
        if (deadline) until = std::min(until, *deadline);
        auto result = from->next(until);
        if (result || result.error().kind != ErrorKind::cancelled) return result;
        late = deadline && Clock::now() >= *deadline;
        if (late) return std::nullopt;
        if (!watch.proceed()) return result;
        if (closed_) return fail(ErrorKind::invalid, kClosed);
      }
    });
    if (late) {
      PyErr_SetString(PyExc_TimeoutError, "the batch is not ready yet");
      throw py::error_already_set();
    }
    if (!batch) return std::nullopt;
    std::vector<int64_t> labels = labels_of(from->index(), batch->samples);
    return LoaderBatch{std::make_shared<Batch>(std::move(*batch)), std::move(labels), tensors_};
  }

  // Not with the GIL: see without_gil().
  FetchTicket fetch(const Integers& samples, bool as_bytes) const {
    const std::shared_ptr<Loader> from = loader();
    auto ticket = [&, list = vector_of(samples)]() mutable {
      py::gil_scoped_release release;
      return from->fetch(std::move(list), as_bytes);
    }();
    return {python::take(std::move(ticket)), from->shared_index(), tensors_};
  }

  void give_list(const Integers& samples, const Integers& batch_ends) {
    take(loader()->give_list(vector_of(samples), vector_of(batch_ends)));
  }

  // For the length of a call. REQUIRES: the GIL is held, also when it is let go of.
  std::shared_ptr<Loader> loader() const {
    if (!loader_) throw py::value_error(kClosed);
    return loader_;
  }

 private:
  static constexpr const char* kClosed = "the loader is closed: make a new one";

  std::shared_ptr<Loader> loader_;  // guarded by the GIL
  std::atomic<bool> closed_{false};
  const std::shared_ptr<TensorMemory> tensors_;  // null: memory comes from the system
};

// A method that asks the loader without the GIL: it waits for the engine's lock, and the engine may
// hold that and want the GIL, for memory of torch's.
template <class... Arguments, class Ask>
auto without_gil(Ask ask) {
  return [ask](const LoaderCore& core, Arguments... arguments) {
    const std::shared_ptr<Loader> loader = core.loader();
    py::gil_scoped_release release;
    return ask(*loader, arguments...);
  };
}

// Ranks that do not come in time are an OSError: only Ctrl-C is a KeyboardInterrupt, and it is
// raised before anybody sees what else failed.
Result<std::unique_ptr<Loader>> in_time(Result<std::unique_ptr<Loader>> opened) {
  if (!opened && opened.error().kind == ErrorKind::cancelled)
    return fail(ErrorKind::unreadable, opened.error().message);
  return opened;
}

// Name, transform (None: the bytes are wanted) and number of the picture that it is a mask of.
using GivenPart = std::tuple<std::string, std::shared_ptr<Transform>, std::optional<size_t>>;

// `more` are settings, too, for benchmarks that replace this function.
std::unique_ptr<LoaderCore> open_loader(LoaderSettings settings,
                                        const std::shared_ptr<Transform>& transform,
                                        const std::vector<GivenPart>& parts,
                                        const std::optional<py::function>& make_tensor,
                                        const CacheCore* cache,
                                        const std::shared_ptr<Meeting>& meeting,
                                        uint64_t meeting_number, const py::kwargs& more) {
  fill(settings, more);
  if (cache != nullptr) settings.cache = cache->cache();
  settings.transform = std::shared_ptr<const Transform>(transform);
  if (!parts.empty()) {
    std::vector<SampleTransform::Part> named;
    for (const auto& [name, of_part, mask_of] : parts) named.push_back({name, of_part, mask_of});
    settings.transform = take(SampleTransform::make(std::move(named)));
  }
  std::shared_ptr<TensorMemory> tensors;
  if (make_tensor) {
    tensors = std::make_shared<TensorMemory>(*make_tensor);
    settings.decoded_memory = [tensors] { return TensorMemory::allocator(tensors); };
  }
  auto loader = compute([&](SignalWatch& watch) {
    settings.listing_progress = watch.progress();
    if (meeting)
      settings.join = meeting->join(meeting_number, settings.join_timeout,
                                    [&watch] { return watch.proceed(); });
    return in_time(Loader::open(std::move(settings)));
  });
  return std::make_unique<LoaderCore>(std::move(loader), std::move(tensors));
}

void register_batch(py::module_& module) {
  py::class_<LoaderBatch>(module, "LoaderBatch")
      .def_property_readonly("epoch", [](const LoaderBatch& b) { return b.batch->epoch; })
      .def_property_readonly("first", [](const LoaderBatch& b) { return b.batch->first; })
      .def_property_readonly("last", [](const LoaderBatch& b) { return b.batch->last_of_epoch; })
      .def_property_readonly("indices",
                             [](const LoaderBatch& b) {
                               Integers indices(static_cast<py::ssize_t>(b.batch->samples.size()));
                               std::copy(b.batch->samples.begin(), b.batch->samples.end(),
                                         indices.mutable_data());
                               return indices;
                             })
      .def_property_readonly("labels",
                             [](const LoaderBatch& b) {
                               return Integers(static_cast<py::ssize_t>(b.labels.size()),
                                               b.labels.data());
                             })
      .def_property_readonly("pixels", &LoaderBatch::pixels)
      .def_property_readonly("tensor", &LoaderBatch::tensor)
      .def_property_readonly("apart", &LoaderBatch::apart)
      .def_property_readonly("data", &LoaderBatch::data)
      .def_property_readonly("parts", &LoaderBatch::parts)
      .def("__len__", [](const LoaderBatch& b) { return b.batch->samples.size(); });
}

}  // namespace

void register_loader(py::module_& module) {
  module.def("available_cpus", &available_cpus);
  module.def("wait_for_endings", [] {
    py::gil_scoped_release release;
    endings().wait();
  });
  register_batch(module);
  py::class_<FetchTicket>(module, "FetchTicket")
      .def("take", &FetchTicket::take)
      .def("cancel", [](FetchTicket& fetch) { fetch.ticket->cancel(); });
  py::class_<LoaderCore>(module, "LoaderCore")
      .def("next", &LoaderCore::next, py::arg("seconds") = std::nullopt)
      .def("seek",
           without_gil<uint64_t, uint64_t>(
               [](Loader& loader, uint64_t epoch, uint64_t start) { loader.seek(epoch, start); }))
      .def("give_list", &LoaderCore::give_list, py::arg("samples"), py::arg("batch_ends"))
      .def("fetch", &LoaderCore::fetch, py::arg("samples"), py::arg("as_bytes") = false)
      .def("batches_in",
           [](LoaderCore& core, uint64_t epoch) { return core.loader()->batches_in(epoch); })
      .def("close", &LoaderCore::close)
      .def_property_readonly("samples",
                             [](LoaderCore& core) { return core.loader()->index().samples(); })
      .def_property_readonly("bytes",
                             [](LoaderCore& core) { return core.loader()->plan().sizes().total(); })
      .def_property_readonly(
          "fingerprint",
          [](LoaderCore& core) { return core.loader()->index().fingerprint().hex(); })
      .def_property_readonly("classes",
                             [](LoaderCore& core) {
                               const auto index = core.loader()->shared_index();
                               py::list names;
                               for (size_t i = 0; i < index->classes(); ++i)
                                 names.append(py::bytes(std::string(index->class_name(i))));
                               return names;
                             })
      .def_property_readonly(
          "root",
          [](LoaderCore& core) { return py::bytes(core.loader()->stats().start.root.string()); })
      .def_property_readonly(
          "index",
          [](LoaderCore& core) {  // nobody can change it from Python
            return std::const_pointer_cast<DatasetIndex>(core.loader()->shared_index());
          })
      .def("part_sizes",
           [](LoaderCore& core, int64_t sample) {
             const auto index = core.loader()->shared_index();
             const uint64_t number = within("sample", sample, 0, index->samples());
             std::vector<uint64_t> sizes(index->part_count(number));
             for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = index->part(number, i).length;
             return sizes;
           })
      .def("name_of",
           [](LoaderCore& core, int64_t sample) {
             const auto index = core.loader()->shared_index();
             const uint64_t number = within("sample", sample, 0, index->samples());
             return py::bytes(std::string(index->sample_name(number)));
           })
      .def("stats_json", without_gil<>([](Loader& loader) { return to_json(loader.stats()); }))
      .def("start_json",
           without_gil<>([](Loader& loader) { return to_json(loader.stats().start); }))
      .def("epoch_json", [](LoaderCore& core) { return to_json(core.loader()->epoch_stats()); })
      .def("epoch_figures_json",
           [](LoaderCore& core) { return to_json(core.loader()->epoch_stats().figures); })
      .def("run_figures_json",
           without_gil<>([](Loader& loader) { return to_json(loader.stats().figures); }));
  module.def("open_loader", &open_loader, py::arg("settings"), py::kw_only(),
             py::arg("transform") = nullptr, py::arg("parts") = std::vector<GivenPart>(),
             py::arg("make_tensor") = std::nullopt, py::arg("cache") = nullptr,
             py::arg("meeting") = nullptr, py::arg("meeting_number") = 0);
}

}  // namespace foreload::python
