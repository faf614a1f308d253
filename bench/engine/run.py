# SPDX-License-Identifier: Apache-2.0
"""Runs experiments of the engine by name; without names, all of them.

    python bench/engine/run.py bandwidth traffic --out build/bench

Writes OUT/NAME.json and OUT/NAME.md and prints the tables.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from by_name import parser_of, run_by_name
from experiments import EXPERIMENTS, Bench
from mix import mix
from processes import Foreload, Torch


def make_bench(options: argparse.Namespace, folder: Path) -> Bench:
    return Bench(
        Foreload(options.foreload),
        Torch(),
        options.slowfs,
        folder,
        max(1, options.rounds),
        options.scale,
    )


def main() -> int:
    experiments = EXPERIMENTS | {"mix": mix}
    parser = parser_of("Benchmark the engine.", experiments)
    parser.add_argument("--rounds", type=int, default=3)
    return run_by_name(parser, experiments, make_bench)


if __name__ == "__main__":
    sys.exit(main())
