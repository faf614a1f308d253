# SPDX-License-Identifier: Apache-2.0
"""Which rank this process is, how many there are, and how many share its machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, SupportsIndex

from foreload._arguments import MAX_UINT32, whole


@dataclass(frozen=True)
class Ranks:
    """One of several processes that read a data set together."""

    rank: int
    count: int
    local: int  # ranks on this machine
    found: str  # who said so


# Names of rank, world size and ranks of a node, in the order in which they are believed.
_VARIABLES = (
    ("RANK/WORLD_SIZE", "RANK", ("WORLD_SIZE",), "LOCAL_WORLD_SIZE"),
    ("SLURM", "SLURM_PROCID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"), "SLURM_TASKS_PER_NODE"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_SIZE",), "OMPI_COMM_WORLD_LOCAL_SIZE"),
)


def _number(environment: Mapping[str, str], name: str) -> int | None:
    text = environment.get(name)
    if text is None or not text.strip():
        return None
    # SLURM counts tasks by node: "4(x2),3".
    digits = re.match(r"\d+", text.strip())
    if digits is None:
        raise ValueError(f"environment variable {name} is {text!r}: it should be a whole number")
    return int(digits.group())


def _from_environment(environment: Mapping[str, str]) -> Ranks | None:
    for found, rank_name, count_names, local_name in _VARIABLES:
        rank = _number(environment, rank_name)
        counts = [_number(environment, name) for name in count_names]
        count = next((number for number in counts if number is not None), None)
        if rank is None and count is not None and count > 1:
            raise ValueError(
                f"{count_names[0]} says that there are {count} ranks, but {rank_name} is not set: "
                "give rank= and world_size=, or start the ranks with torchrun, srun or mpirun"
            )
        if rank is None or count is None:
            continue
        if rank >= count:
            raise ValueError(f"{rank_name} is {rank}, but there are only {count} ranks ({found})")
        return Ranks(rank, count, _number(environment, local_name) or 1, found)
    return None


def _from_torch() -> tuple[int, int] | None:
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
        local = _number(environment, "LOCAL_WORLD_SIZE") or 1
        return Ranks(number, count, min(local, count), "arguments")
    if rank is not None:
        raise ValueError(f"rank is {rank}, but no world_size is given: give world_size= as well")
    torch = _from_torch()
    if torch is not None:
        local = _number(environment, "LOCAL_WORLD_SIZE") or 1
        return Ranks(torch[0], torch[1], min(local, torch[1]), "torch.distributed")
    return _from_environment(environment) or Ranks(0, 1, 1, "nobody")
