# SPDX-License-Identifier: Apache-2.0
"""How batches come to the loop: from the engine, through a Python transform, to a device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from foreload._batches import BatchMaker
from foreload._collate import pinned
from foreload._device import DeviceFeed
from foreload._engine_feed import Core, EngineFeed
from foreload._iteration import Iteration, Place
from foreload._list_core import ListBatch
from foreload._pipeline import Pipeline
from foreload._ranks import Ranks
from foreload._reading_lists import ReadingLists


class Delivery:
    """One for each loader, for the loop's thread.

    Args:
        core: The engine.
        lists: What is read.
        batches: Makes what the loop gets.
        pipeline: Of a Python transform, if there is one.
        device: On the way to a device, if there is one.
        last: Does something to each finished batch.
        ranks, seed, epochs: Of the loader.
    """

    def __init__(
        self,
        core: Core,
        lists: ReadingLists,
        batches: BatchMaker,
        pipeline: Pipeline | None,
        device: DeviceFeed | None,
        last: Callable[[Any], Any] | None,
        pin_memory: bool,
        ranks: Ranks,
        seed: int,
        epochs: int | None,
    ) -> None:
        self._core = core
        self.engine = EngineFeed(core)
        self._lists = lists
        self._batches = batches
        self._pipeline = pipeline
        self._device = device
        self._last = last
        self._pin_memory = pin_memory
        self._ranks = ranks
        self._seed = seed
        self._epochs = epochs
        self.own_seconds = 0.0  # that the loop's thread spent on putting batches together

    def begin(self, iteration: Iteration) -> tuple[int, Place, int]:
        """Start an iteration and bring the engine there: its number, where it begins, and how many
        batches it has."""
        epoch = iteration.upcoming.epoch
        if self._epochs is not None and epoch >= self._epochs:
            raise RuntimeError(
                f"epoch {epoch} is beyond epochs={self._epochs}: give more epochs, or leave "
                "epochs out"
            )
        drawn = self._lists.draw()  # may fail: nothing has begun yet
        turn, place = iteration.begin()
        if self._pipeline is not None:
            self._pipeline.restart()
        if drawn is not None:
            return (
                turn,
                place,
                self._begin_list(place.epoch, drawn, min(place.consumed, len(drawn[1])), 0),
            )
        if place.consumed >= self._lists.order.samples:
            return turn, place, 0
        rest = self._lists.rest(place)
        if rest is not None:
            return turn, place, self._begin_list(place.epoch, rest, 0, place.consumed)
        if self._device is not None:
            expected = self.engine.stands_in(place.epoch, place.consumed)
            ends = self._epochs is not None and place.epoch + 1 >= self._epochs
            if self._device.begin(expected, runs_on=not ends and self._pipeline is None):
                return turn, place, self._core.batches_in(place.epoch)
        return turn, place, self.engine.begin(place.epoch, place.consumed)

    def _begin_list(self, epoch: int, lists: Any, skip: int, start: int) -> int:
        if self._device is not None:
            self._device.begin(expected=False, runs_on=False)
        if len(lists[1]) == skip:
            return 0
        return self.engine.begin_list(epoch, start, lists, skip)

    def receive(self, place: Place, seconds: float | None) -> tuple[Any] | None:
        """The next finished batch of an iteration that began there; None at the end."""
        start = place.consumed if self._lists.sampler is None else 0
        if self._device is not None:
            result = self._device.next(lambda wait: self._in_host_memory(start, wait), seconds)
            if result is None:
                return None
        else:
            made = self._in_host_memory(start, seconds)
            if made is None:
                return None
            result = pinned(made[0]) if self._pin_memory else made[0]
        return (result if self._last is None else self._timed(self._last, result),)

    def _in_host_memory(self, start: int, seconds: float | None) -> tuple[Any, Any] | None:
        """The next batch where it was made and the numbers of its samples, None at the end."""
        if self._pipeline is None:
            batch = self.engine.pull(seconds)
            if batch is None:
                return None
            if isinstance(batch, ListBatch):
                return batch.made, batch.indices
            return self._timed(self._batches.native, batch), batch.indices
        count = self._lists.order.samples
        made = self._pipeline.next(
            self.engine.pull,
            lambda batch: self._batches.tasks(
                batch, self._ranks, self._seed, start, count, self._core.name_of
            ),
            seconds,
        )
        if made is None:
            return None
        indices = made.indices.tolist()
        return self._timed(self._batches.collated, made.samples, indices), made.indices

    def _timed(self, function: Callable[..., Any], *arguments: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments)
        finally:
            self.own_seconds += time.perf_counter() - begin

    def close(self) -> None:
        """Nothing more is delivered."""
        if self._pipeline is not None:
            self._pipeline.close()
        if self._device is not None:
            self._device.restart()
        self._core.close()
