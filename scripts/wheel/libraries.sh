#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what a wheel has inside, for the old C library, static and with hidden symbols, into
# build/wheel/prefix: libjpeg-turbo, libpng with zlib, liburing, and the texts of their licenses.
set -euo pipefail
cd "$(dirname "$0")/../.."
source scripts/wheel/pins.sh
scripts/wheel/tools.sh
prefix=$PWD/build/wheel/prefix
stamp=$prefix/.stamp
newest=$(ls -t scripts/wheel/{libraries.sh,debian_source.sh,pins.sh} build/wheel/tools/.stamp | head -n 1)
if [ "$stamp" -nt "$newest" ]; then exit; fi
rm -rf "$prefix" build/wheel/libraries
mkdir -p "$prefix"/{include,lib,licenses} build/wheel/libraries

bin=$PWD/build/wheel/bin
export CC=$bin/cc CXX=$bin/c++ AR=$bin/ar RANLIB=$bin/ranlib
export CFLAGS="-O2 -fPIC -fvisibility=hidden -fno-sanitize=all"
jobs=$(nproc)

# What a build prints is worth reading only when it fails.
quietly() {
  local log=build/wheel/libraries/$1.log
  shift
  "$@" >>"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    echo "[wheel] $* failed, see above and $log" >&2
    exit 1
  }
}
# with_cmake NAME FOLDER OPTION...
with_cmake() {
  local name=$1 folder=$2
  shift 2
  quietly "$name" cmake -S "$folder" -B "$folder-build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_AR="$AR" -DCMAKE_RANLIB="$RANLIB" -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_POLICY_VERSION_MINIMUM=3.5 "$@"
  quietly "$name" cmake --build "$folder-build" --target install
}

libraries=$PWD/build/wheel/libraries
echo "[wheel] building libjpeg-turbo (logs: build/wheel/libraries)"
build/wheel/tools/bin/python scripts/wheel/fetch_sdist.py "$jpeg_sdist" "$jpeg_sha256" build/wheel/download
tar -xzf "build/wheel/download/$jpeg_sdist" -C "$libraries"
mv "$libraries/$jpeg_folder" "$libraries/jpeg"
with_cmake jpeg "$libraries/jpeg" -DENABLE_SHARED=OFF -DREQUIRE_SIMD=ON -DWITH_TURBOJPEG=OFF \
  -DWITH_TOOLS=OFF -DWITH_TESTS=OFF
# Our own Huffman reader works inside libjpeg and must see the same structures.
cp "$libraries/jpeg/src/jpegint.h" "$prefix/include"
cp "$libraries/jpeg/LICENSE.md" "$prefix/licenses/libjpeg-turbo.md"
cp "$libraries/jpeg/README.ijg" "$prefix/licenses/libjpeg-turbo.ijg.txt"

echo "[wheel] building zlib and libpng"
scripts/wheel/debian_source.sh "$debian_suite" zlib "$zlib_origin" "$zlib_sha256" "$libraries/zlib"
quietly zlib env -C "$libraries/zlib" ./configure --static --prefix="$prefix"
quietly zlib make -C "$libraries/zlib" -j "$jobs" libz.a
quietly zlib make -C "$libraries/zlib" install
cp "$libraries/zlib/LICENSE" "$prefix/licenses/zlib.txt"
scripts/wheel/debian_source.sh "$debian_suite" libpng1.6 "$png_origin" "$png_sha256" "$libraries/png"
with_cmake png "$libraries/png" -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_TOOLS=OFF \
  -DZLIB_INCLUDE_DIR="$prefix/include" -DZLIB_LIBRARY="$prefix/lib/libz.a"
cp "$libraries/png/LICENSE" "$prefix/licenses/libpng.txt"

echo "[wheel] building liburing"
scripts/wheel/debian_source.sh "$debian_suite" liburing "$uring_origin" "$uring_sha256" "$libraries/uring"
quietly uring env -C "$libraries/uring" ./configure --cc="$CC" --cxx="$CXX" --use-libc --prefix="$prefix"
quietly uring make -C "$libraries/uring/src" -j "$jobs" ENABLE_SHARED=0 install
cp "$libraries/uring/LICENSE" "$prefix/licenses/liburing.txt"

touch "$stamp"
