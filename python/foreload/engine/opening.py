# SPDX-License-Identifier: Apache-2.0
"""How an engine is opened: on the data set, with budgets of its own or of a cache, and together
with the other ranks."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from foreload import _core
from foreload._arguments import Bytes, path_of
from foreload.cluster.joining import Joining, meetings
from foreload.cluster.ranks import Ranks
from foreload.data.samples import Samples
from foreload.engine.budgets import Disk, budgets_of
from foreload.engine.cache import Cache
from foreload.engine.reader import profile_of


def engine_settings(
    samples: Samples,
    ranks: Ranks,
    memory: Bytes,
    disk: Disk | Sequence[Disk] | None,
    cache: Cache | None,
    index: str | os.PathLike[str] | None,
    revalidate: bool,
    extensions: Sequence[str] | None,
    deadline: float,
    profile: str | os.PathLike[str] | None,
) -> dict[str, Any]:
    """Where samples lie and where they are kept, as `_core.open_loader` wants it."""
    if not deadline > 0:
        raise ValueError(f"deadline is {deadline!r}: give seconds above 0")
    if cache is not None and (memory != 0 or disk is not None):
        raise ValueError("cache= and memory= or disk= exclude each other: give one of them")
    budgets = budgets_of(memory, disk)
    return {
        "dataset": samples.folder or "",
        "files": samples.files or [],
        "ranges": samples.ranges,
        "extensions": None if extensions is None else list(extensions),
        "index": "" if index is None else path_of(index),
        "revalidate": revalidate,
        "memory": budgets.memory // ranks.local,
        "disks": [(folder, bytes // ranks.local) for folder, bytes in budgets.disks],
        "budgets_why": budgets.why,
        "staging": 0,
        "deadline": float(deadline),
        "profile": profile_of(profile),
    }


def open_engine(
    settings: dict[str, Any], ranks: Ranks, cache: Cache | None, joining: Joining | None
) -> tuple[_core.LoaderCore, Callable[[], None]]:
    """The engine, and what is to be called when it is gone. `joining` None: it is alone."""

    def joined(budgets: dict[str, Any]) -> _core.LoaderCore:
        given = settings | budgets
        if joining is None:
            return _core.open_loader(**given)
        # All ranks must come to the same answer, whatever is left of a cache on this one.
        keeps = given["memory"] > 0 or bool(given["disks"])
        if cache is not None:
            keeps = cache.memory > 0 or bool(cache.disks)
        meeting, number = meetings.join(ranks, joining, keeps)
        return _core.open_loader(
            **given,
            meeting=meeting,
            meeting_number=number,
            join_timeout=joining.join_timeout,
            peer_timeout=joining.peer_timeout,
        )

    give_back: Callable[[], None] = _nothing
    if cache is None:
        core = joined({"lane": _lane(0, 1, ranks)} if ranks.count < ranks.local else {})
    else:
        core, lane = cache._lend(
            ranks,
            lambda memory, disks, lane: joined(
                {
                    "memory": memory,
                    "disks": disks,
                    "budgets_why": cache._why,
                    "lane": _lane(*lane, ranks),
                }
            ),
        )
        give_back = functools.partial(cache._give_back, lane)
    for warning in json.loads(core.start_json())["warnings"]:
        warnings.warn(warning, RuntimeWarning, stacklevel=4)
    return core, give_back


def _lane(lane: int, lanes: int, ranks: Ranks) -> tuple[int, int]:
    """Which part of a disk cache's folder is this engine's, and of how many. Ranks on a machine
    whose engines do not count as ranks keep apart here."""
    if ranks.count >= ranks.local:
        return lane, lanes
    return lane + lanes * ranks.local_rank, lanes * ranks.local


def _nothing() -> None:
    pass
