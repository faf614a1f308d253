# SPDX-License-Identifier: Apache-2.0
"""Which samples an epoch has for this rank, in batches: by foreload's own order, or by a sampler of
the user's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

from foreload._iteration import Place
from foreload._samplers import Lists, OrderSampler, batches_of, draw, draw_batches, ends_of


class ReadingLists:
    """For the loop's thread.

    Args:
        order: foreload's own order.
        sampler: The user's, or
        batch_sampler: the user's; at most one of them.
        batch_size: Samples in a batch, and
        drop_last: whether one that is not full is left out.
    """

    def __init__(
        self,
        order: OrderSampler,
        sampler: Iterable[Any] | None,
        batch_sampler: Iterable[Sequence[Any]] | None,
        batch_size: int,
        drop_last: bool,
    ) -> None:
        self.order = order
        self.sampler: Any = sampler if batch_sampler is None else batch_sampler  # the user's
        self._gives_batches = batch_sampler is not None
        self.batch_size = batch_size
        self._drop_last = drop_last
        self._state_before: Any = None  # of a sampler that has one, before its last iteration

    def __len__(self) -> int:
        if self.sampler is None:
            return batches_of(len(self.order), self.batch_size, self._drop_last)
        if not isinstance(self.sampler, Sized):
            raise TypeError(
                f"len(loader) needs a sampler with __len__: {type(self.sampler).__name__} has none"
            )
        if self._gives_batches:
            return len(self.sampler)
        return batches_of(len(self.sampler), self.batch_size, self._drop_last)

    def draw(self) -> Lists | None:
        """A sampler's list of the epoch that begins; None where there is no sampler."""
        if self.sampler is None:
            return None
        if hasattr(self.sampler, "state_dict"):
            self._state_before = self.sampler.state_dict()
        if self._gives_batches:
            return draw_batches(self.sampler, self.order.samples)
        return draw(self.sampler, self.batch_size, self._drop_last, self.order.samples)

    def rest(self, place: Place) -> Lists | None:
        """What comes after a place by foreload's own order; None where C++ makes that list."""
        if self.order.pad != "none":
            return None
        indices = self.order.indices(place.epoch, place.consumed)
        ends = ends_of(len(indices), self.batch_size, self._drop_last)
        return indices[: int(ends[-1]) if len(ends) else 0], ends

    def consumed(self, place: Place, batches: int, last: bool) -> int:
        """How much of the epoch is done after that many batches from a place on: samples of all
        ranks, or batches of a sampler, whose list cannot be entered in the middle."""
        if self.sampler is not None:
            return place.consumed + batches
        if last:
            return self.order.samples
        done = place.consumed + batches * self.batch_size * self.order.num_replicas
        return min(self.order.samples, done)

    def set_epoch(self, epoch: int) -> None:
        """The sampler's next list is of this epoch."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def sampler_state(self, fresh: bool) -> Any:
        """What a checkpoint keeps of the sampler, None if it has no state. `fresh`: nothing of the
        current epoch was asked for."""
        if not hasattr(self.sampler, "state_dict"):
            return None
        return self.sampler.state_dict() if fresh else self._state_before

    def load_sampler(self, state: Any, epoch: int) -> None:
        """Bring the sampler to where a checkpoint was taken; `state` None: it had no state."""
        if state is not None and hasattr(self.sampler, "load_state_dict"):
            self.sampler.load_state_dict(state)
        else:
            self.set_epoch(epoch)
