// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/transform.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "foreload/decode/steps.h"

#include "calls.h"
#include "endings.h"
#include "pixels.h"

namespace foreload::python {

py::dtype dtype_of(PixelType type) {
  return py::dtype(std::string(name_of(type == PixelType::bfloat16 ? PixelType::uint16 : type)));
}

std::vector<py::ssize_t> shape_of(const OutputForm& form) {
  const auto height = static_cast<py::ssize_t>(form.size.height);
  const auto width = static_cast<py::ssize_t>(form.size.width);
  const auto channels = static_cast<py::ssize_t>(form.channels);
  const bool planar = form.layout == Layout::chw;
  std::vector<py::ssize_t> shape =
      planar ? std::vector{channels, height, width} : std::vector{height, width, channels};
  if (form.pictures > 1) shape.insert(shape.begin(), static_cast<py::ssize_t>(form.pictures));
  return shape;
}

namespace {

using Pixels = py::array_t<uint8_t, py::array::c_style | py::array::forcecast>;

void copy_pixels(const Pixels& array, uint32_t channels, PixelBuffer& out) {
  const bool flat = array.ndim() == 2 && channels == 1;
  if (!flat && (array.ndim() != 3 || array.shape(2) != channels))
    throw py::value_error(fmt::format("the decoder gave no image of {} channels", channels));
  const ImageSize size{static_cast<uint32_t>(array.shape(1)),
                       static_cast<uint32_t>(array.shape(0))};
  if (size.width == 0 || size.height == 0) throw py::value_error("the image has no pixels");
  out.reset(size, channels);
  const size_t row = size_t{size.width} * channels;
  for (uint32_t y = 0; y < size.height; ++y) std::memcpy(out.row(y), array.data() + y * row, row);
}

// What Python does for formats that C++ does not know. It is called by threads without the GIL, and
// may be forgotten by one.
OtherDecoder other_decoder(py::function decode) {
  auto held = std::shared_ptr<py::function>(new py::function(std::move(decode)),
                                            [](py::function* function) {
                                              py::gil_scoped_acquire acquire;
                                              delete function;
                                            });
  return [held](std::span<const std::byte> file, const DecodeOptions& options,
                PixelBuffer& out) -> Result<void> {
    py::gil_scoped_acquire acquire;
    const BorrowedThread borrowed;
    const uint32_t channels = channels_of(options.mode);
    const char* const mode = channels == 4 ? "RGBA" : channels == 3 ? "RGB" : "L";
    try {
      const py::bytes bytes(reinterpret_cast<const char*>(file.data()), file.size());
      const py::object decoded = (*held)(bytes, mode, options.exif_orientation);
      copy_pixels(py::cast<Pixels>(decoded), channels, out);
    } catch (const py::error_already_set& error) {
      return fail(ErrorKind::invalid, std::string(py::str(error.value())));
    } catch (const py::builtin_exception& error) {
      return fail(ErrorKind::invalid, error.what());
    }
    return {};
  };
}

// pybind11 knows no pointers to const; nothing of a Transform can be changed anyway.
using CompiledTransform = std::shared_ptr<Transform>;

CompiledTransform compile(const std::string& json, std::optional<py::function> other,
                          const std::string& other_name) {
  auto transform = take(Transform::compile(take(steps_from_json(json))));
  if (other)
    transform = transform->with_other_formats(other_decoder(std::move(*other)), other_name);
  return std::const_pointer_cast<Transform>(transform);
}

CompiledTransform for_masks(const Transform& transform, uint8_t fill, const std::string& dtype) {
  for (const PixelType type : {PixelType::uint8, PixelType::uint16, PixelType::int16,
                               PixelType::int32, PixelType::float32, PixelType::float64}) {
    if (name_of(type) == dtype)
      return std::const_pointer_cast<Transform>(take(transform.for_masks(fill, type)));
  }
  throw py::value_error(fmt::format(
      "dtype {} is not available: use uint8, uint16, int16, int32, float32 or float64", dtype));
}

Scratch warm_scratch() {
  Scratch scratch;
  warm_up(scratch);
  return scratch;
}

using Sides = std::pair<uint32_t, uint32_t>;  // width and height

// One sample in memory of its own, and the size of the image in the file.
std::pair<py::array, Sides> run_sized(const Transform& transform, const py::buffer& data,
                                      uint64_t seed, uint64_t epoch, uint64_t position,
                                      std::optional<Sides> picture) {
  const py::buffer_info info = data.request();
  const std::span file(static_cast<const std::byte*>(info.ptr),
                       static_cast<size_t>(info.size * info.itemsize));
  // Kept, as each thread of a loader keeps its own. Python changes the environment under its lock.
  thread_local Scratch scratch = warm_scratch();
  auto sample = std::make_unique<Transform::Sample>(compute([&](SignalWatch&) {
    std::optional<ImageSize> size;
    if (picture) size = ImageSize{picture->first, picture->second};
    return transform.run(file, SampleKey{seed, epoch, position}, scratch, size);
  }));
  std::byte* bytes = sample->bytes.data();
  const OutputForm form = sample->form;
  const Sides sides{sample->file.width, sample->file.height};
  const py::capsule keeper(sample.release(),
                           [](void* held) { delete static_cast<Transform::Sample*>(held); });
  return {py::array(dtype_of(form.type), shape_of(form), bytes, keeper), sides};
}

py::array run(const Transform& transform, const py::buffer& data, uint64_t seed, uint64_t epoch,
              uint64_t position) {
  return run_sized(transform, data, seed, epoch, position, std::nullopt).first;
}

}  // namespace

void register_transform(py::module_& module) {
  py::class_<Transform, CompiledTransform>(module, "CompiledTransform")
      .def_property_readonly("random", &Transform::random)
      .def_property_readonly("fixed", [](const Transform& t) { return t.form().fixed(); })
      .def_property_readonly("dtype", [](const Transform& t) { return name_of(t.form().type); })
      .def_property_readonly(
          "shape", [](const Transform& t) { return py::tuple(py::cast(shape_of(t.form()))); })
      .def("for_masks", &for_masks, py::arg("fill") = 0, py::arg("dtype") = "uint8")
      .def("run", &run, py::arg("data"), py::arg("seed"), py::arg("epoch"), py::arg("position"))
      .def("run_sized", &run_sized, py::arg("data"), py::arg("seed"), py::arg("epoch"),
           py::arg("position"), py::arg("picture") = std::nullopt);
  module.def("compile_transform", &compile, py::arg("json"), py::arg("other") = std::nullopt,
             py::arg("other_name") = "");
}

}  // namespace foreload::python
