# SPDX-License-Identifier: Apache-2.0
"""Runs experiments with several ranks by name; without names, all of them.

    python bench/peers/run.py traffic death --out build/bench

Ranks are processes in network namespaces with shaped links, so it needs root. Writes OUT/NAME.json
and OUT/NAME.md and prints the tables.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "engine"))

from by_name import parser_of, run_by_name  # noqa: E402
from cluster import Cluster  # noqa: E402
from peer_experiments import EXPERIMENTS, Bench  # noqa: E402
from programs import built_program  # noqa: E402


def make_bench(options: argparse.Namespace, folder: Path) -> Bench:
    cluster = Cluster(options.foreload.resolve())
    return Bench(cluster, options.slowfs, options.peers_bench, folder, options.scale)


def main() -> int:
    parser = parser_of("Benchmark ranks that are one cache.", EXPERIMENTS)
    parser.add_argument("--peers-bench", type=Path, default=built_program("peers/peers_bench"))
    return run_by_name(parser, EXPERIMENTS, make_bench)


if __name__ == "__main__":
    sys.exit(main())
