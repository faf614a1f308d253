# SPDX-License-Identifier: Apache-2.0
"""One verdict about an epoch or a run: judged by C++, told once."""

from __future__ import annotations

import json
import warnings
from typing import Any, cast

from foreload import _core

Figures = dict[str, Any]

# Shares of an epoch from which on waiting is worth a word, and seconds that it must take for that.
WORTH_A_WORD = 0.3
LONG_ENOUGH = 5.0
# Figures that speak of losses; names go with the samples.
LOSSES = ("skipped", "lost_tiers", "dead_peers", "retries", "corrupt_copies")


def judge(figures: Figures) -> dict[str, Any]:
    """The verdict, as `stats()` and `epoch_stats()` have it."""
    return cast("dict[str, Any]", json.loads(_core.judge(json.dumps(figures))))


class Notices:
    """Says once what a loop should know: what it waits for, and each kind of loss."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def waiting(self, figures: Figures, verdict: dict[str, Any], stacklevel: int) -> None:
        """At the end of an epoch: warn, if it was long and the loop waited for much of it."""
        seconds = figures["seconds"]
        waited = figures["waited"] - figures["first_wait"]
        if seconds < LONG_ENOUGH or waited < WORTH_A_WORD * seconds or "waiting" in self._said:
            return
        self._said.add("waiting")
        warnings.warn(f"the loop {verdict['text']}", RuntimeWarning, stacklevel=stacklevel + 1)

    def losses(self, figures: Figures, stacklevel: int) -> None:
        """Warn of losses of a kind that was not there before."""
        for kind in LOSSES:
            if kind in self._said or not figures.get(kind):
                continue
            self._said.add(kind)
            names = figures.get("skipped_names", []) if kind == "skipped" else []
            for line in judge({kind: figures[kind], "skipped_names": names})["losses"]:
                warnings.warn(line, RuntimeWarning, stacklevel=stacklevel + 1)
