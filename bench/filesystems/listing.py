# SPDX-License-Identifier: Apache-2.0
"""Listing a data set, sizes and times included, beside find and ls on the same file system.

    python bench/filesystems/listing.py --rounds 5

`ls -fR` and `find` ask for names alone, `ls -lR` and `find -size` for sizes too, as foreload does.
The page cache is dropped before each; printed are medians in seconds. Needs root, for that.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

from slowfs import SlowFs

ROOT = Path(__file__).resolve().parents[2]
TEN_THREADS = {"server_threads": 10, "name_seconds": 0, "list_ms": 1}
COSTS = {"stat_ms": 0.5, "lookup_ms": 0.5, "open_ms": 4, "read_ms": 1}


def make_tree(root: Path, files: int) -> None:
    """Class folders in ten parts; half of the classes are in the first of them."""
    for number in range(100):
        part = 0 if number % 2 else number // 10
        folder = root / f"part{part}" / f"class{number:03d}"
        folder.mkdir(parents=True)
        for file in range(files // 100):
            (folder / f"{file:05d}.jpg").write_bytes(b"x" * 100)


def seconds(command: list[str]) -> float:
    Path("/proc/sys/vm/drop_caches").write_text("3")
    begin = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)
    return time.monotonic() - begin


def compare(name: str, folder: Path, foreload: Path, rounds: int) -> None:
    commands = {
        "foreload": [str(foreload), "plan", "--dataset", str(folder), "--json"],
        "ls -fR": ["ls", "-fR", str(folder)],
        "find": ["find", str(folder)],
        "ls -lR": ["ls", "-lR", str(folder)],
        "find -size": ["find", str(folder), "-size", "+1G"],
    }
    taken: dict[str, list[float]] = {what: [] for what in commands}
    for _ in range(rounds):
        for what, command in commands.items():
            taken[what].append(seconds(command))
    figures = ", ".join(f"{what} {statistics.median(times):.3f}" for what, times in taken.items())
    print(f"{name}: {figures}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--foreload", type=Path, default=ROOT / "build/release/src/foreload/cli/foreload"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=4000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="listing-") as work:
        folder = Path(work)
        make_tree(folder, given.files)
        compare("local disk", folder, given.foreload, given.rounds)
        with SlowFs(folder, **TEN_THREADS, **COSTS) as mounted:
            compare("slowfs, ten threads", mounted.path, given.foreload, given.rounds)


if __name__ == "__main__":
    main()
