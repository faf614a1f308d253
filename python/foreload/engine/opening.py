# SPDX-License-Identifier: Apache-2.0
"""How an engine is opened: on the data set, with budgets of its own or of a cache, and together
with the other ranks."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
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
) -> _core.LoaderCore:
    """The engine. `joining` None: it is alone."""
    keeps = settings["memory"] > 0 or bool(settings["disks"])
    if cache is not None:
        settings["cache"] = cache._of(ranks)
        # All ranks must come to the same answer, whatever is left of a cache on this one.
        keeps = cache.memory > 0 or bool(cache.disks)
    if ranks.count < ranks.local:
        # Ranks on a machine whose engines do not count as ranks keep apart in its folders.
        settings["lane"] = (ranks.local_rank, ranks.local)
    if joining is not None:
        meeting, number = meetings.join(ranks, joining, keeps)
        settings |= {
            "meeting": meeting,
            "meeting_number": number,
            "join_timeout": joining.join_timeout,
            "peer_timeout": joining.peer_timeout,
        }
    core = _core.open_loader(**settings)
    for warning in json.loads(core.start_json())["warnings"]:
        warnings.warn(warning, RuntimeWarning, stacklevel=4)
    return core
