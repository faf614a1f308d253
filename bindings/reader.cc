// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "foreload/loader/dataset.h"
#include "foreload/loader/loader.h"
#include "foreload/loader/report.h"
#include "foreload/loader/start_report.h"

#include "calls.h"

namespace foreload::python {

namespace {

// The bytes of one sample; holds the memory of its batch.
struct SampleBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const Batch> batch;
};

py::array_t<int64_t> indices_of(const Batch& batch) {
  py::array_t<int64_t> indices(static_cast<py::ssize_t>(batch.samples.size()));
  std::copy(batch.samples.begin(), batch.samples.end(), indices.mutable_data());
  return indices;
}

// A batch on its way to Python.
struct ReaderBatch {
  std::shared_ptr<const Batch> batch;
  std::vector<int64_t> labels;
};

class Reader {
 public:
  explicit Reader(std::unique_ptr<Loader> loader) : loader_(std::move(loader)) {}

  // The next batch, or nothing at the end of an epoch. Signals are seen while it waits.
  std::optional<ReaderBatch> next() {
    auto batch = compute([this](SignalWatch& watch) -> Result<std::optional<Batch>> {
      while (true) {
        auto result =
            loader_->next(std::chrono::steady_clock::now() + std::chrono::milliseconds(50));
        const bool waiting = !result && result.error().kind == ErrorKind::cancelled;
        if (!waiting || !watch.proceed()) return result;
      }
    });
    if (!batch) return std::nullopt;
    ReaderBatch result{std::make_shared<const Batch>(std::move(*batch)), {}};
    for (const uint64_t sample : result.batch->samples)
      result.labels.push_back(loader_->index().label(sample));
    return result;
  }

  Loader& loader() { return *loader_; }

 private:
  std::unique_ptr<Loader> loader_;
};

std::unique_ptr<Reader> open_reader(
    const std::filesystem::path& dataset, const std::optional<std::vector<std::string>>& extensions,
    const std::filesystem::path& index, bool revalidate, uint32_t rank, uint32_t ranks,
    const std::string& order, uint64_t seed, const std::string& pad, std::optional<uint64_t> epochs,
    uint64_t first_epoch, uint64_t start, uint64_t batch_size, bool drop_last, uint64_t memory,
    const std::vector<std::pair<std::filesystem::path, uint64_t>>& disks, uint64_t staging,
    bool skip_bad_samples, double deadline, const std::optional<std::filesystem::path>& profile) {
  LoaderSettings settings;
  settings.dataset = dataset;
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
  settings.memory = memory;
  for (const auto& [folder, bytes] : disks) settings.disks.push_back({folder, bytes});
  settings.staging = staging;
  settings.profile = profile;
  settings.skip_bad_samples = skip_bad_samples;
  settings.read_deadline = std::chrono::milliseconds(static_cast<int64_t>(deadline * 1000));
  return std::make_unique<Reader>(compute([&](SignalWatch& watch) {
    settings.listing_progress = watch.progress();
    return Loader::open(std::move(settings));
  }));
}

}  // namespace

void register_reader(py::module_& module) {
  py::class_<SampleBytes>(module, "SampleBytes", py::buffer_protocol())
      .def_buffer([](const SampleBytes& sample) {
        return py::buffer_info(const_cast<std::byte*>(sample.bytes.data()), 1,
                               py::format_descriptor<uint8_t>::format(), 1,
                               {static_cast<py::ssize_t>(sample.bytes.size())}, {1}, true);
      });
  py::class_<ReaderBatch>(module, "ReaderBatch")
      .def_property_readonly("epoch", [](const ReaderBatch& b) { return b.batch->epoch; })
      .def_property_readonly("indices", [](const ReaderBatch& b) { return indices_of(*b.batch); })
      .def_property_readonly("labels",
                             [](const ReaderBatch& b) {
                               return py::array_t<int64_t>(
                                   static_cast<py::ssize_t>(b.labels.size()), b.labels.data());
                             })
      .def_property_readonly("data",
                             [](const ReaderBatch& b) {
                               py::list views;
                               for (const auto& bytes : b.batch->bytes)
                                 views.append(py::memoryview(
                                     py::cast(SampleBytes{bytes, b.batch}).cast<py::buffer>()));
                               return views;
                             })
      .def("__len__", [](const ReaderBatch& b) { return b.batch->samples.size(); });
  py::class_<Reader>(module, "ReaderCore")
      .def("next", &Reader::next)
      .def("seek", [](Reader& reader, uint64_t epoch,
                      uint64_t start) { reader.loader().seek(epoch, start); })
      .def("batches_in", [](Reader& r, uint64_t epoch) { return r.loader().batches_in(epoch); })
      .def("stats_json", [](Reader& reader) { return to_json(reader.loader().stats()); })
      .def("start_json", [](Reader& reader) { return to_json(reader.loader().stats().start); })
      .def("epoch_json", [](Reader& reader) { return to_json(reader.loader().epoch_stats()); });
  module.def("open_reader", &open_reader, py::kw_only(), py::arg("dataset"), py::arg("extensions"),
             py::arg("index"), py::arg("revalidate"), py::arg("rank"), py::arg("ranks"),
             py::arg("order"), py::arg("seed"), py::arg("pad"), py::arg("epochs"),
             py::arg("first_epoch"), py::arg("start"), py::arg("batch_size"), py::arg("drop_last"),
             py::arg("memory"), py::arg("disks"), py::arg("staging"), py::arg("skip_bad_samples"),
             py::arg("deadline"), py::arg("profile"));
}

}  // namespace foreload::python
