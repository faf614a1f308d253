# SPDX-License-Identifier: Apache-2.0
"""Budgets of memory and disk as people give them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from foreload import _core
from foreload._arguments import Bytes, budget, path_of

Disk = str | tuple[str | os.PathLike[str], Bytes]


@dataclass
class Budgets:
    """What one machine gives."""

    memory: int = 0
    disks: list[tuple[str, int]] = field(default_factory=list)
    # Why a budget is so large where "auto" was given, by folder; memory has the empty one.
    why: dict[str, str] = field(default_factory=dict)


def budgets_of(memory: Bytes, disk: Disk | Sequence[Disk] | None) -> Budgets:
    """Memory, and folder and bytes of every disk cache."""
    found = Budgets()
    if memory == "auto":
        found.memory, found.why[""] = _core.automatic_memory()
    else:
        found.memory = budget("memory", memory)
    for entry in [] if disk is None else [disk] if isinstance(disk, str | tuple) else disk:
        folder, given = _split(entry)
        if given == "auto":
            size, found.why[folder] = _core.automatic_disk(folder)
        else:
            size = budget("disk", given)
        found.disks.append((folder, size))
    return found


def _split(entry: Disk) -> tuple[str, Bytes]:
    if not isinstance(entry, str):
        return path_of(entry[0]), entry[1]
    folder, colon, given = entry.rpartition(":")
    if not colon or not folder:
        raise ValueError(f"disk is {entry!r}: give a folder and a size, like '/local/nvme:100GiB'")
    return path_of(folder), given
