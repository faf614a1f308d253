# SPDX-License-Identifier: Apache-2.0
"""Where the time of training steps went.

A step is the time from the end of the step before to its own end, on the GPU. It is split into

    loop      the GPU had nothing to do, and the loop had not asked for the next batch yet
    input     ... it had asked, and waited for the batch
    copy      ... it had the batch, but the batch was not on the GPU, or not normalised there
    compute   the GPU worked, or waited for the loop to give it more of this step

which add up. `input` is waiting for decoding where threads were busy decoding or nothing was read
from the source, for reading else; of torch's DataLoader nothing is known, it counts as reading.
Times of host and GPU are brought together by one moment that both know.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from machine import CollectorWatch, Gpu, cpu_seconds, seconds_ready

LONG = 1.1  # times the median: such a step is looked at
BUSY = 0.7  # share of the threads from which on decoding is what is waited for
collector = CollectorWatch()


@dataclass
class Counters:
    """What has happened so far, besides the time."""

    collecting: float = 0.0  # seconds
    ready: float = 0.0  # seconds without a CPU
    device_allocations: int = 0
    pinned_allocations: int = 0
    late: int = 0
    idle: int = 0
    decode_seconds: float = 0.0
    ready_batches: int = 0


@dataclass
class Step:
    """Moments in seconds since the loop began, and counters at the end."""

    asked: float
    got: float
    issued: float
    begin: float  # on the GPU, behind the copy
    end: float
    counters: Counters


@dataclass
class Epoch:
    steps: list[Step]
    cpu_seconds: float
    stolen_seconds: float
    over: float  # when the loop was told so, on the host
    from_source: int | None = None  # bytes, where the loader says so


@dataclass
class Log:
    """Steps of some epochs, one after another without a break."""

    epochs: list[Epoch]
    threads: int = 0
    _stalls: list[list[dict[str, float]]] = field(default_factory=list)

    def stalls(self) -> list[list[dict[str, float]]]:
        """The parts of each step, in seconds, by epoch."""
        if not self._stalls:
            last, before, busy_before = 0.0, 0.0, 0.0
            for epoch in self.epochs:
                split = []
                for step in epoch.steps:
                    busy = step.counters.decode_seconds
                    share = (busy - busy_before) / max(1e-9, self.threads * (step.got - before))
                    decoding = share >= BUSY or epoch.from_source == 0
                    split.append(parts_of(step, last, decoding))
                    last, before, busy_before = step.end, step.got, busy
                self._stalls.append(split)
        return self._stalls


def parts_of(step: Step, last: float, decoding: bool) -> dict[str, float]:
    """Where the time went since the end of the step before."""
    begin = max(step.begin, last)
    asked = min(max(step.asked, last), begin)
    got = min(max(step.got, asked), begin)
    waited = got - asked
    return {
        "loop": asked - last,
        "source": 0.0 if decoding else waited,
        "decode": waited if decoding else 0.0,
        "copy": begin - got,
        "compute": step.end - begin,
    }


def counters_of(gpu: Gpu, loader: Any) -> Counters:
    device, pinned = gpu.allocations()
    found = Counters(collector.seconds, seconds_ready(), device, pinned)
    if hasattr(loader, "epoch_stats"):  # foreload's
        stats = json.loads(loader._core.stats_json())
        found.decode_seconds = stats.get("decode_seconds", 0.0)
        found.ready_batches = stats.get("ready_batches", 0)
        if loader._feed is not None:
            found.late, found.idle = loader._feed._late, loader._feed._idle
    return found


def record(gpu: Gpu, loader: Any, epochs: Iterator[Iterator[Any]], train: Any) -> Log:
    """Train on all batches of all epochs; nothing waits for the GPU before the end."""
    gpu.synchronize()
    base, start = gpu.mark(), time.perf_counter()
    kept: list[tuple[list[Any], float, float, float, int | None]] = []
    for batches in epochs:
        worked, stolen = cpu_seconds()
        rows: list[Any] = []
        source = iter(batches)
        while True:
            asked = time.perf_counter()
            batch = next(source, None)
            if batch is None:
                break
            got = time.perf_counter()
            begin = gpu.mark()
            train(*batch)
            end = gpu.mark()
            issued = time.perf_counter()
            rows.append((asked, got, issued, begin, end, counters_of(gpu, loader)))
        now, taken = cpu_seconds()
        over = time.perf_counter() - start
        read = None
        if hasattr(loader, "epoch_stats"):
            read = loader.epoch_stats()["from"]["source"]
        kept.append((rows, now - worked, taken - stolen, over, read))
    gpu.synchronize()

    def step(row: Any) -> Step:
        *host, begin, end, counters = row
        moments = [gpu.milliseconds(base, moment) / 1e3 for moment in (begin, end)]
        return Step(*(at - start for at in host), *moments, counters)

    return Log(
        [Epoch([step(row) for row in rows], *rest) for rows, *rest in kept],
        getattr(loader, "num_workers", 0),
    )


def long_steps(log: Log, first: int, median: float) -> list[dict[str, Any]]:
    """Steps of the epochs from `first` on that took long, and what happened around them."""
    found = []
    for number, (epoch, split) in enumerate(zip(log.epochs, log.stalls(), strict=True)):
        if number < first:
            continue
        for index, (step, parts) in enumerate(zip(epoch.steps, split, strict=True)):
            took = sum(parts.values())
            if took <= LONG * median or index == 0:
                continue
            # The loop is up to two steps ahead: what held it up then is seen now.
            before = epoch.steps[max(0, index - 3)].counters
            now = step.counters
            usual = dict.fromkeys(parts, 0.0) | {"compute": median}
            excess = {name: parts[name] - usual[name] for name in parts}
            # The GPU worked as fast as it was told to where the loop issued the last of it late.
            slow = "loop" if step.issued > step.end - 2e-3 else "gpu"
            worst = max(excess, key=lambda name: excess[name])
            found.append(
                {
                    "epoch": number,
                    "step": index,
                    "of_median": took / median,
                    "cause": slow if worst == "compute" else worst,
                    "milliseconds": {name: 1e3 * value for name, value in parts.items()},
                    "collecting_ms": 1e3 * (now.collecting - before.collecting),
                    "without_cpu_ms": 1e3 * (now.ready - before.ready),
                    "device_allocations": now.device_allocations - before.device_allocations,
                    "pinned_allocations": now.pinned_allocations - before.pinned_allocations,
                    "late": now.late - before.late,
                    "idle": now.idle - before.idle,
                    "ready_batches": now.ready_batches,
                }
            )
    return found


def figures_of(log: Log, batch: int, first: int = 1) -> dict[str, Any]:
    """Rates by epoch, and of the epochs from `first` on: steps, pauses, long steps."""
    epochs, last, host = [], 0.0, 0.0
    for epoch, split in zip(log.epochs, log.stalls(), strict=True):
        end = epoch.steps[-1].end
        last_step = epoch.steps[-1].counters
        first_step = epoch.steps[0].counters
        epochs.append(
            {
                "images_per_second": len(epoch.steps) * batch / (end - last),
                "seconds": end - last,
                "steps": len(epoch.steps),
                "cpus": epoch.cpu_seconds / (epoch.over - host),
                "stolen_cpus": epoch.stolen_seconds / (epoch.over - host),
                "stalls": {name: sum(parts[name] for parts in split) for name in split[0]},
                "source_bytes": epoch.from_source,
                "late": last_step.late - first_step.late,
                "idle": last_step.idle - first_step.idle,
                "collecting_ms": 1e3 * (last_step.collecting - first_step.collecting),
                "device_allocations": last_step.device_allocations - first_step.device_allocations,
                "pinned_allocations": last_step.pinned_allocations - first_step.pinned_allocations,
            }
        )
        last, host = end, epoch.over
    steady = log.epochs[first:]
    steps = sorted(b.end - a.end for epoch in steady for a, b in pairwise(epoch.steps))
    median = statistics.median(steps)
    return {
        "first_batch_seconds": log.epochs[0].steps[0].got,
        "epochs": epochs,
        "images_per_second": statistics.median(e["images_per_second"] for e in epochs[first:]),
        "cpus": statistics.median(e["cpus"] for e in epochs[first:]),
        "step_ms": {
            "median": 1e3 * median,
            "p99": 1e3 * steps[int(len(steps) * 0.99)],
            "longest": 1e3 * steps[-1],
            "longest_of_median": steps[-1] / median,
            "from_epoch_to_epoch": max(
                (1e3 * (b.steps[0].end - a.steps[-1].end) for a, b in pairwise(log.epochs)),
                default=0.0,
            ),
        },
        "long_steps": long_steps(log, first, median),
        "steps_ms": [
            [round(1e3 * (b.end - a.end), 3) for a, b in pairwise(epoch.steps)]
            for epoch in log.epochs
        ],
    }
