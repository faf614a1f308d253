# SPDX-License-Identifier: Apache-2.0
"""Samples whose bytes the program has in memory already: locate() gives them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from foreload.data.calls import MadeWhenTaken
from foreload.data.map_style import Wanted


class BlobMaker(MadeWhenTaken):
    """Gives the bytes of each sample when they are asked for; decode() makes samples of them."""

    finished = False

    def __init__(self, blob: Callable[[int], bytes], samples: int) -> None:
        self._blob = blob
        self._samples = samples

    @property
    def fingerprint(self) -> str:
        """Of the number of samples, the first and the last: reading all would take too long."""
        digest = hashlib.sha256(self._samples.to_bytes(8, "little"))
        digest.update(self._blob(0))
        digest.update(self._blob(self._samples - 1))
        return digest.hexdigest()[:32]

    def take(self, ticket: Wanted, seconds: float | None) -> list[memoryview]:
        """The bytes of each sample."""
        del seconds
        return [memoryview(self._blob(int(index))) for index in ticket.indices]
