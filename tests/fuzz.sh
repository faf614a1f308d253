#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Fuzzes what parses bytes of others under the address and undefined-behaviour sanitizers:
#   fuzz.sh [SECONDS [FOLDER]]
# Each target of tests/*/fuzz runs for SECONDS (10), as many at a time as there are CPUs. Programs, and
# inputs that break something, go to FOLDER (build/fuzz). Exits with an error if anything was found.
# Starts from committed or generated seeds, to which nothing is added. Needs clang with libFuzzer.
set -euo pipefail
cd "$(dirname "$0")/.."
export seconds=${1:-10} folder=${2:-build/fuzz} clang=${CLANG:-clang++}

command -v "$clang" >/dev/null || {
  echo "[fuzz] $clang not found; install it (Debian, Ubuntu: apt-get install clang)" >&2
  exit 1
}

decoders=(colors decoder exif gif jpeg jpeg_header jpeg_huffman jpeg_progressive jpeg_scan npy pixels png
  png_chunks png_colors png_filters upright webp)
parts=("${decoders[@]/#/src/foreload/decode/}" src/foreload/base/hash src/foreload/formats/zip_directory
  src/foreload/peers/wire)
programs=(tests/{decode/fuzz/{jpeg,png,webp,gif,npy}_fuzz,formats/fuzz/zip_fuzz,peers/fuzz/{wire_fuzz,make_seeds}})

# Objects newer than every header and their own source are used again.
newest=$(find src/foreload/{base,decode,formats,peers} tests/*/fuzz -name '*.h' -printf '%T@ %p\n' |
  sort -n | tail -1 | cut -d' ' -f2-)
compile() {  # source without its ending
  local object=$folder/$(basename "$1").o
  if [ "$object" -nt "$1.cc" ] && [ "$object" -nt "$newest" ]; then return; fi
  "$clang" -std=c++20 -O1 -g1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all \
    -DXXH_INLINE_ALL -Isrc -c -o "$object" "$1.cc"
}
link() {  # source without its ending
  local name fuzzer=fuzzer,
  name=$(basename "$1")
  [ "$name" != make_seeds ] || fuzzer=
  "$clang" -fsanitize="$fuzzer"address,undefined -o "$folder/$name" "$folder/$name.o" "$folder/parts.a" \
    -lfmt -ljpeg -lz -ldeflate -lwebpdemux -lwebp
}
run() {  # target, longest input, folders of seeds
  local target=$1 longest=$2 log=$folder/$1.log
  shift 2
  mkdir -p "$folder/$target"
  local status=0
  "$folder/${target}_fuzz" -max_total_time="$seconds" -max_len="$longest" -timeout=25 -rss_limit_mb=1024 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/$target-" "$folder/$target" "$@" 2>"$log" || status=1
  echo "[fuzz] $target, $seconds s"
  grep -E 'number_of_executed_units|ERROR|SUMMARY|runtime error|Test unit written' "$log" || true
  return $status
}
export -f compile link run
export newest
each() { xargs -P "$(nproc)" -I{} bash -euo pipefail -c '{}'; }

mkdir -p "$folder"
printf 'compile %s\n' "${programs[@]}" "${parts[@]}" | each
objects=("${parts[@]##*/}")
objects=("${objects[@]/#/$folder/}")
rm -f "$folder/parts.a"
ar rcs "$folder/parts.a" "${objects[@]/%/.o}"
printf 'link %s\n' "${programs[@]}" | each

mkdir -p "$folder"/seeds/{wire,zip}
"$folder/make_seeds" "$folder/seeds/wire"
python3 tests/formats/fuzz/make_seeds.py "$folder/seeds/zip"
decode=tests/decode
each <<TARGETS
run jpeg 4096 $decode/fuzz/corpus/jpeg $decode/data
run png 4096 $decode/fuzz/corpus/png $decode/data
run webp 4096 $decode/fuzz/corpus/webp $decode/data
run gif 4096 $decode/fuzz/corpus/gif $decode/data
run npy 1024 $decode/fuzz/corpus/npy $decode/data
run wire 256 $folder/seeds/wire
run zip 1024 $folder/seeds/zip
TARGETS
