# SPDX-License-Identifier: Apache-2.0
"""Settings of the engine as users give them, for type checkers. What each may be, its default and
what is said of a wrong one, C++ knows (src/foreload/loader/setting_table.cc): they go there as one
mapping. The arguments of the public functions are described where these are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsIndex, TypedDict

from foreload._arguments import Bytes

if TYPE_CHECKING:
    from foreload.planning.weighted_order import WeightedOrder

Disk = str | tuple[str | os.PathLike[str], Bytes]


class StorageSettings(TypedDict, total=False):
    """Where samples are read and kept."""

    memory: Bytes
    disk: Disk | Sequence[Disk] | None
    per_rank: bool
    index: str | os.PathLike[str] | None
    revalidate: bool
    extensions: str | Sequence[str] | None
    deadline: float
    profile: str | os.PathLike[str] | None


class JobSettings(TypedDict, total=False):
    """What is read, and when."""

    epochs: SupportsIndex | None
    batch_size: SupportsIndex
    drop_last: bool
    seed: SupportsIndex
    order: str | WeightedOrder
    pad: str
    first_epoch: SupportsIndex
    start: SupportsIndex


class ReaderSettings(StorageSettings, JobSettings, total=False):
    """Those of `foreload.Reader`."""

    staging: Bytes
    objective: str
    on_error: str


class PlanSettings(JobSettings, total=False):
    """Those of `foreload.plan`."""

    ranks_per_node: SupportsIndex
    per_rank: bool


class LoaderSettings(StorageSettings, total=False):
    """Those of `foreload.DataLoader` that torch's has not."""

    objective: str
    on_error: str
    form: str
    transport: str
    join_timeout: float
    peer_timeout: float
