# SPDX-License-Identifier: Apache-2.0
# Libraries foreload is built with. Each one that is missing is named with the package that has it.

macro(foreload_need package debian)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "foreload needs ${package}: install it (Debian, Ubuntu: apt-get install ${debian})")
  endif()
endmacro()

# foreload_need_library(NAME HEADER LIBRARY DEBIAN) finds a library that CMake does not know: NAME_INCLUDE_DIR and
# NAME_LIBRARY.
macro(foreload_need_library name header library debian)
  find_path(${name}_INCLUDE_DIR ${header})
  find_library(${name}_LIBRARY ${library})
  if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "foreload needs ${header}: install it (Debian, Ubuntu: apt-get install ${debian})")
  endif()
endmacro()

find_package(Threads REQUIRED)
if(FORELOAD_WHEEL)
  include(${CMAKE_CURRENT_LIST_DIR}/wheel-headers.cmake)
else()
  foreload_need(fmt libfmt-dev)
  foreload_need(nlohmann_json nlohmann-json3-dev)
  foreload_need(CLI11 libcli11-dev)
  include(${CMAKE_CURRENT_LIST_DIR}/find-expected.cmake)
endif()
# Compiled fmt saves two seconds a source file; a wheel carries it inside instead.
add_library(foreload_fmt INTERFACE)
if(FORELOAD_WHEEL OR NOT TARGET fmt::fmt)
  target_link_libraries(foreload_fmt INTERFACE fmt::fmt-header-only)
else()
  target_link_libraries(foreload_fmt INTERFACE fmt::fmt)
endif()

find_path(FORELOAD_XXHASH_INCLUDE xxhash.h)
if(NOT FORELOAD_XXHASH_INCLUDE)
  message(FATAL_ERROR "foreload needs xxhash.h: install it (Debian, Ubuntu: apt-get install libxxhash-dev)")
endif()
add_library(foreload_xxhash INTERFACE)
target_include_directories(foreload_xxhash SYSTEM INTERFACE ${FORELOAD_XXHASH_INCLUDE})
target_compile_definitions(foreload_xxhash INTERFACE XXH_INLINE_ALL)

find_path(FORELOAD_URING_INCLUDE liburing.h)
find_library(FORELOAD_URING_LIBRARY uring)
if(NOT FORELOAD_URING_INCLUDE OR NOT FORELOAD_URING_LIBRARY)
  message(FATAL_ERROR "foreload needs liburing: install it (Debian, Ubuntu: apt-get install liburing-dev)")
endif()

if(FORELOAD_TESTS)
  foreload_need(GTest libgtest-dev)
endif()
if(FORELOAD_BENCH)
  foreload_need(benchmark libbenchmark-dev)
endif()
