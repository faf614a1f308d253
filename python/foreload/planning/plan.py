# SPDX-License-Identifier: Apache-2.0
"""What a training job reads, keeps where, and costs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np
import numpy.typing as npt

from foreload import _core
from foreload._arguments import MAX_UINT32, Bytes, Integers, budget, integers, size, whole
from foreload._keywords import takes_settings
from foreload._settings import PlanSettings

if TYPE_CHECKING:
    from typing_extensions import Unpack


@takes_settings(PlanSettings)
def plan(
    dataset: str | os.PathLike[str] | _core.Index | None = None,
    *,
    samples: SupportsIndex | None = None,
    mean_size: Bytes | None = None,
    size_sigma: Bytes = 0,
    sizes: npt.ArrayLike | None = None,
    ranks: SupportsIndex = 1,
    memory: Bytes | Sequence[Bytes] | Integers = 0,
    disk: Bytes | Sequence[Bytes] | Integers = 0,
    placement: str = "cover",
    held: npt.ArrayLike | None = None,
    extensions: str | Sequence[str] | None = None,
    threads: SupportsIndex = 0,
    **settings: Unpack[PlanSettings],
) -> _core.Plan:
    """Plan a training job: what each rank reads, who keeps what, and what comes from the source.

    Say which data set in one of three ways: `dataset`; `samples` and `mean_size`; or `sizes`.
    Sizes are bytes, or text with a unit such as "2GiB", "2GB" or "100KiB".

    Args:
        dataset: A folder, an index file, or an Index.
        samples: Number of samples of a data set that need not exist.
        mean_size: Mean size of its samples.
        size_sigma: Standard deviation of their sizes, drawn from a normal distribution that is
            cut at 0 (which raises the mean where sigma is large).
        sizes: Bytes of each sample, -1 where nobody knows (the mean of the others is taken).
        ranks: Number of ranks.
        ranks_per_node: Ranks that share a node, its memory and its disk.
        per_rank: Whether `memory` and `disk` are what each rank has, instead.
        epochs: Number of epochs; None if nobody knows.
        batch_size: Samples in a batch of one rank.
        drop_last: Whether a last batch that is not full is left out.
        seed: From -2**63 up to 2**64 - 1; taken modulo 2**64, as torch does.
        order: "torch", "sequential", "feistel" or a `foreload.WeightedOrder`; see `foreload.order`.
        pad: "repeat" or "truncate"; see `foreload.order`.
        first_epoch: The epoch the job starts or resumes in.
        start: Samples of that epoch that all ranks together have read before.
        memory: Memory that a node may fill with samples; one size, or one per node.
        disk: The same for local disk.
        placement: "cover" (every sample has one owner as long as there is room), "independent"
            (each rank keeps what it reads most often) or "computed" (owners without tables, for
            billions of samples).
        held: For each sample the rank that has it on disk already, or -1.
        extensions: Which files of a folder are samples; see `foreload.list_folder`.
        threads: Threads to plan with; 0 takes the CPUs this process may use.
    """
    job = _core.Settings(ranks=ranks, **settings)
    in_memory, on_disk = _shares("memory", memory, job), _shares("disk", disk, job)
    entries = max(len(in_memory), len(on_disk))
    budgets = [
        (in_memory[rank % len(in_memory)], on_disk[rank % len(on_disk)]) for rank in range(entries)
    ]
    return _core.make_plan(
        job,
        sizes=_sizes(dataset, samples, mean_size, size_sigma, sizes, extensions),
        placement=placement,
        budgets=budgets,
        held=None if held is None else integers("held", held, low=-1, high=job.ranks - 1),
        threads=whole("threads", threads, 0, MAX_UINT32),
    )


def _shares(name: str, value: Bytes | Sequence[Bytes] | Integers, job: _core.Settings) -> list[int]:
    """What a rank has of the budgets that nodes, or ranks, have: one for all (a list of one), or
    one for each."""
    together = 1 if job.per_rank else job.ranks_per_node
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        return [budget(name, value) // together]
    owners = -(-job.ranks // together)
    sizes = [size(name, entry) // together for entry in value]
    if len(sizes) != owners:
        who = "rank" if job.per_rank or job.ranks_per_node == 1 else "node"
        raise ValueError(
            f"{name} has {len(sizes):,} entries for {owners:,} {who}s: give one size, or one per "
            f"{who}"
        )
    return [sizes[rank // together] for rank in range(job.ranks)]


def _sizes(
    dataset: str | os.PathLike[str] | _core.Index | None,
    samples: SupportsIndex | None,
    mean_size: Bytes | None,
    size_sigma: Bytes,
    sizes: npt.ArrayLike | None,
    extensions: str | Sequence[str] | None,
) -> _core.Sizes:
    if (dataset is not None) + (samples is not None) + (sizes is not None) != 1:
        raise ValueError("give one of dataset, samples (with mean_size) and sizes")
    if (samples is None) != (mean_size is None):
        raise ValueError("samples and mean_size go together: give both or neither")
    if samples is not None and mean_size is not None:
        return _core.Sizes.normal(
            whole("samples", samples),
            size("mean_size", mean_size),
            size("size_sigma", size_sigma),
            0,  # the data set does not change with the seed of the shuffle
        )
    if sizes is not None:
        return _core.Sizes.of(integers("sizes", sizes, low=-1))
    assert dataset is not None
    if not isinstance(dataset, _core.Index):
        dataset = _core.Index.open(dataset, extensions)
    return _core.Sizes.of_index(dataset)
