// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

#include <pybind11/pybind11.h>

#include "calls.h"

namespace foreload::python {

namespace {

// Bytes of a file that processes share. Unlike Python's mmap it keeps no descriptor, so that a
// program may have more of these than a process may have open files.
class MappedFile {
 public:
  MappedFile(int file, size_t bytes)
      : memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)),
        bytes_(bytes) {
    if (memory_ == MAP_FAILED) {
      PyErr_SetFromErrno(PyExc_OSError);
      throw py::error_already_set();
    }
  }
  ~MappedFile() { ::munmap(memory_, bytes_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  py::buffer_info buffer() const {
    return {static_cast<uint8_t*>(memory_), static_cast<py::ssize_t>(bytes_)};
  }

 private:
  void* const memory_;
  const size_t bytes_;
};

}  // namespace

void register_mapped_file(py::module_& module) {
  py::class_<MappedFile>(module, "MappedFile", py::buffer_protocol(),
                         "Bytes of a file that processes share; it keeps no descriptor.")
      .def(py::init<int, size_t>(), py::arg("file"), py::arg("bytes"))
      .def_buffer(&MappedFile::buffer);
}

}  // namespace foreload::python
