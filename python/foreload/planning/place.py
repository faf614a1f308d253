# SPDX-License-Identifier: Apache-2.0
"""Where a training loop stands: epochs, iterations and resume as one state machine.

It does no I/O and knows no batches; it answers two questions: where does an iteration that is
started now begin, and where would a restart go on.

Every iteration has a place of its own and goes on whatever the others do. A checkpoint keeps the
place of the one that was started last:

    fresh      that one has ended, or there was none, or a place was loaded since
    running    it has begun and its end was not reported, be it alive or left by `break`

    begin()      fresh or running -> running, at `upcoming`
    received()   running -> running, further on
    ended()      running -> fresh
    set_epoch()  changes `upcoming` only
    load()       any -> fresh, at the place given
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """A point in the run: an epoch, and how much of it was consumed."""

    epoch: int
    consumed: int = 0


class Iteration:
    """The state machine. For one thread at a time."""

    def __init__(self) -> None:
        self._upcoming = Place(0)  # where the next iteration begins
        self._current: Place | None = None  # where the newest one is; None: fresh
        self._bound = False  # `upcoming` was loaded
        self._turn = 0

    @property
    def place(self) -> Place:
        """Where a restart goes on: after what the loop has received."""
        return self._upcoming if self._current is None else self._current

    @property
    def upcoming(self) -> Place:
        """Where an iteration would begin that is started now."""
        return self._upcoming

    @property
    def fresh(self) -> bool:
        """Whether a restart begins with a new iteration."""
        return self._current is None

    def begin(self) -> int:
        """Start an iteration at `upcoming`: its number."""
        self._turn += 1
        place = self._upcoming
        self._current = place
        self._upcoming = Place(place.epoch + 1)
        self._bound = False
        return self._turn

    def newest(self, turn: int) -> bool:
        """Whether this iteration is the one that a checkpoint keeps."""
        return turn == self._turn

    def received(self, turn: int, consumed: int) -> None:
        """The loop got a batch, with which `consumed` of the epoch is done."""
        if self.newest(turn) and self._current is not None:
            self._current = Place(self._current.epoch, consumed)

    def ended(self, turn: int) -> None:
        """The loop was told that the epoch is over."""
        if self.newest(turn):
            self._current = None

    def set_epoch(self, epoch: int) -> None:
        """The next iteration is of this epoch. A loaded place in the same epoch stays."""
        if self._bound and epoch == self._upcoming.epoch:
            return
        self._upcoming = Place(epoch)
        self._bound = False

    def load(self, place: Place) -> None:
        """The next iteration begins here."""
        self._turn += 1
        self._upcoming = place
        self._current = None
        self._bound = True
