# SPDX-License-Identifier: Apache-2.0
"""Who says which samples come next: foreload's own orders, or a sampler of the user's."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sized
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from foreload import _core
from foreload._arguments import whole
from foreload._iteration import Iteration
from foreload._ranks import Ranks

# A sampler without a length that gives more than this in one epoch is taken for an endless one.
MOST_DRAWN = 1 << 28

Integers = npt.NDArray[np.int64]
Lists = tuple[Integers, Integers]  # samples, and where batches end


class OrderSampler:
    """The order that the loader follows, for whoever asks for `loader.sampler`.

    It has what torch's DistributedSampler has: iterating over it gives this rank's samples of the
    coming epoch, and `set_epoch` chooses that epoch.
    """

    def __init__(
        self, samples: int, kind: str, seed: int, ranks: Ranks, pad: str, iteration: Iteration
    ) -> None:
        self.num_replicas = ranks.count
        self.rank = ranks.rank
        self.seed = seed
        self.shuffle = kind != "sequential"
        self.drop_last = pad == "truncate"
        self.samples = samples
        self.kind = kind
        self.pad = pad
        self._iteration = iteration

    @property
    def epoch(self) -> int:
        """The epoch that an iteration would have that is started now."""
        return self._iteration.upcoming.epoch

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """The next iteration is of this epoch."""
        self._iteration.set_epoch(whole("epoch", epoch))

    def indices(self, epoch: int, start: int = 0) -> Integers:
        """This rank's samples of an epoch, in order, after `start` that all ranks have read."""
        order = _core.Epoch(self.kind, self.samples, self.seed, epoch)
        if self.pad == "none":
            rest = order.reading_list(1, 0, "repeat", start, None)
            return np.ascontiguousarray(rest[self.rank :: self.num_replicas])
        return order.reading_list(self.num_replicas, self.rank, self.pad, start, None)

    def __len__(self) -> int:
        whole_shares, rest = divmod(self.samples, self.num_replicas)
        if self.pad == "truncate":
            return whole_shares
        more = self.rank < rest if self.pad == "none" else rest > 0
        return whole_shares + int(more)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices(self.epoch).tolist())


def batches_of(length: int, batch_size: int, drop_last: bool) -> int:
    """Number of batches that a list is cut into."""
    return length // batch_size + (0 if drop_last or length % batch_size == 0 else 1)


def ends_of(length: int, batch_size: int, drop_last: bool) -> Integers:
    """Where each batch of a list ends."""
    ends = np.arange(1, batches_of(length, batch_size, drop_last) + 1, dtype=np.int64) * batch_size
    return np.minimum(ends, length)


def _checked(drawn: Any, samples: int, who: str) -> Integers:
    indices = np.asarray(drawn)
    if indices.size and indices.dtype.kind not in "iu":
        raise TypeError(f"the {who} gave {indices.dtype}: it must give indices, as whole numbers")
    indices = indices.astype(np.int64)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < samples:
        wrong = int(indices.min()) if int(indices.min()) < 0 else int(indices.max())
        raise IndexError(
            f"the {who} gave index {wrong:,}: indices of this data set go from 0 to {samples - 1:,}"
        )
    return indices


def _endless(who: str) -> ValueError:
    return ValueError(
        f"the {who} has no __len__ and did not end after {MOST_DRAWN:,} indices: foreload takes "
        f"all indices of an epoch at once, so give a {who} that ends"
    )


def draw(sampler: Iterable[Any], batch_size: int, drop_last: bool, samples: int) -> Lists:
    """One epoch of a sampler: its samples, and where each batch ends."""
    limit = None if isinstance(sampler, Sized) else MOST_DRAWN + 1
    drawn = [int(index) for index in itertools.islice(iter(sampler), limit)]
    if limit is not None and len(drawn) == limit:
        raise _endless("sampler")
    indices = _checked(drawn, samples, "sampler")
    ends = ends_of(len(indices), batch_size, drop_last)
    return indices[: int(ends[-1]) if len(ends) else 0], ends


def draw_batches(batch_sampler: Iterable[Any], samples: int) -> Lists:
    """One epoch of a batch sampler."""
    drawn: list[int] = []
    ends: list[int] = []
    bounded = isinstance(batch_sampler, Sized)
    for batch in batch_sampler:
        drawn.extend(int(index) for index in batch)
        if (ends and len(drawn) == ends[-1]) or not drawn:
            raise ValueError(
                f"the batch_sampler gave an empty batch (batch {len(ends):,}): each batch needs at "
                "least one index"
            )
        ends.append(len(drawn))
        if not bounded and len(drawn) > MOST_DRAWN:
            raise _endless("batch_sampler")
    return _checked(drawn, samples, "batch_sampler"), np.asarray(ends, dtype=np.int64)
