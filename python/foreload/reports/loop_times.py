# SPDX-License-Identifier: Apache-2.0
"""What the loop's own thread measures: how long its epochs take, and how long it waits in them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

_BINS_PER_DOUBLING = 8


@dataclass(frozen=True)
class _Times:
    before: float = 0.0  # seconds of earlier epochs, and
    waited_before: float = 0.0  # of waiting in them
    begin: float | None = None  # of the current epoch
    end: float | None = None  # of an epoch that is over


class WaitWatch:
    """For the loop's thread; others may look."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.now = clock
        self._times = _Times()  # replaced as a whole, so that who looks sees one moment
        self._bins: Counter[int] = Counter()  # waits of the epoch, by the logarithm of their time
        self.longest = 0.0
        self.waited = 0.0  # in this epoch
        self.first_wait = 0.0  # until the first batch of the run was there
        self.epochs = 0  # begun so far

    def begin(self, asked: float) -> None:
        """An epoch has begun whose first batch was asked for then."""
        self._times = _Times(self.run_seconds, self.run_waited, asked)
        self._bins.clear()
        self.longest = 0.0
        self.waited = self.now() - asked
        self.epochs += 1

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """The loop waits for a batch inside."""
        begin = self.now()
        came = False
        try:
            yield
            came = True
        finally:
            took = self.now() - begin
            if came and self.epochs == 1 and not self._bins:
                self.first_wait = self.waited + took
            self.waited += took
            self.longest = max(self.longest, took)
            if came:
                self._bins[_bin(took)] += 1

    def end(self) -> None:
        """The epoch is over."""
        self._times = replace(self._times, end=self.now())

    @property
    def seconds(self) -> float:
        """Of the epoch so far, or of the last one after its end."""
        return self._seconds(self._times)

    def _seconds(self, times: _Times) -> float:
        if times.begin is None:
            return 0.0
        return (self.now() if times.end is None else times.end) - times.begin

    @property
    def run_seconds(self) -> float:
        """Of all epochs, without what was between them."""
        times = self._times
        return times.before + self._seconds(times)

    @property
    def run_waited(self) -> float:
        """Of all epochs."""
        return self._times.waited_before + self.waited

    @property
    def fraction(self) -> float:
        """The share of the epoch that the loop waited."""
        seconds = self.seconds
        return min(1.0, self.waited / seconds) if seconds > 0 else 0.0

    def batch_wait_ms(self) -> dict[str, float]:
        """The waits of the epoch's batches; quantiles are those of bins 9 % wide."""
        return {
            "p50": 1e3 * self._quantile(0.5),
            "p99": 1e3 * self._quantile(0.99),
            "max": 1e3 * self.longest,
        }

    def _quantile(self, share: float) -> float:
        left = share * self._bins.total()
        for number, count in sorted(self._bins.items()):
            left -= count
            if left <= 0:
                return min(self.longest, 2 ** ((number + 1) / _BINS_PER_DOUBLING))
        return 0.0


def _bin(seconds: float) -> int:
    return math.floor(_BINS_PER_DOUBLING * math.log2(max(seconds, 1e-9)))
