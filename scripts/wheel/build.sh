#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds dist/foreload-*.whl, one for each Python that interpreters.sh finds, and checks them. Interpreters
# share one build folder: all but the bindings is compiled once.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/wheel/pins.sh
scripts/wheel/libraries.sh
scripts/wheel/headers.sh
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
unset CMAKE_CXX_COMPILER_LAUNCHER CMAKE_C_COMPILER_LAUNCHER CC CXX CFLAGS CXXFLAGS LDFLAGS
objects=build/wheel/cmake
mkdir -p dist "$objects"
die() {
  echo "[wheel] $*" >&2
  exit 1
}

# environment PYTHON: prints the environment that builds for it.
environment() {
  local name folder
  name=$("$1" -c 'import sys; print(f"python{sys.version_info.major}.{sys.version_info.minor}")')
  folder=build/wheel/$name
  if ! [ "$folder/.stamp" -nt scripts/wheel/requirements-build.txt ]; then
    "$1" -m venv --clear "$folder" >&2
    "$folder/bin/python" -m pip install -qq -r scripts/wheel/requirements-build.txt >&2
    touch "$folder/.stamp"
  fi
  echo "$folder"
}

mapfile -t pythons < <(scripts/wheel/interpreters.sh)
[ ${#pythons[@]} -gt 0 ] || die "no Python 3.11 or newer with headers found; set FORELOAD_WHEEL_PYTHONS=/path/to/python3"
rm -rf build/wheel/plain
for python in "${pythons[@]}"; do
  echo "[wheel] building for $("$python" --version) (log: build/wheel/build.log)"
  folder=$(environment "$python")
  rm -f "$objects/CMakeCache.txt"  # knows the last interpreter
  if ! "$folder/bin/python" -m pip wheel --verbose --no-build-isolation --no-deps -w build/wheel/plain \
    -C build-dir="$objects" -C cmake.define.FORELOAD_WHEEL=ON \
    -C cmake.define.CMAKE_TOOLCHAIN_FILE="$PWD/cmake/wheel-toolchain.cmake" . 2>&1 |
    tee build/wheel/build.log | sed -un 's/^ *\(\[[0-9]*\/[0-9]*\] \)/\1/p'; then
    tail -n 40 build/wheel/build.log >&2
    die "the wheel does not build, see above"
  fi
  if grep -q -e '-isystem /usr/include ' "$objects/build.ninja"; then
    die "a header of this system's C library would be found first; link what is needed in scripts/wheel/headers.sh"
  fi
done

for wheel in build/wheel/plain/foreload-*.whl; do
  build/wheel/tools/bin/python scripts/wheel/check.py "$wheel" "$glibc"
  PATH=$PWD/build/wheel/tools/bin:$PATH build/wheel/tools/bin/auditwheel repair --plat "$platform" -w dist "$wheel" 2>>build/wheel/build.log
done
ls -l dist/foreload-*.whl | awk '{ printf "[wheel] %s (%.1f MB)\n", $NF, $5 / 1e6 }'
