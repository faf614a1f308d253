# SPDX-License-Identifier: Apache-2.0
"""The engine, and where it stands: it is brought to where an iteration begins, and gives batches.

The engine reads ahead across the border of epochs. As long as the loop does what was foreseen,
nothing is said to it; a seek, which throws away what was read ahead, is for everything else.
"""

from __future__ import annotations

from foreload import _core
from foreload._lost import LostError
from foreload.data.iterable_style import StreamCore
from foreload.data.map_style import ListBatch, ListCore
from foreload.planning.samplers import Lists

Batch = _core.LoaderBatch | ListBatch
Core = _core.LoaderCore | ListCore | StreamCore


class EngineFeed:
    """For the loop's thread."""

    def __init__(self, core: Core) -> None:
        self._core = core
        # Epoch, samples that all ranks had before, batches given since; None: nobody knows.
        self._at: tuple[int, int, int] | None = (0, 0, 0)
        self.ended = "{}"  # what the engine said of the last epoch at its end, and
        self.ended_figures = "{}"  # what it had counted

    def begin(self, epoch: int, start: int) -> None:
        """Go to an epoch, after `start` samples of it."""
        if self._at is not None and start == 0:
            before, _, received = self._at
            done = received > 0 and received == self._core.batches_in(before)
            if before + 1 == epoch and done:  # the loop left before StopIteration
                self._at = None  # if this is interrupted
                self._at = (epoch, 0, 0) if self._core.next(None) is None else None
        self._seek(epoch, start)

    def begin_list(self, epoch: int, start: int, lists: Lists) -> None:
        """The same for an epoch whose samples after `start` are given."""
        self._seek(epoch, start)
        self._core.give_list(*lists)

    def _seek(self, epoch: int, start: int) -> None:
        if self._at != (epoch, start, 0):
            self._at = None
            self._core.seek(epoch, start)
            self._at = (epoch, start, 0)

    def pull(self, seconds: float | None) -> Batch | None:
        """The next batch, None at the end of its epoch; TimeoutError if it takes longer."""
        at, self._at = self._at, None  # nobody knows where it is if this fails
        try:
            batch = self._core.next(seconds)
        except (TimeoutError, LostError):
            self._at = at
            raise
        except Exception:
            if at is not None and isinstance(self._core, ListCore | StreamCore):
                self._at = (at[0], at[1], at[2] + 1)  # the batch is gone, the next one is there
            raise
        if batch is None:
            self.ended = self._core.epoch_json()
            self.ended_figures = self._core.epoch_figures_json()
        if at is not None:
            epoch, start, received = at
            self._at = (epoch + 1, 0, 0) if batch is None else (epoch, start, received + 1)
        return batch

    def forget(self) -> None:
        """What was prepared ahead is of no use any more."""
        self._at = None

    @property
    def lost(self) -> bool:
        """Whether it must be brought somewhere before it gives batches again."""
        return self._at is None

    def stands_in(self, epoch: int, start: int) -> bool:
        """Whether the batches given last are of this epoch, after `start` samples of it."""
        return self._at is not None and self._at[:2] == (epoch, start)

    def finish(self, epoch: int) -> None:
        """All batches of the epoch were pulled: go on to the next one, if that has not begun."""
        if self._at is not None and self._at[0] == epoch and self._at[2] > 0:
            self.pull(None)
