# SPDX-License-Identifier: Apache-2.0
"""Bad samples that are skipped: what takes their place in a batch, and what is counted of them."""

from __future__ import annotations

from collections.abc import Collection

MOST_NAMES = 100  # that are kept for the statistics


def substitutes(bad: Collection[int], samples: int) -> dict[int, int]:
    """For each bad place in a batch of so many samples the next good one, as in the C++ engine:
    after the last place comes the first. REQUIRES: some are good."""
    found = {}
    for place in sorted(bad):
        good = place
        while good in bad:
            good = (good + 1) % samples
        found[place] = good
    return found


class Skipped:
    """Samples that were skipped, beside those of the engine."""

    def __init__(self) -> None:
        self.count = 0
        self.names: list[str] = []  # of the first of them

    def add(self, name: str) -> None:
        """One more."""
        self.count += 1
        if len(self.names) < MOST_NAMES:
            self.names.append(name)
