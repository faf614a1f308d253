#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh [SECONDS]: as tests/peers/fuzz/run.sh, for the directories of zip archives.
set -eu
seconds=${1:-60}
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=${FORELOAD_FUZZ_BUILD:-$root/build/fuzz-formats}
mkdir -p "$build/corpus" "$build/seeds"
python3 - "$build/seeds" <<'SEEDS'
import sys, zipfile
for number, force_zip64 in enumerate((False, True)):
    with zipfile.ZipFile(f"{sys.argv[1]}/{number}.zip", "w") as archive:
        for name in ("a/1.jpg", "b/2.jpg"):
            with archive.open(name, "w", force_zip64=force_zip64) as member:
                member.write(b"bytes")
        archive.comment = b"comment"
SEEDS
clang++ -std=c++20 -O1 -g -I"$root/src" -DFMT_HEADER_ONLY -fsanitize=fuzzer,address,undefined \
  -fno-sanitize-recover=all "$root/tests/formats/fuzz/zip_fuzz.cc" \
  "$root/src/foreload/formats/zip_directory.cc" -o "$build/zip_fuzz"
"$build/zip_fuzz" -max_total_time="$seconds" -max_len=1024 -artifact_prefix="$build/" \
  -print_final_stats=1 "$build/corpus" "$build/seeds"
