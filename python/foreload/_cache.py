# SPDX-License-Identifier: Apache-2.0
"""A budget of memory and disk that several loaders share."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

from foreload import _core
from foreload._arguments import Bytes, size
from foreload._reader import Disk, _disks


class Cache:
    """Memory and disk of this machine for samples, to be shared by loaders.

    A loader that is built on it takes what its data set needs of what is left, and gives its
    memory back when it is gone. Budgets are for the whole machine: ranks on it share them.

    Args:
        memory: Memory to keep samples in, as a number of bytes or text like "64GiB".
        disk: "FOLDER:SIZE" of a disk cache, or several.
    """

    def __init__(self, memory: Bytes = 0, disk: Disk | Sequence[Disk] | None = None) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self.memory = size("memory", memory)
        self.disks = _disks(disk)
        self._memory_left = self.memory
        self._disks_left = [budget for _, budget in self.disks]

    @property
    def memory_left(self) -> int:
        """Bytes of memory that no loader has taken."""
        with self._lock:
            return self._memory_left

    @property
    def disks_left(self) -> list[tuple[str, int]]:
        """Folder and bytes that no loader has taken, for every disk."""
        with self._lock:
            return [
                (folder, left)
                for (folder, _), left in zip(self.disks, self._disks_left, strict=True)
            ]

    def take(self, need: int) -> tuple[int, list[int]]:
        """Take `need` bytes, or what is there: of memory first, and for what memory cannot hold of
        each disk in turn. Returns how much of each."""
        with self._lock:
            memory = min(need, self._memory_left)
            self._memory_left -= memory
            need -= memory
            disks = []
            for number, left in enumerate(self._disks_left):
                # A disk cache spends a little on headers; a tenth and a segment cover that.
                taken = min(left, need + need // 10 + (64 << 20)) if need else 0
                self._disks_left[number] -= taken
                need -= min(need, taken)
                disks.append(taken)
            return memory, disks

    def give_back(self, memory: int) -> None:
        """Memory of a loader that is gone; what lies on disk stays there for the next run."""
        with self._lock:
            self._memory_left = min(self.memory, self._memory_left + memory)

    def __repr__(self) -> str:
        disks = ", ".join(
            f"{_core.format_bytes(left)} of {_core.format_bytes(budget)} in {folder}"
            for (folder, budget), (_, left) in zip(self.disks, self.disks_left, strict=True)
        )
        return (
            f"<foreload.Cache: {_core.format_bytes(self.memory_left)} of "
            f"{_core.format_bytes(self.memory)} memory left{', ' + disks if disks else ''}>"
        )
