# SPDX-License-Identifier: Apache-2.0
"""Batches on their way through a Python transform: several ahead, given out in order."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from foreload._interrupts import Undisturbed
from foreload._lost import LostError
from foreload.data.bad_samples import Skipped, substitutes
from foreload.python_transforms.makers import Made, Makers
from foreload.python_transforms.sample_maker import BadSampleError, Task

_GLANCE = 0.05  # seconds after which whoever waits looks whether the loader was closed

Work = list[tuple[Task, Future[Made]]]


@dataclass
class MadeBatch:
    """A batch whose samples are made."""

    samples: list[Any]
    indices: npt.NDArray[np.int64]  # whose samples these are; a substitute's for a skipped one


class Pipeline:
    """For the loop's thread.

    Args:
        makers: Who makes samples.
        ahead: Batches on their way at most.
        skip: Whether a bad sample's place takes the next good one of its batch, going round.
    """

    def __init__(self, makers: Makers, ahead: int, skip: bool) -> None:
        self._makers = makers
        self._ahead = ahead
        self._skip = skip
        self._window: deque[tuple[Any, Work | Exception]] = deque()
        self._drained = False
        self._closed = False
        self.seconds = 0.0  # that samples took, of all makers together
        self.cpu_seconds = 0.0  # of these, CPU time
        self.skipped = Skipped()

    def restart(self) -> None:
        """Forget what is on its way; another iteration begins."""
        with Undisturbed():
            self._forget()
            self._drained = False
            self._makers.restart()

    def _forget(self) -> None:
        for _, work in self._window:
            if not isinstance(work, Exception):
                for _, future in work:
                    future.cancel()
        self._window.clear()

    def next(
        self,
        pull: Callable[[float | None], Any],
        tasks: Callable[[Any], list[Task]],
        seconds: float | None,
    ) -> MadeBatch | None:
        """The next batch. `pull` gives batches as they were read, None at the end."""
        until = None if seconds is None else time.monotonic() + seconds
        self._fill(pull, tasks, seconds)
        if not self._window:
            return None
        try:
            made = self._made(*self._window[0], until)
        except TimeoutError:
            raise
        except BaseException:
            self._window.popleft()  # the next one can still be had
            raise
        self._window.popleft()
        return made

    def _made(self, batch: Any, work: Work | Exception, until: float | None) -> MadeBatch:
        if isinstance(work, Exception):
            raise work
        made: list[Any] = []
        bad: dict[int, BadSampleError] = {}
        while len(made) < len(work):
            self._wait(work[len(made)][1], until)
            with Undisturbed():  # a future whose lock is not released holds up who makes samples
                done = [*takewhile(Future.done, (future for _, future in work[len(made) :]))]
                outcomes = [self._outcome(future) for future in done]
            for outcome in outcomes:
                if isinstance(outcome, BadSampleError) and self._skip:
                    bad[len(made)] = outcome
                    made.append(None)
                    continue
                if isinstance(outcome, BaseException):
                    raise outcome
                sample, took, cpu = outcome
                self.seconds += took
                self.cpu_seconds += cpu
                made.append(sample)
        return self._substituted(made, batch.indices, bad, work)

    def _outcome(self, future: Future[Made]) -> Made | BaseException:
        try:
            return self._makers.take(future)
        except BaseException as error:
            return error

    def _wait(self, future: Future[Made], until: float | None) -> None:
        """Until the sample is made."""
        while True:
            left = _GLANCE if until is None else until - time.monotonic()
            with Undisturbed():
                with contextlib.suppress(TimeoutError, CancelledError):
                    future.exception(max(0.0, min(left, _GLANCE)))
                if future.done():
                    return
            if self._closed:
                raise LostError("the loader is closed")
            if left <= 0:
                raise TimeoutError

    def _fill(
        self,
        pull: Callable[[float | None], Any],
        tasks: Callable[[Any], list[Task]],
        seconds: float | None,
    ) -> None:
        while not self._drained and len(self._window) < self._ahead:
            try:
                batch = pull(0.0 if self._window else seconds)
            except TimeoutError:
                if not self._window:
                    raise
                return
            except Exception as error:
                if not self._window:
                    raise
                self._window.append((None, error))  # it is told when its turn comes
                self._drained = True
                return
            if batch is None:
                self._drained = True
            else:
                wanted = tasks(batch)
                with Undisturbed():
                    work = [(task, self._makers.submit(task)) for task in wanted]
                    self._window.append((batch, work))

    def _substituted(
        self,
        made: list[Any],
        indices: npt.NDArray[np.int64],
        bad: dict[int, BadSampleError],
        work: Work,
    ) -> MadeBatch:
        if len(bad) == len(made):
            raise BadSampleError(f"all {len(made)} samples of a batch are bad; {bad[0]}") from bad[
                0
            ]
        indices = indices.copy()
        for place, good in substitutes(bad, len(made)).items():
            made[place] = made[good]
            indices[place] = indices[good]
            self.skipped.add(work[place][0].name)
        return MadeBatch(made, indices)

    @property
    def has_work(self) -> bool:
        """Whether the next batch was read and is being made."""
        return bool(self._window)

    def wake(self) -> None:
        """Whoever waits for a batch gives up within a glance. Any thread may call it."""
        self._closed = True

    def close(self) -> None:
        """Let the makers end."""
        with Undisturbed():
            self._forget()
            self._makers.close()
