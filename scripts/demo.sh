#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What foreload does, in about a minute: makes photos, reads them three times from a source as slow as a
# busy network file system and writes a page about it; then plans ImageNet-1k on 16 ranks in two ways.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
out=build/demo
rm -rf "$out"
mkdir -p "$out"

show() {
  echo "\$ $*"
  "$@"
}

echo "1. A data set: 600 photo-like JPEG files in 6 classes"
show foreload make-images "$out/photos" --count 600 --classes 6 --mean-size 110KiB
echo
echo "2. Three epochs from 8 MB/s, with 40 ms of computing per batch. The first epoch waits for the source;"
echo "   a third of the photos then lies in memory, the rest on disk, and the source is left alone."
show foreload read "$out/photos" --epochs 3 --batch-size 16 --step-ms 40 --memory 22MiB \
  --disk "$out/cache:60MiB" --staging 8MiB --source-bandwidth 8MB --source-latency-ms 5 \
  --profile none --run-file "$out/run.jsonl"
show foreload report "$out/run.jsonl" --out "$out/report.html"
echo "   The page: $PWD/$out/report.html"
echo
echo "3. The plan of a large job: 90 epochs of ImageNet-1k on 16 ranks whose caches together hold it once"
# 1,281,167 samples of 110 KiB are 134.4 GiB, 8.4 GiB for each of 16 ranks.
job=(--samples 1281167 --mean-size 110KiB --ranks 16 --epochs 90 --batch-size 256
  --memory 2GiB --disk 6.4GiB)
for placement in cover independent; do
  echo "\$ foreload plan ${job[*]} --placement $placement"
  foreload plan "${job[@]}" --placement "$placement" --json >"$out/$placement.json"
done
echo
python scripts/demo_compare.py "$out/cover.json" "$out/independent.json"
