# SPDX-License-Identifier: Apache-2.0
"""Who makes the batches of a data set that foreload does not read itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from foreload.data.blobs import BlobMaker
from foreload.data.call_workers import WorkerMaker
from foreload.data.calls import CallMaker
from foreload.data.iterable_style import StreamCore
from foreload.data.map_style import ListCore, Maker
from foreload.data.rows import rows_of, with_rows
from foreload.data.samples import Samples
from foreload.planning.samplers import OrderSampler


@dataclass(frozen=True)
class PythonData:
    """A data set and what its user says about the processes that call it."""

    samples: Samples
    collate_fn: Callable[[Any], Any] | None
    single: bool  # samples, not batches
    seed: int
    workers: int
    ahead: int  # batches for each worker
    worker_init_fn: Callable[[int], object] | None
    context: Any


def core_of(
    data: PythonData,
    order: OrderSampler,
    batch_size: int | None,
    drop_last: bool,
    epochs: int | None,
) -> ListCore | StreamCore:
    """What stands in the engine's place."""
    if data.samples.stream:
        return StreamCore(
            data.samples.dataset,
            data.collate_fn,
            batch_size,
            drop_last,
            data.seed,
            data.workers,
            data.ahead,
            data.worker_init_fn,
            data.context,
            order.rank,
            order.num_replicas,
        )
    maker = _maker(data)
    fingerprint = functools.partial(_fingerprint, data.samples, maker)
    return ListCore(maker, order, batch_size or 1, drop_last, epochs, fingerprint)


def _fingerprint(samples: Samples, maker: Maker) -> str:
    """Of rows the same one, whether they are gathered, called, batched or given one by one."""
    if samples.blobs is None:
        try:
            rows = rows_of(samples.dataset, single=True)
        except ValueError:  # rows that only a collate_fn of the user's can use
            rows = None
        if rows is not None:
            return rows.fingerprint
    return maker.fingerprint


def _maker(data: PythonData) -> Maker:
    samples = data.samples
    if samples.blobs is not None:
        return BlobMaker(samples.blobs, samples.count or 0)
    rows = None if data.collate_fn is not None else rows_of(samples.dataset, data.single)
    if rows is not None and (rows.native or type(samples.dataset) is dict):
        return rows
    dataset = with_rows(samples.dataset)
    if data.workers == 0:
        return CallMaker(dataset, data.collate_fn, data.single, data.seed)
    return WorkerMaker(
        dataset,
        data.collate_fn,
        data.single,
        data.seed,
        data.workers,
        data.ahead,
        data.worker_init_fn,
        data.context,
    )
