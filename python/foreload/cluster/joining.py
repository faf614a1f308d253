# SPDX-License-Identifier: Apache-2.0
"""How the loaders of this process meet those of the other ranks, to be one cache."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from foreload import _core
from foreload._warn import warn_caller
from foreload.cluster.ranks import Ranks, from_torch

Store = tuple[Callable[[str, bytes], object], Callable[[str, float], "bytes | None"]]


def _torch_store(ranks: Ranks) -> Store | None:
    """torch.distributed's store as two functions, if the program has one for these ranks."""
    if from_torch() != (ranks.rank, ranks.count):
        return None
    distributed: Any = sys.modules["torch.distributed"]
    try:
        whole = distributed.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError, ValueError):
        return None
    store = distributed.PrefixStore("foreload", whole)

    def get(key: str, seconds: float) -> bytes | None:
        try:
            store.wait([key], timedelta(seconds=max(seconds, 0.001)))
        except distributed.DistStoreError:  # the time is over
            return None
        return bytes(store.get(key))

    return store.set, get


def _ucx_package() -> str:
    """Folder of the UCX that pip installed (libucx-cu12, say); empty if there is none."""
    package = importlib.util.find_spec("libucx")
    for place in (package and package.submodule_search_locations) or []:
        if os.path.exists(os.path.join(place, "lib", "libucp.so.0")):
            return os.path.join(place, "lib")
    return ""


class Meetings:
    """All joint loaders of this process. They are numbered: the ranks make them in the same order,
    and each number is a place of its own in the rendezvous."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._transport: str | None = None  # of the meeting, once there is one
        self._meeting: _core.Meeting | None = None
        self._joined = 0

    def join(
        self, settings: _core.Settings, ranks: Ranks, keeps: bool
    ) -> tuple[_core.Meeting | None, int]:
        """Where the next loader joins, and its number; None if it is to be alone. `keeps`: whether
        it keeps samples at all."""
        transport: str = settings.transport
        if ranks.count == 1 or transport == "none":
            return None, 0
        store = _torch_store(ranks)
        # Numbers that are mere arguments name no job; and who keeps nothing has nothing to share.
        nameless = store is None and ranks.found == "arguments" and not _has_place()
        if transport == "auto" and (nameless or not keeps):
            return None, 0
        if self._process != os.getpid():
            raise RuntimeError(
                "this process was made by fork() and cannot connect to the other ranks: start "
                "processes with spawn, or give transport='none'"
            )
        if self._transport not in (None, transport):
            raise ValueError(
                f"transport is {transport!r}, but an earlier loader of this process has "
                f"{self._transport!r}: give all of them the same transport"
            )
        if self._transport is None:
            # Kept to the end of the process: others may still read what rank 0 serves.
            self._meeting, warning = _core.arrange_meeting(
                settings,
                local_rank=ranks.local_rank,
                said_by=ranks.found,
                store=store,
                ucx_package=_ucx_package(),
            )
            self._transport = transport
            if warning:
                warn_caller(warning, RuntimeWarning)
        number, self._joined = self._joined, self._joined + 1
        return self._meeting, number

    def close(self) -> None:
        self._meeting = None


def _has_place() -> bool:
    return any(os.environ.get(name) for name in ("FORELOAD_RENDEZVOUS", "MASTER_ADDR"))


meetings = Meetings()
