# SPDX-License-Identifier: Apache-2.0
"""How an engine is opened: on the data set, with budgets of its own or of a cache, and together
with the other ranks."""

from __future__ import annotations

import json
from collections.abc import Mapping
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
    settings.set_files(samples.files or [], samples.ranges, samples.part_names)
    return settings


def open_engine(
    settings: _core.Settings, ranks: Ranks, cache: Cache | None, *, joins: bool, **parts: Any
) -> _core.LoaderCore:
    """The engine. `joins`: other ranks, if there are any."""
    # All ranks must come to the same answer, whatever is left of a cache on this one.
    keeper = settings if cache is None else cache._budgets
    keeps = keeper.memory > 0 or bool(keeper.disk)
    if ranks.count < ranks.local:
        # Ranks on a machine whose engines do not count as ranks keep apart in its folders.
        settings.share_folders(ranks.local_rank, ranks.local)
    meeting, number = meetings.join(settings, ranks, keeps) if joins else (None, 0)
    core = _core.open_loader(
        settings,
        **parts,
        cache=None if cache is None else cache._of(ranks),
        meeting=meeting,
        meeting_number=number,
    )
    for warning in json.loads(core.start_json())["warnings"]:
        warn_caller(warning, RuntimeWarning)
    return core
