# SPDX-License-Identifier: Apache-2.0
# Compiles for the old C library of a wheel, with the compiler and the libraries that
# scripts/wheel/libraries.sh made. Nothing is linked that is not there.
set(wheel ${CMAKE_CURRENT_LIST_DIR}/../build/wheel)
cmake_path(NORMAL_PATH wheel)
set(CMAKE_C_COMPILER ${wheel}/bin/cc)
set(CMAKE_CXX_COMPILER ${wheel}/bin/c++)
set(CMAKE_AR ${wheel}/bin/ar CACHE FILEPATH "")
set(CMAKE_RANLIB ${wheel}/bin/ranlib CACHE FILEPATH "")
# Unless told otherwise zig looks for undefined behaviour, and writes what debuggers read.
set(CMAKE_CXX_FLAGS_INIT "-fno-sanitize=all -g0")
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
# Else pybind11 optimises its module when linking, and zig builds the C++ library once more for that.
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION OFF)
set(FORELOAD_WHEEL_PREFIX ${wheel}/prefix)
set(CMAKE_FIND_ROOT_PATH ${FORELOAD_WHEEL_PREFIX})
list(APPEND CMAKE_PREFIX_PATH ${FORELOAD_WHEEL_PREFIX})
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
# Found by its name in the folders of this system, unlike by the compiler.
set(CMAKE_LIBRARY_ARCHITECTURE x86_64-linux-gnu)
