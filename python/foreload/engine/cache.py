# SPDX-License-Identifier: Apache-2.0
"""A budget of memory and disk that several loaders share."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from foreload import _core
from foreload._arguments import Bytes
from foreload._keywords import suggests_keywords
from foreload._settings import Disk
from foreload.cluster.ranks import Ranks

# Loaders that can share a cache at a time. Each finds on disk again what the loader of the same
# number left there, so that the second run of a program starts warm.
LANES = 8
LEAST_DISK = 64 << 10  # a smaller budget holds nothing

Open = Callable[[int, list[tuple[str, int]], tuple[int, int]], _core.LoaderCore]


@dataclass(frozen=True)
class Loan:
    """What one loader has: bytes of memory, and of each disk by folder."""

    memory: int
    disks: dict[str, int]


class Cache:
    """Memory and disk of this machine for samples, to be shared by loaders.

    A loader that is built on it takes what its data set can use of what is left, and gives it back
    when it is closed or gone. All loaders together never use more than the budgets, which are for
    the whole machine: ranks on it share them.

    Args:
        memory: Memory to keep samples in, like "64GiB"; "auto" is half of what the machine, or the
            control group of this process, has left.
        disk: "FOLDER:SIZE" of a disk cache, or several; the size "auto" is half of what is free.
    """

    @suggests_keywords
    def __init__(self, memory: Bytes = 0, disk: Disk | Sequence[Disk] | None = None) -> None:
        # A loader may be found gone, and give back, while another one is opened in this thread.
        self._lock = threading.RLock()
        budgets = _core.Settings(memory=memory, disk=disk)
        self.memory: int = budgets.memory
        self.disks: list[tuple[str, int]] = budgets.disk
        self._why = budgets.budgets_why
        self._loans: dict[int, Loan] = {}  # by lane

    @property
    def memory_left(self) -> int:
        """Bytes of memory that no loader has taken."""
        with self._lock:
            return self.memory - sum(loan.memory for loan in list(self._loans.values()))

    @property
    def disks_left(self) -> list[tuple[str, int]]:
        """Folder and bytes that no loader has taken, for every disk."""
        with self._lock:
            loans = list(self._loans.values())
            return [
                (folder, budget - sum(loan.disks.get(folder, 0) for loan in loans))
                for folder, budget in self.disks
            ]

    def _lend(self, ranks: Ranks, open_core: Open) -> tuple[_core.LoaderCore, int]:
        """Open a loader's engine with what is left; the number is for _give_back()."""
        with self._lock:  # until it is known what it took, nobody else may
            lane = next((lane for lane in range(LANES) if lane not in self._loans), None)
            if lane is None:
                raise ValueError(
                    f"{LANES} loaders share this cache already: close() one of them, or give this "
                    "one a cache of its own"
                )
            open_lanes = {lane, *self._loans}
            disks = []
            for folder, left in self.disks_left:
                share = left // ranks.local - _left_over(folder, ranks, open_lanes)
                if share >= LEAST_DISK:
                    disks.append((folder, share))
            core = open_core(self.memory_left // ranks.local, disks, (lane, LANES))
            memory, *taken = json.loads(core.start_json())["tiers"]
            self._loans[lane] = Loan(
                memory["bytes"] * ranks.local,
                {tier["folder"]: tier["bytes"] * ranks.local for tier in taken},
            )
            return core, lane

    def _give_back(self, lane: int) -> None:
        """A loader is gone. What it left on disk stays there for the next one of its number."""
        with self._lock:
            self._loans.pop(lane, None)

    def __repr__(self) -> str:
        disks = "".join(
            f", {_core.format_bytes(left)} of {_core.format_bytes(budget)} in {folder}"
            for (folder, budget), (_, left) in zip(self.disks, self.disks_left, strict=True)
        )
        return (
            f"<foreload.Cache: {_core.format_bytes(self.memory_left)} of "
            f"{_core.format_bytes(self.memory)} memory left{disks}>"
        )


def _left_over(folder: str, ranks: Ranks, open_lanes: set[int]) -> int:
    """Bytes that loaders of other numbers left of this rank's part of a disk cache; see
    docs/formats.md for what lies where."""
    total = 0
    for slot in Path(folder, "foreload-1").glob("[0-9]*"):
        number = int(slot.name) if slot.name.isdecimal() else None
        if number is None or number % ranks.count != ranks.rank:
            continue
        if number // ranks.count % LANES not in open_lanes:
            total += sum(entry.stat().st_blocks * 512 for entry in os.scandir(slot))
    return total
