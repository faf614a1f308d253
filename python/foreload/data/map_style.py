# SPDX-License-Identifier: Apache-2.0
"""The place of the C++ engine for data sets that are no files: somebody else makes the batches.

It walks the order, asks for a few batches ahead, also across the border of epochs, and gives them
out in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from foreload._arguments import Integers
from foreload._lost import LostError
from foreload.data.no_figures import NoFigures
from foreload.planning.samplers import Lists, OrderSampler, Sampled, ends_of


class Wanted(NamedTuple):
    """A batch that is to be made."""

    epoch: int
    indices: Sampled  # numbers of the samples, or whatever a sampler gives to the data set
    places: Integers  # where they are in the epoch of all ranks: the key of their random numbers


class Maker(Protocol):
    """Makes batches of a data set. For the loop's thread.

    What `take` raises belongs to one batch: the next one can be taken after it. TimeoutError does
    not use the ticket up. After LostError there are no batches any more.
    """

    @property
    def ahead(self) -> int:
        """Batches worth asking for before they are needed; 0: each is made when it is taken."""

    @property
    def beyond_the_epoch(self) -> bool:
        """Whether batches of the next epoch may be asked for before this one has ended."""

    @property
    def finished(self) -> bool:
        """Whether batches are what collate_fn gives, otherwise lists of bytes."""

    @property
    def seconds(self) -> float:
        """That samples and batches took so far, of all workers together."""

    @property
    def cpu_seconds(self) -> float:
        """Of these, CPU time."""

    @property
    def fingerprint(self) -> str:
        """Of what is known of the data set without reading it all."""

    def submit(self, wanted: Wanted) -> Any:
        """Begin to make a batch; gives a ticket for it."""

    def take(self, ticket: Any, seconds: float | None) -> Any:
        """The batch, TimeoutError if that takes longer, or what the data set raised."""

    def drop(self, ticket: Any) -> None:
        """The batch is not wanted any more."""

    def wake(self) -> None:
        """A thread that is inside take() shall give up; close() follows. Any thread may call it."""

    def close(self) -> None:
        """End everything that was started."""


@dataclass(frozen=True)
class ListBatch:
    """A batch as `_core.LoaderBatch` is one, made by somebody else."""

    epoch: int
    first: int  # place of its first sample in the list
    indices: Sampled
    made: Any
    pixels: None = None

    @property
    def data(self) -> Any:
        """The bytes of each sample, where the batch is not finished."""
        return self.made

    @property
    def labels(self) -> Integers:
        """Nobody knows classes here; decode() gives them."""
        return np.zeros(len(self.indices), dtype=np.int64)

    @property
    def apart(self) -> list[npt.NDArray[np.uint8]]:
        """Nothing is decoded here."""
        return []


class _Asked(NamedTuple):
    """A batch on its way."""

    epoch: int
    first: int
    indices: Sampled
    ticket: Any


class ListCore(NoFigures):
    """Gives batches in order, as `_core.LoaderCore` does.

    Args:
        maker: Makes them.
        order: Says which samples come, and whether lists of them are given.
        batch_size, drop_last: How they are cut.
        epochs: After which nothing more is asked for; None: there is always a next one.
        fingerprint: Of the data set, where it is not the maker's.
    """

    def __init__(
        self,
        maker: Maker,
        order: OrderSampler,
        batch_size: int,
        drop_last: bool,
        epochs: int | None = None,
        fingerprint: Callable[[], str] | None = None,
    ) -> None:
        self.maker = maker
        self._fingerprint = fingerprint
        self._order = order
        self.samples = order.samples
        self.bytes = 0
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._epochs = epochs
        self._epoch = 0  # of the batch that comes next
        self._start = 0
        self._asked: deque[_Asked | None] = deque()  # None: the end of an epoch
        self._coming: Iterator[_Asked | None] = iter(())  # what is to be asked for after these
        self.seek(0, 0)

    @property
    def fingerprint(self) -> str:
        """Of the data set."""
        return self.maker.fingerprint if self._fingerprint is None else self._fingerprint()

    def set_init_fn(self, init_fn: Callable[[int], Any] | None) -> None:
        """Another worker_init_fn."""
        if hasattr(self.maker, "set_init_fn"):
            self.maker.set_init_fn(init_fn)

    def give_list(self, samples: Sampled, batch_ends: Integers) -> None:
        """This rank's samples of the epoch that comes next."""
        self._forget()
        self._coming = self._walk(self._epoch, self._start, (samples, batch_ends))

    def next(self, seconds: float | None = None) -> ListBatch | None:
        """The next batch, None at the end of an epoch."""
        self._ask(max(1, self.maker.ahead))
        asked = self._asked[0]
        if asked is None:
            self._asked.popleft()
            self._epoch, self._start = self._epoch + 1, 0
            return None
        try:
            made = self.maker.take(asked.ticket, seconds)
        except (TimeoutError, LostError):
            raise
        except Exception:  # not an interrupt: the batch can still be had then
            self._asked.popleft()
            raise
        self._asked.popleft()
        return ListBatch(asked.epoch, asked.first, asked.indices, made)

    def seek(self, epoch: int, start: int) -> None:
        """The next batch is the first one after `start` samples of `epoch`."""
        self._forget()
        self._epoch, self._start = epoch, start
        self._coming = self._epochs_from(epoch, start)

    def batches_in(self, epoch: int) -> int:
        """Batches of an epoch."""
        length = self._order.length(self._start if epoch == self._epoch else 0)
        return len(ends_of(length, self._batch_size, self._drop_last))

    def _ask(self, count: int) -> None:
        """Have so many batches on their way, as far as there are any."""
        while len(self._asked) < count:
            if self._asked and self._asked[-1] is None and not self.maker.beyond_the_epoch:
                return
            asked = next(self._coming, ())
            if asked == ():
                if not self._asked:
                    raise RuntimeError("the list of this epoch was not given")
                return
            self._asked.append(asked)  # type: ignore[arg-type]

    def _epochs_from(self, epoch: int, start: int) -> Iterator[_Asked | None]:
        if self._order.settings.given:
            return
        while self._epochs is None or epoch < self._epochs:
            indices = self._order.indices(epoch, start)
            ends = ends_of(len(indices), self._batch_size, self._drop_last)
            yield from self._walk(epoch, start, (indices, ends))
            epoch, start = epoch + 1, 0

    def _walk(self, epoch: int, start: int, lists: Lists) -> Iterator[_Asked | None]:
        samples, ends = lists
        first = 0
        ranks, rank = self._order.num_replicas, self._order.rank
        for end in ends.tolist():
            indices = samples[first:end].copy()
            places = start + np.arange(first, end, dtype=np.int64) * ranks + rank
            if not self._order.settings.given:
                places %= self._order.entries  # what fills an epoch up is what was there before
            ticket = self.maker.submit(Wanted(epoch, indices, places))
            yield _Asked(epoch, first, indices, ticket)
            first = end
        yield None

    def _forget(self) -> None:
        for asked in self._asked:
            if asked is not None:
                self.maker.drop(asked.ticket)
        self._asked.clear()
        self._coming = iter(())

    def renew(self) -> None:
        """Let new worker processes have the data set as it is now; seek() must follow."""
        self._forget()
        if hasattr(self.maker, "renew"):
            self.maker.renew()

    def name_of(self, sample: int) -> bytes:
        """What to call a sample in a message."""
        return b"in memory"

    def wake(self) -> None:
        """Whoever waits for a batch gives up. Any thread may call it."""
        self.maker.wake()

    def close(self) -> None:
        """Nothing more is made."""
        self._forget()
        self.maker.close()
