# SPDX-License-Identifier: Apache-2.0
"""A progress bar that says what matters: how fast, what limits, what was lost, from where."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import IO, Any

_WIDTH = 24
_SECONDS = 0.2  # between two looks


def progress(loader: Any, file: IO[str] | None = None) -> Iterator[Any]:
    """Go through one epoch of a `foreload.DataLoader` and show how far it has come.

    On a terminal one line is drawn again and again; elsewhere one line is written at the end.

    Args:
        loader: The loader; `for batch in foreload.progress(loader)` instead of `in loader`.
        file: Where to draw; sys.stderr if None.
    """
    out = sys.stderr if file is None else file
    alive = out.isatty()
    epoch = loader.state_dict()["epoch"]
    begin = time.monotonic()
    drawn = begin
    batches = 0
    iterator = iter(loader)
    total = len(loader) if hasattr(loader, "__len__") else None
    for batch in iterator:
        if batches == 0:
            epoch = loader.state_dict()["epoch"]
        batches += 1
        now = time.monotonic()
        if alive and now - drawn >= _SECONDS:
            drawn = now
            out.write("\r" + line(loader, epoch, batches, total, now - begin) + "\x1b[K")
            out.flush()
        yield batch
    text = line(loader, epoch, batches, batches, time.monotonic() - begin, over=True)
    out.write(("\r" + text + "\x1b[K" if alive else text) + "\n")
    out.flush()


def line(
    loader: Any, epoch: int, batches: int, total: int | None, seconds: float, over: bool = False
) -> str:
    """What the bar shows; the whole verdict when the epoch is over."""
    share = batches / total if total else 0.0
    bar = "#" * round(share * _WIDTH)
    stats = loader.epoch_stats()
    parts = [f"epoch {epoch} [{bar:<{_WIDTH}}] {batches}/{total or '?'}"]
    if stats["samples"] and seconds > 0:
        parts.append(f"{stats['samples'] / seconds:,.0f} samples/s")
    verdict = stats["verdict"]
    if not over:
        parts.append(f"waited {verdict['waited']:.0%} ({verdict['limit']})")
    amounts = {where: bytes for where, bytes in stats["from"].items() if bytes}
    everything = sum(amounts.values())
    parts.extend(f"{where} {bytes / everything:.0%}" for where, bytes in amounts.items())
    if over:
        parts.append(verdict["text"])
    if verdict["losses"]:
        parts.append("lost: " + ", ".join(verdict["losses"]))
    return "  ".join(parts)
