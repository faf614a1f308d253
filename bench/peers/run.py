# SPDX-License-Identifier: Apache-2.0
"""Runs experiments with several ranks by name; without names, all of them.

    python bench/peers/run.py traffic death --out build/bench

Ranks are processes in network namespaces with shaped links, so it needs root. Writes OUT/NAME.json
and OUT/NAME.md and prints the tables.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "engine"))

from cluster import Cluster  # noqa: E402
from peer_experiments import EXPERIMENTS, Bench  # noqa: E402
from processes import default_foreload  # noqa: E402


def default_peers_bench() -> Path | None:
    built = HERE.parents[1] / "build" / "release" / "bench" / "peers" / "peers_bench"
    return built if built.exists() else None


def main() -> int:
    parser = argparse.ArgumentParser(description="Benchmark ranks that are one cache.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the results")
    parser.add_argument("--folder", type=Path, help="for data; else a temporary one")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of files")
    parser.add_argument("--foreload", type=Path, default=default_foreload(), help="the program")
    parser.add_argument("--slowfs", type=Path, help="the program")
    parser.add_argument("--peers-bench", type=Path, default=default_peers_bench())
    options = parser.parse_args()
    unknown = sorted(set(options.names) - EXPERIMENTS.keys())
    if unknown:
        parser.error(f"no such experiments: {', '.join(unknown)}")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="foreload-bench-"))
    failed = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        cluster = Cluster(options.foreload.resolve())
        bench = Bench(cluster, options.slowfs, options.peers_bench, folder, options.scale)
        for name in options.names or EXPERIMENTS:
            try:
                report = EXPERIMENTS[name](bench)
            except (RuntimeError, OSError) as error:
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
