# SPDX-License-Identifier: Apache-2.0
"""Whether a change made foreload slower: two builds, measured in turn.

    python bench/pairs/run.py OLD/build/release build/release --out build/bench/pairs.json

Each round runs every measurement once with either build, the old one first in every other round,
so that whatever the machine does besides meets both. What is printed is new over old of each
pair: the median, and the quartiles. Above 1 is faster, whatever is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Samples of 100 KB, as photos of ImageNet are, enough for a second of reading from memory.
SAMPLES = 8000
SAMPLE_BYTES = 100_000


def benchmark(program: str, name: str) -> Callable[[Path, Path], float]:
    """Rounds per second of a benchmark program's measurement."""

    def measure(build: Path, _work: Path) -> float:
        text = subprocess.run(
            [
                next((build / "bench").rglob(program)),
                f"--benchmark_filter=^{name}$",
                "--benchmark_format=json",
                "--benchmark_min_time=1",
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        (found,) = json.loads(text)["benchmarks"]
        return found.get("items_per_second") or 1 / found["cpu_time"]

    return measure


def read(build: Path, work: Path, *options: str) -> dict:
    """What `foreload read` says of the folder of samples."""
    program = build / "src/foreload/cli/foreload"
    command = [program, "read", work / "samples", "--extensions", "any", "--batch-size", "64"]
    command += ["--no-digest", "--profile", "none", "--json", *options]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(found.stdout)


def samples_per_second(said: dict) -> float:
    """Of all epochs but the first, which fills the caches."""
    later = said["epochs"][1:]
    return sum(e["samples"] for e in later) / sum(e["seconds"] for e in later)


def from_memory(build: Path, work: Path) -> float:
    return samples_per_second(read(build, work, "--memory", "2GiB", "--epochs", "6"))


def from_disk(build: Path, work: Path) -> float:
    with tempfile.TemporaryDirectory(dir=work) as cache:
        return samples_per_second(read(build, work, "--disk", f"{cache}:2GiB", "--epochs", "4"))


def first_batch(build: Path, work: Path) -> float:
    """Runs until the first batch per second: the listing is kept, as from the second run on."""
    index = work / f"{build.resolve().as_posix().replace('/', '_')}.index"
    said = read(build, work, "--memory", "64MiB", "--index", str(index))
    return 1 / (said["listing_seconds"] + said["plan_seconds"] + said["first_batch_seconds"])


def whole_run(build: Path, work: Path) -> float:
    """Runs per second, from start to end of the program."""
    begin = time.perf_counter()
    read(build, work, "--memory", "2GiB", "--epochs", "1")
    return 1 / (time.perf_counter() - begin)


MEASUREMENTS: dict[str, Callable[[Path, Path], float]] = {
    "policy decisions, nothing cached": benchmark(
        "policy_bench", "policy_decisions/nothing_cached"
    ),
    "policy decisions, half cached": benchmark("policy_bench", "policy_decisions/half_cached"),
    "policy decisions, all cached": benchmark("policy_bench", "policy_decisions/all_cached"),
    "plan of ImageNet-1k, 64 ranks": benchmark(
        "plan_bench", "plan_job/imagenet_1k_64_ranks_90_epochs_1_core/100"
    ),
    "64 simulated ranks": benchmark("sim_bench", "train_with/foreload"),
    "decoded pictures": benchmark("transform_bench", "train"),
    "samples from memory": from_memory,
    "samples from disk": from_disk,
    "first batch": first_batch,
    "a run of one epoch": whole_run,
}


def make_samples(work: Path) -> None:
    folder = work / "samples"
    folder.mkdir()
    content = bytearray(SAMPLE_BYTES)
    for i in range(SAMPLES):
        content[:8] = i.to_bytes(8, "little")
        (folder / f"{i:05}.bin").write_bytes(content)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("old", type=Path, help="build folder of the tree before")
    parser.add_argument("new", type=Path, help="build folder of the tree after")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="", help="measurements whose name contains this")
    parser.add_argument("--out", type=Path, help="file for all figures, as JSON")
    parser.add_argument("--work", help="folder for samples and caches (the system's)")
    given = parser.parse_args()
    chosen = {name: m for name, m in MEASUREMENTS.items() if given.only in name}
    if not chosen:
        sys.exit(
            f"no measurement's name contains {given.only!r}: there are {', '.join(MEASUREMENTS)}"
        )
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in chosen}
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        work = Path(folder)
        make_samples(work)
        for turn in range(given.rounds):
            for name, measure in chosen.items():
                print(f"\rround {turn + 1} of {given.rounds}: {name:<40}", end="", file=sys.stderr)
                builds = [given.old, given.new]
                found = {build: measure(build, work) for build in builds[:: 1 if turn % 2 else -1]}
                figures[name].append((found[given.old], found[given.new]))
            if given.out:
                given.out.write_text(json.dumps(figures, indent=1))
    print(file=sys.stderr)
    print(f"{'new / old, ' + str(given.rounds) + ' pairs':<36} median  quartiles      old")
    for name, pairs in figures.items():
        ratios = sorted(new / old for old, new in pairs)
        low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        old = statistics.median(old for old, _ in pairs)
        print(f"{name:<36} {middle:6.3f}  {low:.3f}..{high:.3f}  {old:,.2f}/s")


if __name__ == "__main__":
    main()
