#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Links the headers that a wheel takes from this system into build/wheel/prefix/include, one by one:
# with the whole of /usr/include the compiler would find this system's C library. Libraries of headers
# alone come with their licenses; of UCX and OpenSSL only headers are used.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=build/wheel/prefix
arch=x86_64-linux-gnu
shopt -s nullglob
mkdir -p $here/include/{openssl,$arch} $here/licenses

for name in fmt nlohmann CLI tl xxhash.h ucm ucp ucs uct; do
  if [ -e "/usr/include/$name" ]; then ln -sfn "/usr/include/$name" "$here/include/$name"; fi
done
for file in /usr/include/openssl/*.h /usr/include/$arch/openssl/*.h; do
  ln -sfn "$file" "$here/include/openssl/"
done
# What Debian's Python.h includes depends on the processor and lies apart.
for folder in /usr/include/$arch/python3.*; do
  ln -sfn "$folder" "$here/include/$arch/"
done
for package in libfmt nlohmann-json3 libcli11 libexpected libxxhash; do
  if [ -e "/usr/share/doc/$package-dev/copyright" ]; then
    cp "/usr/share/doc/$package-dev/copyright" "$here/licenses/$package.txt"
  fi
done
