#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Plans 90 epochs of ImageNet-1k on 16 ranks whose caches together hold the data set exactly once,
# with both placements, and says what the difference is worth. No data is read.
set -euo pipefail
cd "$(dirname "$0")/.."

# 1,281,167 samples of 110 KiB are 134.4 GiB, 8.4 GiB for each of 16 ranks.
job=(--samples 1281167 --mean-size 110KiB --ranks 16 --epochs 90 --batch-size 256
  --memory 2GiB --disk 6.4GiB)
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

for placement in cover independent; do
  echo "\$ foreload plan ${job[*]} --placement $placement"
  .venv/bin/foreload plan "${job[@]}" --placement "$placement"
  .venv/bin/foreload plan "${job[@]}" --placement "$placement" --json >"$results/$placement.json"
  echo
done
.venv/bin/python scripts/demo_compare.py "$results/cover.json" "$results/independent.json"
