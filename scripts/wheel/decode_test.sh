#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the tests of decoding against the libraries that wheels have inside, with the system's compiler, and
# runs them.
set -euo pipefail
cd "$(dirname "$0")/../.."
scripts/wheel/libraries.sh
prefix=$PWD/build/wheel/prefix
cmake -S . -B build/wheel/decode -G Ninja --log-level=NOTICE -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DFORELOAD_TESTS=ON -DFORELOAD_ASSERTS=ON -DJPEG_INCLUDE_DIR="$prefix/include" \
  -DJPEG_LIBRARY="$prefix/lib/libjpeg.a" -DZLIB_INCLUDE_DIR="$prefix/include" -DZLIB_LIBRARY="$prefix/lib/libz.a" \
  -DDEFLATE_INCLUDE_DIR="$prefix/include" -DDEFLATE_LIBRARY="$prefix/lib/libdeflate.a" \
  -DWEBP_INCLUDE_DIR="$prefix/include" -DWEBP_LIBRARY="$prefix/lib/libwebp.a" \
  -DWEBPDEMUX_INCLUDE_DIR="$prefix/include" -DWEBPDEMUX_LIBRARY="$prefix/lib/libwebpdemux.a"
cmake --build build/wheel/decode --target decode_test photos_test
build/wheel/decode/tests/decode_test
build/wheel/decode/tests/photos_test
