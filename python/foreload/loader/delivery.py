# SPDX-License-Identifier: Apache-2.0
"""How batches come to the loop: from the engine, through a Python transform, to a device.

There is one engine, and every iteration has a place of its own. The engine is where the iteration
is that asked last. Where several ask in turn, the one whose turn it is takes a few batches at once.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from foreload import _core
from foreload._collate import pinned
from foreload._lost import LostError
from foreload.cluster.ranks import Ranks
from foreload.data.map_style import ListBatch
from foreload.device.feed import DeviceFeed
from foreload.loader.batch_maker import BatchMaker
from foreload.loader.engine_feed import Core, EngineFeed
from foreload.planning.place import Place
from foreload.planning.reading_lists import Reading, ReadingLists
from foreload.python_transforms.pipeline import Pipeline
from foreload.python_transforms.sample_maker import (
    BadSampleError,
    sample_generator,
    takes_generator,
)

# Batches that an iteration takes when the engine comes back to it, and how many another one must
# have taken meanwhile until what is left of them is given back.
TURN = 8
GIVEN_BACK_AFTER = 4 * TURN

NO_MODULUS = 2**63


@dataclass(eq=False)
class Run:
    """An iteration as the delivery sees it."""

    reading: Reading
    taken: int = 0  # batches that the engine has made for it
    # Of these, what the loop has not got yet.
    ready: deque[tuple[Any] | Exception | None] = field(default_factory=deque)
    over: bool = False


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
        self._last_is_random = last is not None and takes_generator(last)
        self._pin_memory = pin_memory
        self._ranks = ranks
        self._seed = seed
        self._epochs = epochs
        self._current: Run | None = None  # where the engine is
        self._start = 0  # of what it was brought to
        self._since = 0  # batches since then
        self._waiting: weakref.WeakSet[Run] = weakref.WeakSet()  # have batches that are ready
        self.own_seconds = 0.0  # that the loop's thread spent on putting batches together
        # Samples that were skipped on the way, beside those of the engine.
        self.skipped = [part.skipped for part in (batches, pipeline, device) if part is not None]

    def begin(self, place: Place, skip: int = 0) -> Run:
        """An iteration that begins there, or so many batches later."""
        if self._epochs is not None and place.epoch >= self._epochs:
            raise RuntimeError(
                f"epoch {place.epoch} is beyond epochs={self._epochs}: give more epochs, or leave "
                "epochs out"
            )
        run = Run(self._lists.reading(place))
        run.taken = skip if run.reading.batches is None else min(skip, run.reading.batches)
        self._bring(run)
        return run

    def _bring(self, run: Run) -> None:
        """Let the engine go on where an iteration is."""
        self._current, self._since = None, 0
        if self._pipeline is not None:
            self._pipeline.restart()
        reading = self._lists.after(run.reading, run.taken)
        if reading.batches != 0:
            self._start = reading.start
            self._seek(reading)
        self._current = run

    def _seek(self, reading: Reading) -> None:
        epoch, start = reading.place.epoch, reading.start
        if reading.lists is not None:
            if self._device is not None:
                self._device.begin(expected=False, runs_on=False)
            self.engine.begin_list(epoch, start, reading.lists)
            return
        if self._device is not None:
            expected = self.engine.stands_in(epoch, start)
            ends = self._epochs is not None and epoch + 1 >= self._epochs
            if self._device.begin(expected, runs_on=not ends and self._pipeline is None):
                return
        self.engine.begin(epoch, start)

    def receive(self, run: Run, seconds: float | None) -> tuple[Any] | None:
        """The next finished batch of an iteration; None at the end."""
        if run.ready:
            ready = run.ready.popleft()
            if isinstance(ready, Exception):
                raise ready
            return ready
        before = self._current
        if before is not run:
            self._bring(run)
        many = before is not None and before is not run and not before.over and run.taken > 0
        received = self._take(run, seconds)
        if many and received is not None:
            self._take_more(run)
        self._since += 1
        if self._since == GIVEN_BACK_AFTER:
            for other in self._waiting:
                other.taken -= len(other.ready)
                other.ready.clear()
            self._waiting.clear()
        return received

    def _take_more(self, run: Run) -> None:
        """So that the engine need not come back for each batch."""
        self._waiting.add(run)
        for _ in range(TURN - 1):
            if run.reading.batches is not None and run.taken >= run.reading.batches:
                return
            try:
                run.ready.append(self._take(run, None))
            except Exception as error:
                run.ready.append(error)
                return

    def _take(self, run: Run, seconds: float | None) -> tuple[Any] | None:
        try:
            received = self._next(seconds)
            if received is not None and self._last is not None:
                received = (self._timed(self._last, received[0], **self._random_numbers(run)),)
        except (TimeoutError, LostError):
            raise
        except Exception:
            run.taken += 1  # it counts as given
            if self.engine.lost or self._device is not None:
                self._current = None
            raise
        run.taken += received is not None
        return received

    def _next(self, seconds: float | None) -> tuple[Any] | None:
        if self._device is not None:
            result = self._device.next(self._in_host_memory, seconds)
            if result is None:
                return None
        else:
            made = self._in_host_memory(seconds)
            if made is None:
                return None
            result = pinned(made[0]) if self._pin_memory else made[0]
        return (result,)

    def _random_numbers(self, run: Run) -> dict[str, Any]:
        """What a function of whole batches gets that takes a generator: numbers by the place of the
        batch's first sample in the run alone."""
        if not self._last_is_random:
            return {}
        place = self._lists.consumed(run.reading, run.taken) + self._ranks.rank
        key = (self._seed, run.reading.place.epoch, place)
        return {"generator": sample_generator(key, stream=2)}

    def _in_host_memory(self, seconds: float | None) -> tuple[Any, Any] | None:
        """The next batch where it was made and the numbers of its samples, None at the end."""
        if self._pipeline is None:
            try:
                batch = self.engine.pull(seconds)
            except _core.CorruptError as error:  # a part of a sample
                raise BadSampleError(str(error)) from None
            if batch is None:
                return None
            if isinstance(batch, ListBatch):
                return batch.made, batch.indices
            return self._timed(self._batches.native, batch), batch.indices
        count = self._lists.order.entries if self._lists.sampler is None else NO_MODULUS
        made = self._pipeline.next(
            self.engine.pull,
            lambda batch: self._batches.tasks(
                batch, self._ranks, self._seed, self._start, count, self._core
            ),
            seconds,
        )
        if made is None:
            return None
        indices = made.indices.tolist()
        return self._timed(self._batches.collated, made.samples, indices), made.indices

    def take_back(self, run: Run, given: int) -> None:
        """The loop was interrupted, and has got so many batches of the iteration."""
        run.taken = given
        run.ready.clear()
        self._current = None

    def forget(self) -> None:
        """What was prepared ahead is of no use any more."""
        self.engine.forget()
        self._current = None

    def end(self, run: Run) -> None:
        """The loop was told that an iteration is over."""
        run.over = True
        if self._current is run and run.taken == run.reading.batches:
            self.engine.finish(run.reading.place.epoch)

    def _timed(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        begin = time.perf_counter()
        try:
            return function(*arguments, **more)
        finally:
            self.own_seconds += time.perf_counter() - begin

    def wake(self) -> None:
        """Whoever waits for a batch gives up; close() follows. Any thread may call it."""
        if self._pipeline is not None:
            self._pipeline.wake()
        if isinstance(self._core, _core.LoaderCore):
            self._core.close()  # which any thread may do
        else:
            self._core.wake()

    def close(self) -> None:
        """Nothing more is delivered."""
        if self._pipeline is not None:
            self._pipeline.close()
        if self._device is not None:
            self._device.restart()
        self._core.close()
