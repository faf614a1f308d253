# SPDX-License-Identifier: Apache-2.0
"""foreload.DataLoader beside torch's, for data sets that have __getitem__ only.

    python bench/python_datasets/run.py [light wide heavy uneven] --out build/bench --rounds 7

Both have the same number of worker processes, which stay between epochs. They take turns, epoch by
epoch, in one run; figures are medians. Writes OUT/python_datasets.md and .json.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

import samples
import torch
from report import Report

import foreload

DATA = {"light": samples.Light, "wide": samples.Wide, "heavy": samples.Heavy}
DATA["uneven"] = samples.Uneven
WORKERS = (1, 2, 4)
Make = Callable[[Any, int], Iterable[Any]]


def foreloads(dataset: Any, workers: int) -> Iterable[Any]:
    return foreload.DataLoader(dataset, dataset.batch_size, shuffle=True, num_workers=workers)


def torchs(dataset: Any, workers: int) -> Iterable[Any]:
    return torch.utils.data.DataLoader(
        dataset, dataset.batch_size, shuffle=True, num_workers=workers, persistent_workers=True
    )


def cpu_seconds() -> float:
    """Of this process and its children."""
    ticks = os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text("utf-8").split()
    used = 0.0
    for pid in ["self", *children]:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        used += (int(fields[11]) + int(fields[12])) / ticks
    return used


def epoch(loader: Iterable[Any]) -> dict[str, float]:
    begin, cpu_begin = time.perf_counter(), cpu_seconds()
    first = None
    batches = 0
    for _ in loader:
        first = time.perf_counter() - begin if first is None else first
        batches += 1
    return {
        "seconds": time.perf_counter() - begin,
        "cpu": cpu_seconds() - cpu_begin,
        "first": first or 0.0,
        "batches": batches,
    }


def first_batch(make: Make, dataset: Any, workers: int) -> float:
    """Seconds from a new loader to its first batch."""
    begin = time.perf_counter()
    loader = make(dataset, workers)
    batches = iter(loader)
    next(batches)
    seconds = time.perf_counter() - begin
    if isinstance(loader, foreload.DataLoader):
        loader.close()
    return seconds


def measure(report: Report, name: str, workers: int, rounds: int) -> None:
    dataset = DATA[name]()
    makes: dict[str, Make] = {"foreload": foreloads, "torch": torchs}
    loaders = {who: make(dataset, workers) for who, make in makes.items()}
    runs: dict[str, list[dict[str, float]]] = {who: [] for who in makes}
    firsts: dict[str, list[float]] = {who: [] for who in makes}
    for number in range(rounds + 1):
        for who in list(makes)[:: 1 if number % 2 else -1]:
            run = epoch(loaders[who])
            if number > 0:  # the first one starts processes
                runs[who].append(run)
    for loader in loaders.values():
        if isinstance(loader, foreload.DataLoader):
            loader.close()
    del loaders, loader
    for number in range(rounds):
        for who in list(makes)[:: 1 if number % 2 else -1]:
            firsts[who].append(first_batch(makes[who], dataset, workers))

    def middle(who: str, what: str) -> float:
        return median(run[what] for run in runs[who])

    cpu = middle("foreload", "cpu")  # 0 where it is less than the system's clock can tell
    mine, theirs = (dataset.samples / middle(who, "seconds") for who in makes)
    report.add(
        f"{name}, {workers} workers",
        mine / theirs,
        mine,
        theirs,
        middle("torch", "cpu") / cpu if cpu else None,
        1e3 * median(firsts["foreload"]),
        1e3 * median(firsts["torch"]),
    )
    report.runs.append({"data": name, "workers": workers, "epochs": runs, "firsts": firsts})
    print(report.markdown().splitlines()[-1], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="*", metavar="DATA", help=f"of {', '.join(DATA)}; all")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    unknown = [name for name in given.data if name not in DATA]
    if unknown:
        parser.error(f"no data set {unknown[0]!r}: there are {', '.join(DATA)}")
    warnings.filterwarnings("ignore", "This DataLoader will create")
    report = Report(
        "python_datasets",
        "Samples per second of foreload.DataLoader over those of torch's DataLoader with as many "
        f"worker processes; medians of {given.rounds} epochs each, in turn.",
        [
            "data",
            "ratio",
            "foreload samples/s",
            "torch samples/s",
            "CPU time, torch / foreload",
            "first batch, foreload ms",
            "first batch, torch ms",
        ],
    )
    for name in given.data or DATA:
        for workers in WORKERS:
            measure(report, name, workers, given.rounds)
    report.write(given.out)


if __name__ == "__main__":
    main()
