#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [SECONDS]: builds the fuzz target with clang and runs it from the seeds, made afresh, for so
# long (60 if not given). A finding is written to the build folder, and the script fails. Needs
# Debian's clang and libclang-rt-dev.
set -eu
seconds=${1:-60}
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=${FORELOAD_FUZZ_BUILD:-$root/build/fuzz-peers}
mkdir -p "$build/corpus" "$build/seeds"
flags="-std=c++20 -O1 -g -I$root/src -DXXH_INLINE_ALL -DFMT_HEADER_ONLY"
sources="$root/src/foreload/peers/wire.cc $root/src/foreload/base/hash.cc"
clang++ $flags "$root/tests/peers/fuzz/make_seeds.cc" $sources -o "$build/make_seeds"
"$build/make_seeds" "$build/seeds"
clang++ $flags -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
  "$root/tests/peers/fuzz/wire_fuzz.cc" $sources -o "$build/wire_fuzz"
"$build/wire_fuzz" -max_total_time="$seconds" -max_len=256 -artifact_prefix="$build/" \
  -print_final_stats=1 "$build/corpus" "$build/seeds"
