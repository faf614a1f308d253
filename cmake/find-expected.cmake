# SPDX-License-Identifier: Apache-2.0
# Defines tl::expected from its CMake package, or from the bare header where only that is present.
find_package(tl-expected QUIET)
if(NOT TARGET tl::expected)
  find_path(FORELOAD_EXPECTED_INCLUDE tl/expected.hpp)
  if(NOT FORELOAD_EXPECTED_INCLUDE)
    message(FATAL_ERROR "foreload needs tl/expected.hpp: install it (Debian, Ubuntu: apt-get install libexpected-dev)")
  endif()
  add_library(tl::expected INTERFACE IMPORTED)
  set_target_properties(tl::expected PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${FORELOAD_EXPECTED_INCLUDE})
endif()
