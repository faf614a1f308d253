// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "foreload/base/own_thread.h"
#include "foreload/decode/gpu/decoder.h"
#include "foreload/decode/parcel.h"
#include "foreload/decode/transform.h"

#include "calls.h"

namespace foreload::python {
namespace {

using SharedTransform = std::shared_ptr<Transform>;

uintptr_t address_of(const py::object& tensor) {
  return tensor.attr("data_ptr")().cast<uintptr_t>();
}

// The places of the samples in a tensor in host memory.
std::span<std::byte> places_in(const py::object& tensor, const Transform& transform) {
  const auto samples = tensor.attr("shape").attr("__getitem__")(0).cast<size_t>();
  return {reinterpret_cast<std::byte*>(address_of(tensor)), samples * transform.form().bytes()};
}

// A batch that a GPU works on. It keeps the tensors until the GPU is done with them.
class GpuJob {
 public:
  GpuJob(std::shared_ptr<gpu::Decoder> decoder, std::shared_ptr<gpu::Decoder::Job> job,
         py::object host, py::object device)
      : decoder_(std::move(decoder)),
        job_(std::move(job)),
        host_(std::move(host)),
        device_(std::move(device)) {}
  ~GpuJob() {
    py::gil_scoped_release release;
    decoder_->finish(*job_);
  }
  GpuJob(const GpuJob&) = delete;
  GpuJob& operator=(const GpuJob&) = delete;

  // Why the GPU cannot do it; nothing if it does.
  std::optional<std::string> hand_over(uintptr_t stream) {
    py::gil_scoped_release release;
    auto done = decoder_->hand_over(*job_, reinterpret_cast<void*>(stream));
    if (done) return std::nullopt;
    return done.error().message;
  }

 private:
  const std::shared_ptr<gpu::Decoder> decoder_;
  const std::shared_ptr<gpu::Decoder::Job> job_;
  const py::object host_;
  const py::object device_;
};

std::shared_ptr<gpu::Decoder> open_decoder(int device, const std::string& nvjpeg,
                                           const std::string& nvrtc,
                                           std::shared_ptr<PackingRule> rule) {
  return compute([&](SignalWatch&) -> Result<std::shared_ptr<gpu::Decoder>> {
    FORELOAD_TRY(auto decoder, gpu::Decoder::open({device, nvjpeg, nvrtc}, std::move(rule)));
    return std::shared_ptr<gpu::Decoder>(std::move(decoder));
  });
}

std::unique_ptr<GpuJob> submit(const std::shared_ptr<gpu::Decoder>& decoder, py::object host,
                               py::object device, const Transform& transform, uintptr_t copies) {
  const gpu::PackedBatch batch{places_in(host, transform), address_of(device), transform.form()};
  auto job = take(decoder->submit(batch, reinterpret_cast<void*>(copies)));
  return std::make_unique<GpuJob>(decoder, std::move(job), std::move(host), std::move(device));
}

// Decodes all parcels of a batch in host memory; what is wrong with each that cannot be decoded, by
// place.
std::vector<std::pair<size_t, std::string>> unpack(const py::object& host,
                                                   const Transform& transform,
                                                   const PackingRule& rule) {
  const auto places = places_in(host, transform);
  const size_t size = transform.form().bytes();
  const auto plain = transform.packing(nullptr);
  std::vector<std::pair<size_t, std::string>> bad;
  py::gil_scoped_release release;
  Scratch scratch;
  std::vector<std::byte> file;
  for (size_t at = 0; at < places.size(); at += size) {
    const auto place = places.subspan(at, size);
    const auto parcel = rule.find(place);
    if (!parcel) continue;
    file.assign(parcel->file.begin(), parcel->file.end());
    const SampleKey key = parcel->header.key;
    if (auto done = plain->run(file, key, place, scratch); !done)
      bad.emplace_back(at / size, done.error().message);
  }
  return bad;
}

std::vector<std::span<const std::byte>> spans_of(const std::vector<std::string_view>& files) {
  std::vector<std::span<const std::byte>> spans;
  for (const std::string_view file : files)
    spans.push_back(std::as_bytes(std::span(file.data(), file.size())));
  return spans;
}

// Fills a batch in host memory with these files, over and over; how many became parcels.
size_t pack(const std::vector<std::string_view>& files, const Transform& transform,
            const PackingRule& rule, const py::object& host) {
  const auto places = places_in(host, transform);
  const auto spans = spans_of(files);
  const size_t size = transform.form().bytes();
  size_t parcels = 0;
  py::gil_scoped_release release;
  Scratch scratch;
  for (size_t i = 0; i * size < places.size() && !spans.empty(); ++i) {
    const auto place = places.subspan(i * size, size);
    if (!transform.run(spans[i % spans.size()], {0, 0, i}, place, scratch)) continue;
    parcels += rule.find(place).has_value();
  }
  return parcels;
}

// Images per second that so many threads decode.
double decode_rate(const std::vector<std::string_view>& files, const Transform& transform,
                   unsigned threads, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto spans = spans_of(files);
  const auto plain = transform.packing(nullptr);
  std::atomic<uint64_t> next = 0;
  py::gil_scoped_release release;
  const auto begin = Clock::now();
  const auto end =
      begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::thread> workers;
  for (unsigned i = 0; i < threads && !spans.empty(); ++i) {
    workers.push_back(start_own_thread("foreload-rate", [&] {
      Scratch scratch;
      std::vector<std::byte> into(plain->form().bytes());
      while (Clock::now() < end) {
        const uint64_t number = next++;
        static_cast<void>(plain->run(spans[number % spans.size()], {0, 0, number}, into, scratch));
      }
    }));
  }
  for (std::thread& worker : workers) worker.join();
  return static_cast<double>(next) / std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

void register_gpu(py::module_& module) {
  py::class_<PackingRule, std::shared_ptr<PackingRule>>(module, "PackingRule")
      .def(py::init([](int64_t share) {
             return std::make_shared<PackingRule>(
                 static_cast<uint32_t>(within("share", share, 0, PackingRule::kAll + 1)));
           }),
           py::arg("share"))
      .def("chooses", &PackingRule::chooses, py::arg("position"))
      .def_property("share", &PackingRule::share, [](PackingRule& rule, int64_t share) {
        rule.set_share(static_cast<uint32_t>(within("share", share, 0, PackingRule::kAll + 1)));
      });
  module.def(
      "with_packing",
      [](const Transform& transform, std::shared_ptr<PackingRule> rule) {
        return std::const_pointer_cast<Transform>(transform.packing(std::move(rule)));
      },
      py::arg("transform"), py::arg("rule"));
  module.def("pack", &pack, py::arg("files"), py::arg("transform"), py::arg("rule"),
             py::arg("host"));
  module.def("unpack", &unpack, py::arg("host"), py::arg("transform"), py::arg("rule"));
  module.def("decode_rate", &decode_rate, py::arg("files"), py::arg("transform"),
             py::arg("threads"), py::arg("seconds"));
  py::class_<GpuJob>(module, "GpuJob").def("hand_over", &GpuJob::hand_over, py::arg("stream"));
  py::class_<gpu::Decoder, std::shared_ptr<gpu::Decoder>>(module, "GpuDecoder")
      .def("submit", &submit, py::arg("host"), py::arg("device"), py::arg("transform"),
           py::arg("copies"))
      .def_property_readonly("in_hardware", &gpu::Decoder::in_hardware)
      .def_property_readonly("images", [](const gpu::Decoder& d) { return d.totals().images; })
      .def_property_readonly("seconds", [](const gpu::Decoder& d) { return d.totals().seconds; })
      .def_property_readonly("device_bytes",
                             [](const gpu::Decoder& d) { return d.totals().device_bytes; });
  module.def("open_gpu_decoder", &open_decoder, py::arg("device"), py::arg("nvjpeg"),
             py::arg("nvrtc"), py::arg("rule"));
}

}  // namespace foreload::python
