# SPDX-License-Identifier: Apache-2.0
"""How long a loop waits for its batches; nothing else, so that any environment can import it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

Batch = TypeVar("Batch")


def timed(batches: Iterator[Batch], waits: list[float]) -> Iterator[Batch]:
    """The batches; how long each was waited for goes to `waits`, in seconds."""
    while True:
        before = time.monotonic()
        batch = next(batches, None)
        if batch is None:
            return
        waits.append(time.monotonic() - before)
        yield batch
