# SPDX-License-Identifier: Apache-2.0
"""The figures that a verdict is made of: the engine's counters, and what this side counts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

from foreload import _core
from foreload.data.call_workers import WorkerMaker
from foreload.data.iterable_style import StreamCore
from foreload.data.map_style import ListCore
from foreload.device.feed import DeviceFeed
from foreload.loader.delivery import Delivery
from foreload.loader.engine_feed import Core
from foreload.python_transforms.pipeline import Pipeline
from foreload.reports.loop_times import WaitWatch
from foreload.reports.verdict import Figures, judge

# What the loop waits for where the verdict names this limit.
_AWAITED = {
    "loop": "a sample",
    "source": "the source: it has not given all files of the batch yet",
    "network": "other ranks, which have samples of the batch",
    "disk": "the disk cache",
    "decode": "decoding",
    "transform": "the Python transform",
}
_WORKERS = {True: "{} threads", False: "{} processes"}


class Makes(Protocol):
    """Whoever makes samples in Python."""

    @property
    def seconds(self) -> float:
        """That samples took, of all workers together."""

    @property
    def cpu_seconds(self) -> float:
        """Of these, CPU time."""


@dataclass
class _Counted:
    """What this side of the border had counted at a time."""

    own_seconds: float = 0.0
    transform_seconds: float = 0.0
    transform_cpu_seconds: float = 0.0
    skipped: int = 0
    skipped_names: int = 0


class Witness:
    """Gathers the figures of a loader. For the loop's thread; others may ask.

    Args:
        core: The engine.
        delivery: How batches come to the loop.
        waits: What the loop's thread measures.
        pipeline: Of a Python transform, if there is one; samples may also be made by the data set
            itself. Either has
        workers: so many
        in_threads: threads, or processes.
        device: On the way to a device, if there is one.
    """

    def __init__(
        self,
        core: Core,
        delivery: Delivery,
        waits: WaitWatch,
        pipeline: Pipeline | None,
        workers: int,
        in_threads: bool,
        device: DeviceFeed | None,
    ) -> None:
        self._core = core
        self._delivery = delivery
        self._waits = waits
        self._pipeline = pipeline
        self._makes: Makes | None = pipeline
        if isinstance(core, ListCore) and core.maker.finished:
            self._makes = core.maker
        elif isinstance(core, StreamCore):
            self._makes = core
        self._workers = max(1, workers)
        self._in_threads = in_threads if pipeline is not None else workers == 0
        # Batches come from processes, and there is nobody else to wait for.
        self._calls = workers > 0 and (
            isinstance(core, StreamCore)
            or (isinstance(core, ListCore) and isinstance(core.maker, WorkerMaker))
        )
        self._device = device
        self._skipped = delivery.skipped
        self._at_begin = _Counted()

    def begin_epoch(self) -> None:
        """An epoch has begun."""
        self._at_begin = self._counted()

    def epoch(self) -> Figures:
        """The current epoch as far as it has come, or the last one after its end."""
        ran_on = self._device is not None and self._device.ran_on
        engine = self._delivery.engine
        waits = self._waits
        figures: Figures = json.loads(
            engine.ended_figures if ran_on else self._core.epoch_figures_json()
        )
        figures["seconds"] = waits.seconds
        figures["waited"] = min(waits.waited, waits.seconds)
        figures["first_wait"] = waits.first_wait if waits.epochs == 1 else 0.0
        return self._with_own(figures, self._at_begin)

    def run(self) -> Figures:
        """All epochs so far."""
        waits = self._waits
        figures: Figures = json.loads(self._core.run_figures_json())
        figures["seconds"] = waits.run_seconds
        figures["waited"] = min(waits.run_waited, waits.run_seconds)
        figures["first_wait"] = waits.first_wait
        return self._with_own(figures, _Counted())

    def awaited(self, seconds: float) -> str:
        """What the loop, which has just waited so long and got nothing, waited for."""
        if self._calls:
            return "the data set, which makes the batch in a worker process"
        if self._pipeline is not None and self._pipeline.has_work:
            return f"the Python transform ({_WORKERS[self._in_threads].format(self._workers)})"
        figures = self.epoch() | {"seconds": seconds, "waited": seconds, "first_wait": 0.0}
        return _AWAITED[judge(figures)["limit"]]

    def _with_own(self, figures: Figures, before: _Counted) -> Figures:
        now = self._counted()
        figures["own_seconds"] = now.own_seconds - before.own_seconds
        figures["skipped"] = figures.get("skipped", 0) + now.skipped - before.skipped
        figures["skipped_names"] = (
            figures.get("skipped_names", []) + self.skipped_names()[before.skipped_names :]
        )
        if self._makes is not None:
            figures.setdefault("cpus", _core.available_cpus())
            figures["transform_workers"] = self._workers
            figures["transform_in_threads"] = self._in_threads
            figures["transform_cpu_seconds"] = (
                now.transform_cpu_seconds - before.transform_cpu_seconds
            )
            busy = (now.transform_seconds - before.transform_seconds) / self._workers
            if self._calls:  # what is not finished yet was not counted
                busy = max(busy, figures["waited"] - figures["own_seconds"])
            figures.setdefault("stages", {})["transform"] = {"busy_seconds": busy}
        return figures

    def _counted(self) -> _Counted:
        counted = _Counted(
            own_seconds=self._delivery.own_seconds,
            skipped=self.skipped,
            skipped_names=len(self.skipped_names()),
        )
        if self._makes is not None:
            counted.transform_seconds = self._makes.seconds
            counted.transform_cpu_seconds = self._makes.cpu_seconds
        return counted

    @property
    def skipped(self) -> int:
        """Samples that this side has skipped, beside those of the engine."""
        return sum(skipped.count for skipped in self._skipped)

    def skipped_names(self) -> list[str]:
        """The first of them."""
        return [name for skipped in self._skipped for name in skipped.names]
