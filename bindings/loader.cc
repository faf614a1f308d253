// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/loader.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "foreload/base/cpus.h"
#include "foreload/formats/format.h"
#include "foreload/loader/meeting.h"
#include "foreload/loader/report.h"
#include "foreload/loader/start_report.h"
#include "foreload/stores/shaped.h"

#include "calls.h"
#include "endings.h"
#include "pixels.h"
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
    std::vector<py::ssize_t> shape = shape_of(batch->form);
    shape.insert(shape.begin(), static_cast<py::ssize_t>(batch->samples.size()));
    return py::array(dtype_of(batch->form.type), shape, batch->decoded.data(), lease());
  }
  // The tensor of bytes that begins with the decoded samples; None where memory is no tensor's.
  py::object tensor() const {
    return tensors ? tensors->tensor_at(batch->decoded.data()) : py::none();
  }
  // One writable array for each sample, where sizes differ.
  py::list apart() const {
    py::list arrays;
    for (Transform::Sample& sample : batch->apart)
      arrays.append(py::array(dtype_of(sample.form.type), shape_of(sample.form),
                              sample.bytes.data(), lease()));
    return arrays;
  }
  // Read-only views of the bytes of each sample, where nothing was decoded.
  py::list data() const {
    py::list views;
    for (const auto& bytes : batch->bytes) {
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

// The source gives so many bytes per second (0: all it can) and takes so many seconds longer for
// each read: for benchmarks that want to see on a fast disk what slow storage would do.
void make_slow(double bandwidth, double latency, LoaderSettings& settings) {
  if (bandwidth == 0 && latency == 0) return;
  settings.wrap_source = [bandwidth, latency](auto make, auto answered) {
    return shape_source(std::move(make),
                        {.bytes_per_second = bandwidth,
                         .latency = std::chrono::microseconds(std::llround(latency * 1e6))},
                        std::move(answered));
  };
}

// A cache that loaders of this process share. A child made by fork has none of its threads: there
// it is left alone.
class CacheCore {
 public:
  CacheCore(uint64_t memory, const std::vector<std::pair<std::filesystem::path, uint64_t>>& disks,
            const std::map<std::filesystem::path, std::string>& why,
            std::pair<uint32_t, uint32_t> member)
      : process_(::getpid()) {
    CacheBudgets budgets{memory, {}, why_of(why, {}), member.first, member.second};
    for (const auto& [folder, bytes] : disks)
      budgets.disks.push_back({folder, bytes, why_of(why, folder)});
    cache_ = Cache::make(std::move(budgets));
  }
  ~CacheCore() {
    if (::getpid() != process_) {
      static_cast<void>(new std::shared_ptr<Cache>(std::move(cache_)));
      return;
    }
    py::gil_scoped_release release;
    cache_.reset();
  }
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  static std::string why_of(const std::map<std::filesystem::path, std::string>& why,
                            const std::filesystem::path& folder) {
    const auto found = why.find(folder);
    return found == why.end() ? std::string() : found->second;
  }
  const std::shared_ptr<Cache>& cache() const { return cache_; }
  uint64_t memory_left() const { return cache_->left().memory; }
  std::vector<uint64_t> disks_left() const {
    std::vector<uint64_t> left;
    for (const DiskBudget& disk : cache_->left().disks) left.push_back(disk.bytes);
    return left;
  }
  void write_blob(const std::string& name, const py::buffer& data) const {
    const py::buffer_info info = data.request();
    compute([&](SignalWatch&) -> Result<bool> {
      const auto sink = cache_->open_blob(name);
      FORELOAD_CHECK(sink->write({static_cast<const std::byte*>(info.ptr),
                                  static_cast<size_t>(info.size * info.itemsize)}));
      FORELOAD_CHECK(sink->commit());
      return true;
    });
  }
  std::optional<py::bytes> read_blob(const std::string& name) const {
    const auto blob = compute([&](SignalWatch&) { return cache_->read_blob(name); });
    if (!blob) return std::nullopt;
    return py::bytes(reinterpret_cast<const char*>(blob->data()), blob->size());
  }

 private:
  std::shared_ptr<Cache> cache_;
  const pid_t process_;
};

std::unique_ptr<LoaderCore> open_loader(
    const std::filesystem::path& dataset, const std::vector<std::string>& files,
    const std::vector<std::vector<std::tuple<uint64_t, uint64_t, std::optional<uint64_t>>>>& ranges,
    const std::optional<std::vector<std::string>>& extensions, const std::filesystem::path& index,
    bool revalidate, uint32_t rank, uint32_t ranks, const std::string& order, uint64_t seed,
    const std::string& pad, std::optional<uint64_t> epochs, uint64_t first_epoch, uint64_t start,
    uint64_t batch_size, bool drop_last, bool given_lists, uint64_t memory,
    const std::vector<std::pair<std::filesystem::path, uint64_t>>& disks,
    const std::map<std::filesystem::path, std::string>& budgets_why, const CacheCore* cache,
    std::optional<std::pair<uint32_t, uint32_t>> lane, uint64_t staging,
    const std::shared_ptr<Transform>& transform, unsigned threads, bool skip_bad_samples,
    double deadline, const std::optional<std::filesystem::path>& profile,
    const std::optional<py::function>& make_tensor, double source_bandwidth, double source_latency,
    const std::shared_ptr<Meeting>& meeting, uint64_t meeting_number, double join_timeout,
    double peer_timeout) {
  LoaderSettings settings;
  settings.dataset = dataset;
  settings.files = files;
  for (const auto& sample : ranges) {
    std::vector<FileRange>& parts = settings.ranges.emplace_back();
    for (const auto& [file, offset, length] : sample)
      parts.push_back({file, offset, length.value_or(FileRange::kToTheEnd)});
  }
  settings.extensions = extensions.value_or(image_extensions());
  settings.index = index;
  settings.revalidate = revalidate;
  settings.rank = rank;
  settings.ranks = ranks;
  settings.order = take(parse_order_kind(order));
  settings.seed = seed;
  settings.pad = take(parse_pad(pad));
  settings.epochs = epochs;
  settings.first_epoch = first_epoch;
  settings.start = start;
  settings.batching = {batch_size, drop_last};
  settings.given_lists = given_lists;
  if (cache != nullptr) settings.cache = cache->cache();
  settings.memory = memory;
  settings.memory_why = CacheCore::why_of(budgets_why, {});
  for (const auto& [folder, bytes] : disks)
    settings.disks.push_back({folder, bytes, CacheCore::why_of(budgets_why, folder)});
  if (lane) {  // of folders that others share
    settings.only_needed = true;
    settings.lane = lane->first;
    settings.lanes = lane->second;
  }
  settings.staging = staging;
  settings.transform = transform;
  settings.hands = threads;
  settings.skip_bad_samples = skip_bad_samples;
  settings.read_deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline * 1000));
  settings.peer_timeout = std::chrono::milliseconds(static_cast<int64_t>(peer_timeout * 1000));
  settings.profile = profile;
  std::shared_ptr<TensorMemory> tensors;
  if (make_tensor) {
    tensors = std::make_shared<TensorMemory>(*make_tensor);
    settings.decoded_memory = [tensors] { return TensorMemory::allocator(tensors); };
  }
  make_slow(source_bandwidth, source_latency, settings);
  auto loader = compute([&](SignalWatch& watch) {
    settings.listing_progress = watch.progress();
    if (meeting)
      settings.join = meeting->join(
          meeting_number, std::chrono::milliseconds(static_cast<int64_t>(join_timeout * 1000)),
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
  py::class_<CacheCore>(module, "Cache")
      .def(py::init<uint64_t, const std::vector<std::pair<std::filesystem::path, uint64_t>>&,
                    const std::map<std::filesystem::path, std::string>&,
                    std::pair<uint32_t, uint32_t>>(),
           py::arg("memory"), py::arg("disks"), py::arg("why"), py::arg("member"))
      .def_property_readonly("memory_left", &CacheCore::memory_left)
      .def_property_readonly("disks_left", &CacheCore::disks_left)
      .def("write_blob", &CacheCore::write_blob, py::arg("name"), py::arg("data"))
      .def("read_blob", &CacheCore::read_blob, py::arg("name"));
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
  module.def("open_loader", &open_loader, py::kw_only(), py::arg("dataset"), py::arg("files"),
             py::arg("ranges"), py::arg("extensions"), py::arg("index"), py::arg("revalidate"),
             py::arg("rank"), py::arg("ranks"), py::arg("order"), py::arg("seed"), py::arg("pad"),
             py::arg("epochs"), py::arg("first_epoch") = 0, py::arg("start") = 0,
             py::arg("batch_size"), py::arg("drop_last"), py::arg("given_lists") = false,
             py::arg("memory"), py::arg("disks"),
             py::arg("budgets_why") = std::map<std::filesystem::path, std::string>(),
             py::arg("cache") = nullptr, py::arg("lane") = std::nullopt, py::arg("staging"),
             py::arg("transform") = nullptr, py::arg("threads") = 0, py::arg("skip_bad_samples"),
             py::arg("deadline"), py::arg("profile"), py::arg("make_tensor") = std::nullopt,
             py::arg("source_bandwidth") = 0.0, py::arg("source_latency") = 0.0,
             py::arg("meeting") = nullptr, py::arg("meeting_number") = 0,
             py::arg("join_timeout") = 60.0, py::arg("peer_timeout") = 10.0);
}

}  // namespace foreload::python
