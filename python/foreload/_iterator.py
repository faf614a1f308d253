# SPDX-License-Identifier: Apache-2.0
"""One iteration over a loader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from foreload._iteration import Place
from foreload._run_log import samples_in

if TYPE_CHECKING:
    from foreload._dataloader import DataLoader


class LoaderIterator:
    """Begins with the first next(), not before."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._turn: int | None = None
        self._place = Place(0)
        self._batches = 0
        self._received = 0
        self._over = False

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        loader = self._loader
        loader._check_usable()
        with loader._lock:
            asked = loader._waits.now()
            if self._turn is None:
                self._turn, self._place, self._batches = loader._delivery.begin(loader._iteration)
                loader._waits.begin(asked)
                loader._witness.begin_epoch()
                ago = loader._waits.now() - asked
                loader._log.begin(loader, self._place.epoch, self._batches, ago)
            elif not loader._iteration.counts(self._turn):
                raise RuntimeError(
                    "a newer iteration over this DataLoader has begun, which ends this one: use "
                    "one iterator at a time, or a loader for each"
                )
            received = None
            if self._received < self._batches:
                with loader._waits.waiting():
                    received = self._next_batch()
            if received is None:
                self._end()
                raise StopIteration
            single = loader.batch_size is None and loader.batch_sampler is None
            samples = 1 if single else samples_in(received[0])
            loader._log.batch(loader, loader._waits.now() - asked, samples)
            self._received += 1
            last = self._received == self._batches
            consumed = loader._lists.consumed(self._place, self._received, last)
            loader._iteration.received(self._turn, consumed)
            return received[0]

    def _next_batch(self) -> tuple[Any] | None:
        loader = self._loader
        try:
            return loader._delivery.receive(self._place, loader.timeout or None)
        except TimeoutError:
            raise RuntimeError(
                f"no batch within timeout={loader.timeout:g} seconds: loader.stats() says "
                "what it waits for; give a longer timeout if that is expected"
            ) from None

    def _end(self) -> None:
        """Tell everybody that the epoch is over."""
        loader = self._loader
        self._over = True
        if self._received == self._batches:
            loader._delivery.engine.finish(self._place.epoch)
        assert self._turn is not None
        loader._iteration.ended(self._turn)
        loader._waits.end()
        loader._log.end(loader)
        loader._tell(stacklevel=4)

    def __len__(self) -> int:
        return len(self._loader)
