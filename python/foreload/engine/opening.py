# SPDX-License-Identifier: Apache-2.0
"""How an engine is opened: on the data set, with budgets of its own or of a cache, and together
with the other ranks."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from foreload import _core
from foreload._warn import warn_caller
from foreload.cluster.joining import meetings
from foreload.cluster.ranks import Ranks
from foreload.data.samples import Samples
from foreload.engine.cache import Cache


def engine_settings(
    samples: Samples, ranks: Ranks, cache: Cache | None, given: Mapping[str, Any]
) -> _core.Settings:
    """Settings as users give them, for these samples and this rank."""
    if cache is not None and (given.get("memory", 0) != 0 or given.get("disk") is not None):
        raise ValueError("cache= and memory= or disk= exclude each other: give one of them")
    settings = _core.Settings(
        **given,
        dataset=samples.folder or "",
        rank=ranks.rank,
        ranks=ranks.count,
        ranks_per_node=ranks.local,
    )
    settings.set_files(samples.files or [], samples.ranges)
    return settings


def open_engine(
    settings: _core.Settings, ranks: Ranks, cache: Cache | None, *, joins: bool, **parts: Any
) -> tuple[_core.LoaderCore, Callable[[], None]]:
    """The engine, and what is to be called when it is gone. `joins`: other ranks, if there are
    any."""
    # All ranks must come to the same answer, whatever is left of a cache on this one.
    keeps = settings.memory > 0 or bool(settings.disk)
    if cache is not None:
        keeps = cache.memory > 0 or bool(cache.disks)

    def joined() -> _core.LoaderCore:
        meeting, number = meetings.join(settings, ranks, keeps) if joins else (None, 0)
        return _core.open_loader(settings, **parts, meeting=meeting, meeting_number=number)

    def lent(memory: int, disks: list[tuple[str, int]], lane: tuple[int, int]) -> _core.LoaderCore:
        assert cache is not None
        settings.lend(memory, disks, cache._why)
        settings.share_folders(*_lane(*lane, ranks))
        return joined()

    give_back: Callable[[], None] = _nothing
    if cache is None:
        if ranks.count < ranks.local:
            settings.share_folders(*_lane(0, 1, ranks))
        core = joined()
    else:
        core, lane = cache._lend(ranks, lent)
        give_back = functools.partial(cache._give_back, lane)
    for warning in json.loads(core.start_json())["warnings"]:
        warn_caller(warning, RuntimeWarning)
    return core, give_back


def _lane(lane: int, lanes: int, ranks: Ranks) -> tuple[int, int]:
    """Which part of a disk cache's folder is this engine's, and of how many. Ranks on a machine
    whose engines do not count as ranks keep apart here."""
    if ranks.count >= ranks.local:
        return lane, lanes
    return lane + lanes * ranks.local_rank, lanes * ranks.local


def _nothing() -> None:
    pass
