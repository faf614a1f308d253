# SPDX-License-Identifier: Apache-2.0
"""The place of the C++ engine for samples that the program has in memory: nothing is read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foreload._samplers import OrderSampler, ends_of

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class MemoryBatch:
    """A batch as `_core.LoaderBatch` is one, of bytes."""

    epoch: int
    first: int
    last: bool
    indices: Integers
    data: list[memoryview]
    pixels: None = None

    @property
    def labels(self) -> Integers:
        """Nobody knows classes here; decode() gives them."""
        return np.zeros(len(self.indices), dtype=np.int64)

    @property
    def apart(self) -> list[npt.NDArray[np.uint8]]:
        """Nothing is decoded here."""
        return []

    def __len__(self) -> int:
        return len(self.indices)


class MemoryCore:
    """Gives batches of bytes in order, as `_core.LoaderCore` does."""

    def __init__(
        self,
        blob: Callable[[int], bytes],
        order: OrderSampler,
        batch_size: int,
        drop_last: bool,
    ) -> None:
        self._blob = blob
        self._order = order
        self.samples = order.samples
        self.bytes = 0
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._epoch = 0
        self._start = 0
        self._list: tuple[Integers, Integers] | None = None
        self._next = 0  # batch of the list

    @property
    def fingerprint(self) -> str:
        """Of the number of samples, the first and the last: reading all would take too long."""
        digest = hashlib.sha256(self.samples.to_bytes(8, "little"))
        digest.update(self._blob(0))
        digest.update(self._blob(self.samples - 1))
        return digest.hexdigest()[:32]

    def give_list(self, samples: Integers, batch_ends: Integers) -> None:
        """This rank's samples of the epoch that comes next."""
        self._list = samples, batch_ends

    def next(self, seconds: float | None = None) -> MemoryBatch | None:
        """The next batch, None at the end of an epoch."""
        del seconds
        if self._list is None:
            indices = self._order.indices(self._epoch, self._start)
            ends = ends_of(len(indices), self._batch_size, self._drop_last)
            self._list = indices, ends
        samples, ends = self._list
        if self._next >= len(ends):
            self.seek(self._epoch + 1, 0)
            return None
        first = int(ends[self._next - 1]) if self._next else 0
        indices = samples[first : int(ends[self._next])].copy()
        self._next += 1
        views = [memoryview(self._blob(int(index))) for index in indices]
        return MemoryBatch(self._epoch, first, self._next == len(ends), indices, views)

    def seek(self, epoch: int, start: int) -> None:
        """The next batch is the first one after `start` samples of `epoch`."""
        self._epoch, self._start = epoch, start
        self._list = None
        self._next = 0

    def batches_in(self, epoch: int) -> int:
        """Batches of an epoch."""
        indices = self._order.indices(epoch, self._start if epoch == self._epoch else 0)
        return len(ends_of(len(indices), self._batch_size, self._drop_last))

    def name_of(self, sample: int) -> bytes:
        """What to call a sample in a message."""
        return b"in memory"

    def close(self) -> None:
        """There is nothing to end."""

    def stats_json(self) -> str:
        """Nothing was read."""
        return "{}"

    def start_json(self) -> str:
        """Nothing was opened."""
        return '{"warnings": []}'

    def epoch_json(self) -> str:
        """Nobody waited."""
        return "{}"

    def epoch_figures_json(self) -> str:
        """Nothing was counted."""
        return "{}"

    def run_figures_json(self) -> str:
        """Nothing was counted."""
        return "{}"
