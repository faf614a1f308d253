#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds what a wheel has inside, for the old C library, static and with hidden symbols, into
# build/wheel/prefix: libjpeg-turbo, zlib, libdeflate, libwebp, liburing, and the texts of their licenses.
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
jpeg() {
  build/wheel/tools/bin/python scripts/wheel/fetch_sdist.py "$jpeg_sdist" "$jpeg_sha256" build/wheel/download
  tar -xzf "build/wheel/download/$jpeg_sdist" -C "$libraries"
  mv "$libraries/$jpeg_folder" "$libraries/jpeg"
  with_cmake jpeg "$libraries/jpeg" -DENABLE_SHARED=OFF -DREQUIRE_SIMD=ON -DWITH_TURBOJPEG=OFF \
    -DWITH_TOOLS=OFF -DWITH_TESTS=OFF -DCMAKE_C_FLAGS=-DNO_GETENV  # decoding threads must not ask
  # Our own Huffman reader works inside libjpeg and must see the same structures.
  cp "$libraries/jpeg/src/jpegint.h" "$prefix/include"
  cp "$libraries/jpeg/LICENSE.md" "$prefix/licenses/libjpeg-turbo.md"
  cp "$libraries/jpeg/README.ijg" "$prefix/licenses/libjpeg-turbo.ijg.txt"
}
zlib() {
  scripts/wheel/debian_source.sh "$debian_suite" zlib "$zlib_origin" "$zlib_sha256" "$libraries/zlib"
  quietly zlib env -C "$libraries/zlib" ./configure --static --prefix="$prefix"
  quietly zlib make -C "$libraries/zlib" libz.a
  quietly zlib make -C "$libraries/zlib" install
  cp "$libraries/zlib/LICENSE" "$prefix/licenses/zlib.txt"
}
deflate() {
  build/wheel/tools/bin/python scripts/wheel/fetch_sdist.py "$deflate_sdist" "$deflate_sha256" build/wheel/download
  tar -xzf "build/wheel/download/$deflate_sdist" -C "$libraries"
  mv "$libraries/$deflate_folder" "$libraries/deflate"
  with_cmake deflate "$libraries/deflate" -DLIBDEFLATE_BUILD_SHARED_LIB=OFF -DLIBDEFLATE_BUILD_GZIP=OFF \
    -DLIBDEFLATE_COMPRESSION_SUPPORT=OFF
  cp "$libraries/deflate/COPYING" "$prefix/licenses/libdeflate.txt"
}
webp() {
  scripts/wheel/debian_source.sh "$debian_suite" libwebp "$webp_origin" "$webp_sha256" "$libraries/webp"
  with_cmake webp "$libraries/webp" -DBUILD_SHARED_LIBS=OFF -DWEBP_BUILD_ANIM_UTILS=OFF -DWEBP_BUILD_CWEBP=OFF \
    -DWEBP_BUILD_DWEBP=OFF -DWEBP_BUILD_GIF2WEBP=OFF -DWEBP_BUILD_IMG2WEBP=OFF -DWEBP_BUILD_VWEBP=OFF \
    -DWEBP_BUILD_WEBPINFO=OFF -DWEBP_BUILD_LIBWEBPMUX=OFF -DWEBP_BUILD_WEBPMUX=OFF -DWEBP_BUILD_EXTRAS=OFF
  cat "$libraries/webp/COPYING" "$libraries/webp/PATENTS" >"$prefix/licenses/libwebp.txt"
}
uring() {
  scripts/wheel/debian_source.sh "$debian_suite" liburing "$uring_origin" "$uring_sha256" "$libraries/uring"
  quietly uring env -C "$libraries/uring" ./configure --cc="$CC" --cxx="$CXX" --use-libc --prefix="$prefix"
  quietly uring make -C "$libraries/uring/src" ENABLE_SHARED=0 install
  cp "$libraries/uring/LICENSE" "$prefix/licenses/liburing.txt"
}

# At once: much of the time each unpacks, or asks the compiler one question after the other.
echo "[wheel] building libjpeg-turbo, zlib, libdeflate, libwebp and liburing (logs: build/wheel/libraries)"
builds=()
for library in jpeg zlib deflate webp uring; do
  "$library" &
  builds+=($!)
done
for build in "${builds[@]}"; do wait "$build"; done

touch "$stamp"
