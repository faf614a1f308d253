# SPDX-License-Identifier: Apache-2.0
# How a part is declared: one static library per folder, linked only to the parts it may use.

add_library(foreload_flags INTERFACE)
target_compile_features(foreload_flags INTERFACE cxx_std_20)
target_compile_options(foreload_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                -Wno-sign-conversion -Wno-missing-field-initializers
                                                -Wnon-virtual-dtor)
# Warnings that g++ gets wrong: 12 and 13 about members of variants that are moved, 13 about fmt 9.
target_compile_options(foreload_flags INTERFACE -Wno-maybe-uninitialized -Wno-array-bounds
                                                -Wno-stringop-overflow)
if(FORELOAD_UNITY)
  # Members of unnamed namespaces are fine: a unity file is included nowhere.
  target_compile_options(foreload_flags INTERFACE -Wno-subobject-linkage)
endif()
if(FORELOAD_WERROR)
  target_compile_options(foreload_flags INTERFACE -Werror)
endif()
if(FORELOAD_ASSERTS)
  # CMake's optimised build types define NDEBUG; the last word on the command line wins.
  target_compile_options(foreload_flags INTERFACE -UNDEBUG)
endif()
if(FORELOAD_SANITIZE)
  target_compile_options(foreload_flags INTERFACE -fsanitize=${FORELOAD_SANITIZE} -fno-omit-frame-pointer
                                                  -fno-sanitize-recover=all)
  target_link_options(foreload_flags INTERFACE -fsanitize=${FORELOAD_SANITIZE})
endif()

set(FORELOAD_PARTS "" CACHE INTERNAL "parts declared so far")

# foreload_part(NAME SOURCES file... [NEEDS part...] [PRIVATE library...])
# NEEDS lists other parts, PRIVATE lists libraries that the part's headers do not show.
function(foreload_part name)
  cmake_parse_arguments(PART "" "" "SOURCES;NEEDS;PRIVATE" ${ARGN})
  add_library(foreload_${name} STATIC ${PART_SOURCES})
  add_library(foreload::${name} ALIAS foreload_${name})
  set_target_properties(foreload_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(foreload_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                     $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(foreload_${name} PUBLIC cxx_std_20)
  target_link_libraries(foreload_${name} PRIVATE $<BUILD_INTERFACE:foreload_flags>)
  foreach(need IN LISTS PART_NEEDS)
    target_link_libraries(foreload_${name} PUBLIC foreload_${need})
  endforeach()
  foreach(library IN LISTS PART_PRIVATE)
    target_link_libraries(foreload_${name} PRIVATE $<BUILD_INTERFACE:${library}>)
  endforeach()
  set(FORELOAD_PARTS ${FORELOAD_PARTS} ${name} CACHE INTERNAL "parts declared so far")
endfunction()
