# SPDX-License-Identifier: Apache-2.0
"""Samples of an opened data set before anybody asks for them."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable

import numpy as np

from foreload import _core


class ReadAhead:
    """Asks for what will be asked for soon, in the order that somebody foretold; any thread may use
    it. A forecast that is wrong costs reads, never a wrong sample.

    Args:
        core: The engine that has them.
        most: Samples that are asked for ahead at a time.
    """

    def __init__(self, core: _core.LoaderCore, most: int) -> None:
        self._core = core
        self._most = most
        self._lock = threading.Lock()
        self._coming: deque[int] = deque()
        self._overtaken: Counter[int] = Counter()  # asked for before their turn to be read ahead
        self._ahead: dict[int, _core.FetchTicket] = {}

    def expect(self, samples: Iterable[int]) -> None:
        """These come next; what was expected before does not count any more."""
        coming = deque(samples)
        with self._lock:
            self._coming = coming
            self._overtaken.clear()
            self._ahead.clear()
            self._go_on()

    def ask(self, samples: list[int]) -> list[_core.FetchTicket]:
        """Tickets for the samples, in order; neighbours may share one."""
        tickets: list[_core.FetchTicket] = []
        left: list[int] = []

        def ask_for_left() -> None:
            if left:
                tickets.append(self._fetch(left))
                left.clear()

        with self._lock:
            for sample in samples:
                ticket = self._ahead.pop(sample, None)
                if ticket is not None:
                    ask_for_left()
                    tickets.append(ticket)
                else:
                    left.append(sample)
                    if self._coming:
                        self._overtaken[sample] += 1
            ask_for_left()
            self._go_on()
        return tickets

    def _fetch(self, samples: list[int]) -> _core.FetchTicket:
        return self._core.fetch(np.array(samples, dtype=np.int64), as_bytes=True)

    def _go_on(self) -> None:
        while self._coming and len(self._ahead) < self._most:
            sample = self._coming.popleft()
            if self._overtaken[sample] > 0:
                self._overtaken[sample] -= 1
            elif sample not in self._ahead:
                self._ahead[sample] = self._fetch([sample])
