# SPDX-License-Identifier: Apache-2.0
"""Who says which samples come next: foreload's own orders, or a sampler of the user's."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from foreload import _core
from foreload._arguments import Integers, whole
from foreload._torch_base import InOrderSampler, RankSampler, ShuffleSampler
from foreload.cluster.ranks import Ranks
from foreload.planning.place import Iteration

Sampled = npt.NDArray[Any]  # numbers of samples, or whatever a sampler gives to a data set
Lists = tuple[Sampled, Integers]  # samples, and where batches end


class OrderSampler:
    """The order that the loader follows, for whoever asks for `loader.sampler`.

    Iterating over it gives this rank's samples of the coming epoch, and `set_epoch` chooses that
    epoch, as with torch's DistributedSampler.
    """

    def __init__(
        self,
        samples: int,
        order: _core.OrderSettings,
        seed: int,
        ranks: Ranks,
        pad: str,
        iteration: Iteration,
    ) -> None:
        self.num_replicas = ranks.count
        self.rank = ranks.rank
        self.seed = seed
        self.shuffle = order.kind != "sequential"
        self.drop_last = pad == "truncate"
        self.dataset = range(samples)  # as far as a sampler is concerned
        self.samples = samples
        self.entries = order.entries(samples) if samples else 0  # of an epoch
        self.settings = order
        self.kind = order.kind
        self.pad = pad
        self._iteration = iteration

    @property
    def num_samples(self) -> int:
        """This rank's samples of an epoch."""
        return len(self)

    @property
    def total_size(self) -> int:
        """Samples that all ranks read in an epoch."""
        return self.entries if self.pad == "none" else len(self) * self.num_replicas

    @property
    def epoch(self) -> int:
        """The epoch that an iteration would have that is started now."""
        return self._iteration.upcoming.epoch

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next iteration is of this epoch."""
        self._iteration.set_epoch(whole("epoch", epoch))

    def indices(self, epoch: int, start: int = 0) -> Integers:
        """This rank's samples of an epoch, in order, after `start` that all ranks have read."""
        order = _core.Epoch(self.settings, self.samples, self.seed, epoch)
        if self.pad == "none":
            rest = order.reading_list(1, 0, "repeat", start, None)
            return np.ascontiguousarray(rest[self.rank :: self.num_replicas])
        return order.reading_list(self.num_replicas, self.rank, self.pad, start, None)

    def length(self, start: int = 0) -> int:
        """How many samples this rank has of an epoch of which all ranks have read `start`."""
        whole_shares, rest = divmod(max(0, self.entries - start), self.num_replicas)
        if self.pad == "truncate":
            return whole_shares
        more = self.rank < rest if self.pad == "none" else rest > 0
        return whole_shares + int(more)

    def __len__(self) -> int:
        return self.length()

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices(self.epoch).tolist())


# Trainers look at the class. With several ranks they must see that samples are shared out already;
# a loader that was made for one rank may be made again for several.


class _Shared(OrderSampler, RankSampler):  # type: ignore[misc]
    pass


class _Shuffled(OrderSampler, ShuffleSampler):  # type: ignore[misc]
    pass


class _InOrder(OrderSampler, InOrderSampler):  # type: ignore[misc]
    pass


def order_sampler(
    samples: int,
    order: _core.OrderSettings,
    seed: int,
    ranks: Ranks,
    pad: str,
    iteration: Iteration,
) -> OrderSampler:
    """An OrderSampler that is also what torch's loader would have there."""
    alone = _InOrder if order.kind == "sequential" else _Shuffled
    chosen = _Shared if ranks.count > 1 else alone
    return chosen(samples, order, seed, ranks, pad, iteration)


def batches_of(length: int, batch_size: int, drop_last: bool) -> int:
    """Number of batches that a list is cut into."""
    return length // batch_size + (0 if drop_last or length % batch_size == 0 else 1)


def ends_of(length: int, batch_size: int, drop_last: bool) -> Integers:
    """Where each batch of a list ends."""
    ends = np.arange(1, batches_of(length, batch_size, drop_last) + 1, dtype=np.int64) * batch_size
    return np.minimum(ends, length)


def numbers_of(drawn: list[Any], samples: int | None, who: str) -> Sampled:
    """What a sampler gave, as an array. `samples`: how many there are, where foreload reads them
    itself; None: the data set takes whatever it is given."""
    if samples is None:
        if all(type(index) is int and -(2**63) <= index < 2**63 for index in drawn):
            return np.asarray(drawn, dtype=np.int64)
        given = np.empty(len(drawn), dtype=object)
        for place, index in enumerate(drawn):  # as it is, also if it is a list or an array
            given[place] = index
        return given
    try:
        indices = np.asarray([*map(operator.index, drawn)], dtype=np.int64)
    except (TypeError, OverflowError):
        wrong = next(index for index in drawn if not _is_index(index))
        raise TypeError(
            f"the {who} gave {wrong!r}: give whole numbers from 0 to {samples - 1:,}"
        ) from None
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < samples:
        beyond = int(indices.min()) if int(indices.min()) < 0 else int(indices.max())
        raise IndexError(
            f"the {who} gave index {beyond:,}: indices of this data set go from 0 to "
            f"{samples - 1:,}"
        )
    return indices


def _is_index(value: Any) -> bool:
    try:
        return -(2**63) <= operator.index(value) < 2**63
    except TypeError:
        return False


def list_of_batches(drawn: list[Any], samples: int | None) -> Lists:
    """One epoch of a batch sampler."""
    flat: list[Any] = []
    ends: list[int] = []
    for number, batch in enumerate(drawn):
        if not isinstance(batch, Iterable):
            raise TypeError(
                f"the batch_sampler gave {batch!r} as batch {number:,}: give a list of indices for "
                "each batch, or give it as sampler="
            )
        flat.extend(batch)
        if len(flat) == (ends[-1] if ends else 0):
            raise ValueError(
                f"the batch_sampler gave an empty batch (batch {number:,}): each batch needs at "
                "least one index"
            )
        ends.append(len(flat))
    return numbers_of(flat, samples, "batch_sampler"), np.asarray(ends, dtype=np.int64)
