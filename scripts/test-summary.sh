#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test-summary.sh STATUS: repeats the closing line of every test run, word for word, from the logs
# in build/, then exits with STATUS.
set -euo pipefail
cd "$(dirname "$0")/.."
status=$1

for run in dev python asan tsan; do
  log=build/test-$run.log
  if [ -s "$log" ]; then
    echo "[test] $run, from $log:"
    # ctest's line says how many tests passed, pytest's how many passed, failed and so on.
    grep -E '^[0-9]+% tests passed|^=+ .*[0-9]+ (passed|failed|errors?|skipped|deselected).* =+$' "$log" |
      tail -n 1 || echo "no summary line: the run did not get that far"
  else
    echo "[test] $run: not run"
  fi
done
if [ "$status" -ne 0 ]; then echo "[test] failed" >&2; fi
exit "$status"
