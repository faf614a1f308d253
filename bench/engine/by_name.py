# SPDX-License-Identifier: Apache-2.0
"""Experiments that are run by name: their options, their folder, what becomes of their reports."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from programs import default_foreload
from report import Report

Bench = TypeVar("Bench")


def parser_of(description: str, experiments: Mapping[str, object]) -> argparse.ArgumentParser:
    """With the options that all experiments have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(experiments))
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the results")
    parser.add_argument("--folder", type=Path, help="for data and caches; else a temporary one")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of files")
    parser.add_argument("--foreload", type=Path, default=default_foreload(), help="the program")
    parser.add_argument("--slowfs", type=Path, help="the program")
    return parser


def run_by_name(
    parser: argparse.ArgumentParser,
    experiments: Mapping[str, Callable[[Bench], Report]],
    make_bench: Callable[[argparse.Namespace, Path], Bench],
) -> int:
    """Runs those that the command line names, all if it names none; 1 if one of them failed.

    `make_bench` gets the options and a folder for data, which is removed afterwards unless it was
    given.
    """
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - experiments.keys()):
        parser.error(f"no such experiments: {', '.join(unknown)}")
    if options.scale <= 0:
        parser.error("nothing to run")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="foreload-bench-"))
    failed = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        bench = make_bench(options, folder)
        for name in options.names or experiments:
            try:
                report = experiments[name](bench)
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
