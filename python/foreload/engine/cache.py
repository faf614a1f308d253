# SPDX-License-Identifier: Apache-2.0
"""Memory and disk that several loaders share, and what they have read."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from foreload import _core
from foreload._arguments import Bytes
from foreload._keywords import suggests_keywords
from foreload._settings import Disk
from foreload.cluster.ranks import Ranks, find_ranks, member_of


class Cache:
    """Memory and disk of this machine for samples, to be shared by loaders.

    A loader that is built on it takes what its data set can use of what is left, and gives it back
    when it is closed or gone. All loaders together never use more than the budgets, which are for
    the whole machine: ranks on it share them. What one loader has read the others find, and so does
    the next one: `stats()` of a loader says how much (`others_bytes`).

    Args:
        memory: Memory to keep samples in, like "64GiB"; "auto" is half of what the machine, or the
            control group of this process, has left.
        disk: "FOLDER:SIZE" of a disk cache, or several; the size "auto" is half of what is free.
    """

    @suggests_keywords
    def __init__(self, memory: Bytes = 0, disk: Disk | Sequence[Disk] | None = None) -> None:
        self._budgets = _core.Settings(memory=memory, disk=disk)
        self.memory: int = self._budgets.memory
        self.disks: list[tuple[str, int]] = self._budgets.disk
        self._lock = threading.Lock()
        self._core: _core.Cache | None = None
        self._local = 1  # ranks on this machine, each with its part

    @property
    def memory_left(self) -> int:
        """Bytes of memory that no loader has taken."""
        if self._core is None:
            return self.memory
        return self.memory % self._local + self._core.memory_left * self._local

    @property
    def disks_left(self) -> list[tuple[str, int]]:
        """Folder and bytes that no loader has taken, for every disk."""
        if self._core is None:
            return list(self.disks)
        return [
            (folder, left * self._local)
            for (folder, _), left in zip(self.disks, self._core.disks_left, strict=True)
        ]

    def write_blob(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Keep bytes under a name, on a disk if one has room, and replace those it had. OSError if
        nothing has room."""
        self._of(find_ranks()).write_blob(name, data)

    def read_blob(self, name: str) -> bytes | None:
        """What was kept under that name, by this process or by an earlier one on the same disk."""
        return self._of(find_ranks()).read_blob(name)

    def _of(self, ranks: Ranks) -> _core.Cache:
        """This rank's part; the first who asks says how many there are."""
        with self._lock:
            if self._core is None:
                self._local = ranks.local
                self._budgets.set(ranks_per_node=ranks.local)
                self._core = _core.Cache(self._budgets, *member_of(ranks))
            return self._core

    def __repr__(self) -> str:
        disks = "".join(
            f", {_core.format_bytes(left)} of {_core.format_bytes(budget)} in {folder}"
            for (folder, budget), (_, left) in zip(self.disks, self.disks_left, strict=True)
        )
        return (
            f"<foreload.Cache: {_core.format_bytes(self.memory_left)} of "
            f"{_core.format_bytes(self.memory)} memory left{disks}>"
        )
