#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# test-summary.sh STATUS: repeats the closing line of every test run, word for word, from the logs
# in build/, says how long each step took and which tests failed, then exits with STATUS, or with an
# error if a C++ test was skipped that is not named here (tests/conftest.py does the same for Python).
set -euo pipefail
cd "$(dirname "$0")/.."
status=$1

# What root cannot show; and a death that the address sanitizer's own checks forestall.
may_be_skipped='ListingTest\.UnreadableFolderIsAnError|Engines/FolderDeathTest\.ThreeDescriptorsLeft/.*'

for run in dev python asan tsan; do
  log=build/test-$run.log
  if [ ! -s "$log" ]; then
    echo "[test] $run: not run"
    continue
  fi
  echo "[test] $run, from $log:"
  # ctest's line says how many tests passed, pytest's how many passed, failed and so on.
  grep -E '^[0-9]+% tests passed|^=+ .*[0-9]+ (passed|failed|errors?|skipped|deselected).* =+$' "$log" |
    tail -n 1 || {
    echo "no summary line: the run did not get that far; its last lines were:"
    tail -n 40 "$log" | sed 's/^/    /'
  }
  if skipped=$(sed -n 's/^\t *[0-9]* - \(.*\) (Skipped)$/\1/p' "$log" | grep -vxE "$may_be_skipped"); then
    echo "[test] $run: skipped, but not for a named reason:" $skipped >&2
    status=1
  fi
done
if [ -s build/test-times.log ]; then
  echo "[test] where the time went:"
  awk '{ sub(".*/", "", $2); printf "[test]   %-14s %2d min %02d s\n", $2, $1 / 60, $1 % 60 }' build/test-times.log
fi
if [ "$status" -ne 0 ]; then
  echo "[test] failed" >&2
  # Last, because the end is what people see of a long log.
  for run in dev python asan tsan; do
    if [ -s "build/test-$run.log" ]; then
      sed -nE "s/^(FAILED|ERROR) (tests.*)/[test] $run: \\2/p; s/^\t *[0-9]+ - (.*) \((Failed|Timeout|SEGFAULT|Subprocess aborted).*/[test] $run: \\1 (\\2)/p" \
        "build/test-$run.log" | cut -c 1-300 >&2
    fi
  done
fi
exit "$status"
