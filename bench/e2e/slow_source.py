# SPDX-License-Identifier: Apache-2.0
"""Accuracy over wall-clock time from a slow source, with torch's DataLoader and with foreload.

    foreload make-images /tmp/classes --count 5120 --classes 10 --mean-size 105KB --pixels 487x424
    python bench/e2e/slow_source.py /tmp/classes --out build/e2e/slow.json
    python bench/e2e/plot.py --slow build/e2e/slow.json --out slow.svg

A small ResNet learns generated classes, in the same order and with the same transform from both
(see pictures.py), so that they differ in time only. The source gives 60 MB/s in all and takes 4 ms
longer for each file. Where FUSE works, both read the same slow file system (bench/slowfs). Else
torch's workers take their bytes from a bucket that fills at that rate, and foreload's reads wait in
its own model of such a source: two implementations of the same rate, so what each got is measured
and written down.

Accuracy is that of training batches before the network has learnt from them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from inputs import opened_with
from networks import Training, warm_up
from pictures import Bucket, Course

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

from slowfs import SlowFs, find_program, why_not


def train(epochs: Iterator[Iterator[Any]], training: Training) -> dict[str, Any]:
    """Seconds since the start, right answers and images, for each step; ends of epochs."""
    steps, ends, begin = [], [], time.perf_counter()
    for epoch in epochs:
        for images, labels in epoch:
            _, scores = training.step(images, labels)
            right = int((scores.argmax(1) == labels).sum().item())
            steps.append((time.perf_counter() - begin, right, len(labels)))
        ends.append(time.perf_counter() - begin)
    return {"steps": steps, "epochs": ends}


def learn(name: str, course: Course, given: argparse.Namespace, mounted: bool) -> dict[str, Any]:
    """One loader's run, from a source of its own that is as slow as the other's."""
    network = "smaller" if given.dry else "small"
    with ExitStack() as stack:
        slow, bucket = None, None
        if mounted:
            slow = stack.enter_context(
                SlowFs(
                    Path(course.folder),
                    given.slowfs,
                    bandwidth=f"{int(given.rate)}B",
                    open_ms=1e3 * given.latency,
                )
            )
            course = replace(course, folder=str(slow.path))
        elif name == "torch":
            bucket = Bucket(given.rate, given.latency)
        else:
            stack.enter_context(
                opened_with(source_bandwidth=int(given.rate), source_latency_ms=1e3 * given.latency)
            )
        epochs = course.from_torch(bucket) if name == "torch" else course.from_foreload()
        run = train(epochs, Training(network, given.classes, course.device, decay=1e-4))
        if slow is not None:
            run["bytes_read"] = slow.counters()["read_bytes"]
        return run


def accuracy_of(run: dict[str, Any], window: int) -> list[tuple[float, float]]:
    """(seconds, share of right answers in the last steps), from the first whole window on."""
    steps = run["steps"]
    return [
        (
            steps[end - 1][0],
            sum(s[1] for s in steps[end - window : end])
            / sum(s[2] for s in steps[end - window : end]),
        )
        for end in range(window, len(steps) + 1)
    ]


def seconds_until(curve: list[tuple[float, float]], accuracy: float) -> float:
    return next(seconds for seconds, reached in curve if reached >= accuracy)


def compare(runs: dict[str, Any], bytes: int, rate: float) -> dict[str, Any]:
    """Times to the accuracy that both have reached, and what the first epoch got of the rate."""
    window = max(1, len(runs["torch"]["steps"]) // len(runs["torch"]["epochs"]) // 2)
    curves = {name: accuracy_of(run, window) for name, run in runs.items()}
    goal = min(max(share for _, share in curve) for curve in curves.values())
    return {
        "window": window,
        "accuracy": goal,
        "seconds": {name: seconds_until(curve, goal) for name, curve in curves.items()},
        "total_seconds": {name: run["epochs"][-1] for name, run in runs.items()},
        "first_epoch_of_rate": {
            name: bytes / run["epochs"][0] / rate for name, run in runs.items()
        },
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--rate", type=float, default=60e6, help="bytes per second")
    parser.add_argument("--latency", type=float, default=0.004, help="seconds for each file")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--source", choices=["auto", "mount", "bucket"], default="auto")
    parser.add_argument("--slowfs", type=Path, default=find_program(), help="the program")
    parser.add_argument("--dry", action="store_true", help="try the script where there is no GPU")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args(arguments)
    device = "cpu" if given.dry else "cuda"
    reason = "not asked for" if given.source == "bucket" else why_not(given.slowfs)
    if given.source == "mount" and reason is not None:
        sys.exit(f"no slow file system: {reason}")
    course = Course(given.folder, device, given.size, given.batch, given.epochs, given.workers)
    network = "smaller" if given.dry else "small"
    warm_up(network, given.classes, device, given.batch, given.size)
    bytes = sum(file.stat().st_size for file in Path(given.folder).rglob("*") if file.is_file())
    found: dict[str, Any] = {
        "source": {
            "kind": "mount" if reason is None else "bucket",
            "why": reason,
            "bytes_per_second": given.rate,
            "latency_seconds": given.latency,
            "data_set_bytes": bytes,
        },
        "runs": {},
    }
    for name in ("foreload", "torch"):
        try:
            run = learn(name, course, given, reason is None)
        except RuntimeError as error:  # slowfs did not start: both have to do without
            if reason is not None or found["runs"]:
                raise
            reason = str(error)
            found["source"] |= {"kind": "bucket", "why": reason}
            run = learn(name, course, given, False)
        found["runs"][name] = run
        print(f"{name:8} epochs end after {[round(at, 1) for at in run['epochs']]} s", flush=True)
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(found) + "\n")
    found["comparison"] = compare(found["runs"], bytes, given.rate)
    seconds = found["comparison"]["seconds"]
    print(
        f"{found['comparison']['accuracy']:.1%} accuracy after {seconds['torch']:.1f} s with "
        f"torch's DataLoader, {seconds['foreload']:.1f} s with foreload; of the source's rate in "
        f"the first epoch: {found['comparison']['first_epoch_of_rate']}"
    )
    if given.out is not None:
        given.out.write_text(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
