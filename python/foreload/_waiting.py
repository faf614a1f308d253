# SPDX-License-Identifier: Apache-2.0
"""Notices when the training loop waits for its batches, and says once what it waits for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Shares of an epoch from which on waiting is worth a word, and threads count as busy.
WORTH_A_WORD = 0.3
BUSY = 0.7
# Seconds that an epoch must take for its figures to mean anything.
LONG_ENOUGH = 5.0


class WaitWatch:
    """Measures the waits of each epoch. For the loop's thread."""

    def __init__(self, threads: int, clock: Any = time.monotonic) -> None:
        self._threads = threads
        self._clock = clock
        self._warned = False
        self._begin = 0.0
        self._work = 0.0
        self._started = False
        self.waited = 0.0  # in this epoch

    def begin(self, loader: Any) -> None:
        """An epoch begins."""
        self._begin = self._clock()
        self._work = _working_seconds(loader)
        self._started = False
        self.waited = 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The loop waits for a batch inside."""
        begin = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            if self._started:
                self.waited += now - begin
            else:  # what the first batch takes is how long it takes to start
                self._begin = now
                self._started = True

    def end(self, loader: Any) -> None:
        """An epoch is over: warn, if there is something to say that was not said."""
        seconds = self._clock() - self._begin
        if self._warned or seconds < LONG_ENOUGH or self.waited < WORTH_A_WORD * seconds:
            return
        share = (_working_seconds(loader) - self._work) / (seconds * self._threads)
        self._warned = True
        warnings.warn(self.message(self.waited / seconds, share), RuntimeWarning, stacklevel=4)

    def message(self, waited: float, working: float) -> str:
        """What to say about these shares of an epoch."""
        if working >= BUSY:
            return (
                f"the loop waited {waited:.0%} of the epoch for decoding: all {self._threads} "
                "threads were busy; more CPUs, smaller images, transforms.Decode(fast=True), or "
                "foreload.transforms instead of a Python function (workers='process' for one) "
                "would help"
            )
        return (
            f"the loop waited {waited:.0%} of the epoch for I/O: threads were busy {working:.0%} "
            "of the time; memory= or disk= for the data set would help from the second epoch on"
        )


def _working_seconds(loader: Any) -> float:
    """Seconds that threads have spent on samples so far."""
    stats = loader.stats()
    return float(stats.get("transform_seconds", 0.0)) + float(stats.get("decode_seconds", 0.0))
