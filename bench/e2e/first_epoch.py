# SPDX-License-Identifier: Apache-2.0
"""What limits the first epoch, in which all files come from the source.

    reading      what the files' disk gives to plain reads, by number of threads, cold and warm
    touching     what it costs to use memory for the first time, as a cache that fills does
    cold, warm   a first epoch with files not in the page cache, and in it
    nothing kept the same without memory to keep files in
    known source the source gives a known number of bytes per second: the bound is that number

The network alone, the source, and decoding (the part `tiny`) bound the first epoch; each variant
says how near it came to the lowest of the first two.
"""

from __future__ import annotations

import mmap
import os
import time
from typing import TYPE_CHECKING, Any

from inputs import files_of, forget_files, opened_with, read_rate

if TYPE_CHECKING:
    from train_resnet50 import Bench

THREADS = (4, 16, 64)


def touch_rate(bytes: int) -> float:
    """Bytes per second of writing to memory for the first time."""
    memory = mmap.mmap(-1, bytes)
    begin = time.perf_counter()
    for at in range(0, bytes, 4096):
        memory[at] = 1
    took = time.perf_counter() - begin
    memory.close()
    return bytes / took


def reading(bench: Bench, files: list[str]) -> float:
    """The most that plain reads got from cold files, in bytes per second."""
    rates: dict[str, dict[int, float]] = {"cold": {}, "warm": {}}
    share = len(files) // len(THREADS)
    for number, threads in enumerate(THREADS):
        some = files[number * share : (number + 1) * share]
        forget_files(some)
        rates["cold"][threads] = read_rate(some, threads)
        rates["warm"][threads] = read_rate(some, threads)
    touched = [touch_rate(bench.given.touch) for _ in range(2)]
    bench.keep("first", {"name": "reading", "bytes_per_second": rates, "touching": touched})
    return max(rates["cold"].values())


def first_epochs(bench: Bench) -> None:
    """Two epochs of each variant: the second tells what the first would have been."""
    files = files_of(bench.work.folder)
    if not bench.given.dry:
        os.sync()  # what is not on disk cannot be forgotten
    mean = bench.dataset_bytes / len(files)
    raw = reading(bench, files)
    for how in ("eager", "compiled"):
        training = bench.training("resnet50", how == "compiled")

        def first(
            name: str, bound: float, training: Any = training, how: str = how, **given: Any
        ) -> None:
            figures = bench.measure("first", "cpu", training, 2, f"{how}, {name}", **given)
            reached = figures["epochs"][0]["images_per_second"]
            limit = min(figures["epochs"][1]["images_per_second"], bound / mean)
            bench.keep(
                "first",
                {
                    "name": f"{how}, {name}: bound",
                    "images_per_second": reached,
                    "bound": limit,
                    "share": reached / limit,
                    "limited_by": "source" if limit == bound / mean else "second epoch's rate",
                },
            )

        forget_files(files)
        first("cold", raw)
        read_rate(files, 16)
        first("warm", float("inf"))
        if how == "compiled":
            forget_files(files)
            first("cold, nothing kept", raw, memory=0)
            read_rate(files, 16)
            first("warm, nothing kept", float("inf"), memory=0)
        read_rate(files, 16)
        known = bench.given.source
        first("known source", known, inside=opened_with(source_bandwidth=int(known)))
