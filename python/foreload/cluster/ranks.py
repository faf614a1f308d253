# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, how many there are, and how many share its machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

from foreload import _core
from foreload._arguments import MAX_UINT32, whole


@dataclass(frozen=True)
class Ranks:
    """One of several processes that read a data set together."""

    rank: int
    count: int
    local: int  # ranks on this machine
    found: str  # who said so: a variable, "torch.distributed", "arguments" or "nobody"
    local_rank: int = 0


_ALONE = Ranks(0, 1, 1, "nobody")


def member_of(ranks: Ranks) -> tuple[int, int]:
    """Which part of a disk cache's folder is this process's, and of how many. Ranks on a machine
    whose engines do not count as ranks keep apart there."""
    if ranks.count >= ranks.local:
        return ranks.rank, ranks.count
    return ranks.local_rank, ranks.local


def _from_environment(environment: Mapping[str, str]) -> Ranks:
    rank, count, local_rank, local, found = _core.ranks_from_environment(dict(environment))
    return Ranks(rank, count, local, found or "nobody", local_rank)


def with_local(
    rank: int, count: int, found: str, environment: Mapping[str, str] = os.environ
) -> Ranks:
    """Ranks that somebody else counts; how many share this machine, the environment says."""
    try:
        local = _from_environment(environment)
    except ValueError:
        local = _ALONE
    if local.count != count:
        local = _ALONE
    return Ranks(rank, count, local.local, found, local.local_rank)


def from_torch() -> tuple[int, int] | None:
    """What torch.distributed says, if the program uses it."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def find_ranks(
    rank: SupportsIndex | None = None,
    world_size: SupportsIndex | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ranks:
    """What the arguments say, else torch.distributed, else the environment, else one rank."""
    environment = os.environ if environment is None else environment
    if world_size is not None:
        count = whole("world_size", world_size, 1, MAX_UINT32)
        if rank is None and count > 1:
            raise ValueError(f"world_size is {count}, but no rank is given: give rank= as well")
        number = whole("rank", 0 if rank is None else rank, 0, count - 1)
        return with_local(number, count, "arguments", environment)
    if rank is not None:
        raise ValueError(f"rank is {rank}, but no world_size is given: give world_size= as well")
    torch = from_torch()
    if torch is not None:
        return with_local(*torch, "torch.distributed", environment)
    if "RANK" not in environment and {"WORLD_SIZE", "NODE_RANK", "LOCAL_RANK"} <= set(environment):
        # A process that Lightning started: it says the rank when it makes torch.distributed ready,
        # and lets a loader be made again that was made before.
        return _ALONE
    return _from_environment(environment)
