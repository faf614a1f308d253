#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes the decoders under the address and undefined-behaviour sanitizers:
#   run.sh [SECONDS [FOLDER]]
# SECONDS (20) are shared out among the targets. Programs, and files that break something, go to
# FOLDER (build/fuzz). Exits with an error if anything was found. Starts from the committed corpus,
# to which nothing is added. Needs clang with libFuzzer.
set -euo pipefail
cd "$(dirname "$0")/../../.."
seconds=${1:-20}
folder=${2:-build/fuzz}
clang=${CLANG:-clang++}
here=tests/decode/fuzz
data=tests/decode/data
decode=src/foreload/decode

command -v "$clang" >/dev/null || {
  echo "[fuzz] $clang not found; install it (Debian, Ubuntu: apt-get install clang)" >&2
  exit 1
}
mkdir -p "$folder"

# Objects newer than every source are used again.
decoders=(colors decoder exif gif jpeg jpeg_header jpeg_huffman jpeg_progressive jpeg_scan npy pixels png png_chunks png_colors png_filters upright webp)
sources=("${decoders[@]/#/$decode/}" "$here"/{jpeg,png,webp,gif,npy}_fuzz)
newest=$(find "$decode" src/foreload/base "$here" -name '*.h' -printf '%T@ %p\n' | sort -n | tail -1 | cut -d' ' -f2-)
compile() {  # source without its ending
  local object=$folder/$(basename "$1").o
  if [ "$object" -nt "$1.cc" ] && [ "$object" -nt "$newest" ]; then return; fi
  "$clang" -std=c++20 -O1 -g1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all \
    -DFMT_HEADER_ONLY -Isrc -c -o "$object" "$1.cc"
}
export -f compile
export clang folder newest
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -I{} bash -c 'set -eu; compile {}'
objects=("${decoders[@]/#/$folder/}")
objects=("${objects[@]/%/.o}")
for target in jpeg png webp gif npy; do
  "$clang" -fsanitize=fuzzer,address,undefined -o "$folder/${target}_fuzz" \
    "$folder/${target}_fuzz.o" "${objects[@]}" -ljpeg -lz -ldeflate -lwebpdemux -lwebp
done

status=0
run() {  # target, share of the time in percent, longest file
  local target=$1 time=$((seconds * $2 / 100))
  [ "$time" -gt 0 ] || time=1
  mkdir -p "$folder/$target"
  echo "[fuzz] $target, $time s"
  "$folder/${target}_fuzz" -max_total_time="$time" -max_len="$3" -timeout=25 -rss_limit_mb=1024 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/$target-" \
    "$folder/$target" "$here/corpus/$target" "$data" 2>"$folder/$target.log" || status=1
  grep -E 'number_of_executed_units|ERROR|SUMMARY|runtime error|Test unit written' "$folder/$target.log" || true
}
run jpeg 40 4096
run png 20 4096
run webp 20 4096
run gif 12 4096
run npy 8 1024
exit $status
