# SPDX-License-Identifier: Apache-2.0
"""Who reads which sample, and when."""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from foreload import _core
from foreload._arguments import MAX_UINT32, Integers, integers, maybe_whole, seed_word, whole
from foreload.planning.weighted_order import WeightedOrder


def order(
    samples: SupportsIndex,
    *,
    ranks: SupportsIndex = 1,
    rank: SupportsIndex | None = 0,
    epoch: SupportsIndex = 0,
    seed: SupportsIndex = 0,
    order: str | WeightedOrder | npt.ArrayLike = "torch",
    pad: str = "repeat",
    start: SupportsIndex = 0,
    limit: SupportsIndex | None = None,
) -> Integers:
    """The samples that a rank reads in an epoch, in order.

    Args:
        samples: Number of samples in the data set.
        ranks: Number of ranks that share the epoch.
        rank: Whose list to give; None gives the list of all ranks together, rank 0 first in
            every step.
        epoch: Number of the epoch, from 0.
        seed: From -2**63 up to 2**64 - 1; taken modulo 2**64, as torch does.
        order: "torch" (what DistributedSampler(shuffle=True) gives, bit for bit), "sequential"
            (shuffle=False), "feistel" (a permutation that needs no memory), a
            `foreload.WeightedOrder`, or the indices that the epoch visits, repeats allowed.
        pad: "repeat" (the end is filled up with samples from the start) or "truncate" (the last
            few are left out, DistributedSampler's drop_last=True), so that all ranks read
            equally many.
        start: Samples of this epoch that all ranks together have read before; the rest is dealt
            out to `ranks` ranks, which may be another number than before.
        limit: Stop after this many entries.
    """
    count = whole("ranks", ranks, 1, MAX_UINT32)
    who = None if rank is None else whole("rank", rank, 0, MAX_UINT32)
    first = whole("start", start)
    most = maybe_whole("limit", limit)
    return _epoch(samples, order, seed, epoch).reading_list(count, who, pad, first, most)


def find(
    samples: SupportsIndex,
    sample: SupportsIndex,
    *,
    ranks: SupportsIndex = 1,
    epoch: SupportsIndex = 0,
    seed: SupportsIndex = 0,
    order: str | WeightedOrder | npt.ArrayLike = "torch",
    pad: str = "repeat",
    start: SupportsIndex = 0,
) -> tuple[int, int] | None:
    """Who reads a sample in an epoch and when, as (rank, step); None if nobody does.

    Looks for the first read, padding apart: `order(..., rank=rank)[step] == sample`. The
    arguments are those of `order`. Takes constant time for "feistel" and "sequential" orders.
    """
    count = whole("ranks", ranks, 1, MAX_UINT32)
    first = whole("start", start)
    wanted = whole("sample", sample)
    return _epoch(samples, order, seed, epoch).find(wanted, count, pad, first)


def batches(
    indices: npt.ArrayLike, batch_size: SupportsIndex, drop_last: bool = False
) -> list[npt.NDArray[np.int64]]:
    """Cut a reading list into batches, as views of it.

    The last batch may be shorter than `batch_size`; `drop_last` leaves it out then.
    """
    array = np.asarray(indices)
    length = whole("batch_size", batch_size, 1)
    end = len(array) - len(array) % length if drop_last else len(array)
    return [array[first : first + length] for first in range(0, end, length)]


def _epoch(
    samples: SupportsIndex,
    order: str | WeightedOrder | npt.ArrayLike,
    seed: SupportsIndex,
    epoch: SupportsIndex,
) -> _core.Epoch:
    total = whole("samples", samples)
    word = seed_word(seed)
    number = whole("epoch", epoch)
    if isinstance(order, str | WeightedOrder):
        return _core.Epoch(order, total, word, number)
    return _core.Epoch.given(total, integers("order", order, low=0))
