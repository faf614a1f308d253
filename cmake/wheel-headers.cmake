# SPDX-License-Identifier: Apache-2.0
# Libraries that consist of headers, for a wheel: from the folder that has them and no header of this
# system's C library, which their own CMake packages would bring along.
foreach(target fmt::fmt-header-only nlohmann_json::nlohmann_json CLI11::CLI11 tl::expected)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} SYSTEM INTERFACE ${FORELOAD_WHEEL_PREFIX}/include)
endforeach()
target_compile_definitions(fmt::fmt-header-only INTERFACE FMT_HEADER_ONLY=1)
