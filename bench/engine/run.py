# SPDX-License-Identifier: Apache-2.0
"""Runs experiments of the engine by name; without names, all of them.

    python bench/engine/run.py bandwidth traffic --out build/bench

Writes OUT/NAME.json and OUT/NAME.md and prints the tables.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from experiments import EXPERIMENTS, Bench
from processes import Foreload, Torch, default_foreload


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmark the engine.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the results")
    parser.add_argument("--folder", type=Path, help="for data and caches; else a temporary one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of files")
    parser.add_argument("--foreload", type=Path, default=default_foreload(), help="the program")
    parser.add_argument("--slowfs", type=Path, help="the program")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - EXPERIMENTS.keys())
    if unknown or options.rounds < 1 or options.scale <= 0:
        parser.error(f"no such experiments: {', '.join(unknown)}" if unknown else "nothing to run")

    folder = options.folder or Path(tempfile.mkdtemp(prefix="foreload-bench-"))
    failed = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(
            Foreload(options.foreload),
            Torch(),
            options.slowfs,
            folder,
            options.rounds,
            options.scale,
        )
        for name in options.names or EXPERIMENTS:
            try:
                report = EXPERIMENTS[name](bench)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr)
                failed += 1
                continue
            if options.scale != 1:
                report.notes.append(f"Tried out with {options.scale} x the files: no result.")
            report.write(options.out)
            print(report.markdown(), flush=True)
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
