# SPDX-License-Identifier: Apache-2.0
"""Which samples an epoch has for this rank, in batches: by foreload's own order, or by a sampler of
the user's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any

import numpy as np

from foreload.planning.place import Place
from foreload.planning.sampler_checkpoint import Note, SamplerMemory
from foreload.planning.samplers import (
    Lists,
    OrderSampler,
    Sampled,
    batches_of,
    ends_of,
    list_of_batches,
    numbers_of,
)


@dataclass(frozen=True)
class Reading:
    """What is read from a place on."""

    place: Place
    batches: int | None  # that come; None: nobody knows
    lists: Lists | None = None  # what comes; None: C++ makes that list
    start: int = 0  # samples of all ranks before it: the key of random numbers
    note: Note | None = None  # what a checkpoint keeps of a sampler


class ReadingLists:
    """For the loop's thread.

    Args:
        order: foreload's own order.
        sampler: The user's, or
        batch_sampler: the user's; at most one of them.
        batch_size: Samples in a batch, and
        drop_last: whether one that is not full is left out.
        samples: How many there are; None: the data set takes whatever a sampler gives.
        stream: Whether nobody knows what comes.
    """

    def __init__(
        self,
        order: OrderSampler,
        sampler: Iterable[Any] | None,
        batch_sampler: Iterable[Sequence[Any]] | None,
        batch_size: int,
        drop_last: bool,
        samples: int | None,
        stream: bool,
    ) -> None:
        self.order = order
        self.sampler: Any = sampler if batch_sampler is None else batch_sampler  # the user's
        self._gives_batches = batch_sampler is not None
        who = "batch_sampler" if self._gives_batches else "sampler"
        self._memory = (
            None if self.sampler is None else SamplerMemory(self.sampler, who, order.samples)
        )
        self.batch_size = batch_size
        self._drop_last = drop_last
        self._samples = samples
        self._stream = stream

    def __len__(self) -> int:
        if self.sampler is None:
            return batches_of(len(self.order), self.batch_size, self._drop_last)
        if not isinstance(self.sampler, Sized):
            raise TypeError(
                f"len(loader) needs a sampler with __len__: {type(self.sampler).__name__} has none"
            )
        if self._gives_batches:
            return len(self.sampler)
        return batches_of(len(self.sampler), self.batch_size, self._drop_last)

    def reading(self, place: Place) -> Reading:
        """What an iteration reads that begins there. A sampler is asked for its list."""
        if self._memory is not None:
            return self._drawn(self._memory, place)
        if self._stream:
            return Reading(place, None, start=place.consumed)
        if self.order.pad == "none":
            lists = self._cut(self.order.indices(place.epoch, place.consumed))
            return Reading(place, len(lists[1]), lists, place.consumed)
        length = self.order.length(place.consumed)
        batches = batches_of(length, self.batch_size, self._drop_last)
        return Reading(place, batches, start=place.consumed)

    def _drawn(self, memory: SamplerMemory, place: Place) -> Reading:
        """What a sampler gives, from there on."""
        drawn, note = memory.draw(entered=place.consumed > 0)
        if self._gives_batches:
            lists = list_of_batches(drawn, self._samples)
            self._check_border(lists, place.consumed)
            whole = Reading(Place(place.epoch), len(lists[1]), lists, note=note)
            return self._rest(whole, place.consumed)
        samples = numbers_of(drawn, self._samples, "sampler")
        if place.consumed > len(samples):
            raise RuntimeError(
                f"the state is damaged: it was taken after {place.consumed:,} samples, but "
                f"the sampler gives {len(samples):,}; use another state"
            )
        lists = self._cut(samples[place.consumed :])
        start = place.consumed * self.order.num_replicas
        return Reading(place, len(lists[1]), lists, start, note)

    def _cut(self, samples: Sampled) -> Lists:
        """A list in batches, without what drop_last leaves out."""
        ends = ends_of(len(samples), self.batch_size, self._drop_last)
        return samples[: int(ends[-1]) if len(ends) else 0], ends

    def _rest(self, reading: Reading, consumed: int) -> Reading:
        """What is left of a list after some of its samples."""
        assert reading.lists is not None
        samples, ends = reading.lists
        ends = ends[np.searchsorted(ends, consumed, side="right") :] - consumed
        return Reading(
            Place(reading.place.epoch, reading.place.consumed + consumed),
            len(ends),
            (samples[consumed:], ends),
            reading.start + consumed * self.order.num_replicas,
            reading.note,
        )

    def after(self, reading: Reading, batches: int) -> Reading:
        """What is left of it after so many batches."""
        if batches == 0:
            return reading
        if reading.lists is None or self.sampler is None:
            return self.reading(Place(reading.place.epoch, self.consumed(reading, batches)))
        return self._rest(reading, int(reading.lists[1][batches - 1]))

    def _check_border(self, lists: Lists, consumed: int) -> None:
        if consumed not in (0, *lists[1].tolist()):
            raise RuntimeError(
                f"the state was taken after {consumed:,} samples, which is in the middle of a "
                "batch of this batch_sampler: give it the batch size that the state was taken with"
            )

    def consumed(self, reading: Reading, batches: int) -> int:
        """How much of the epoch is done after so many batches: samples of all ranks, samples of a
        sampler's list, or batches of a stream."""
        if batches == 0:
            return reading.place.consumed
        if self._stream:
            return reading.place.consumed + batches
        if self.sampler is not None:
            assert reading.lists is not None
            return reading.place.consumed + int(reading.lists[1][batches - 1])
        if batches == reading.batches:
            return self.order.entries
        done = reading.place.consumed + batches * self.batch_size * self.order.num_replicas
        return min(self.order.entries, done)

    def set_epoch(self, epoch: int) -> None:
        """The sampler's next list is of this epoch."""
        if self._memory is not None:
            self._memory.set_epoch(epoch)

    def upcoming_note(self) -> Note | None:
        """What a checkpoint keeps of the sampler while no list is drawn; None if there is none."""
        return None if self._memory is None else self._memory.upcoming()

    def load_note(self, note: Note | None) -> None:
        """Bring the sampler to where a checkpoint was taken."""
        if self._memory is not None:
            self._memory.load(note)
