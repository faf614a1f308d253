# SPDX-License-Identifier: Apache-2.0
"""One iteration over a loader."""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING, Any, SupportsIndex

from foreload._lost import LostError
from foreload.loader.delivery import Run
from foreload.planning.place import Place
from foreload.reports.run_log import samples_in
from foreload.trainers.accelerate import Loop

if TYPE_CHECKING:
    from foreload.loader.dataloader import DataLoader


class LoaderIterator:
    """Begins with the first next(), not before. It has a place of its own: others do not end it.

    Args:
        loader: The loader.
        skip: Batches of the epoch to leave out, unless a state was loaded that says where to begin.
    """

    def __init__(self, loader: DataLoader, skip: int = 0) -> None:
        self._loader = loader
        self._turn: int | None = None
        self._run: Run | None = None
        self._received = skip
        self._over = False
        self._loop: Loop | None = None  # as Accelerate sees it
        self._length = loader._stream_length  # what the loop was told before

    def __iter__(self) -> LoaderIterator:
        return self

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        loader = self._loader
        loader._check_usable()
        before: int | None = None  # another thread is inside
        try:
            with loader._lock:
                loader._inside = threading.get_ident()
                loader._check_usable()  # it may have been closed while another thread was inside
                if self._over:  # or have come to the end
                    raise StopIteration
                before = self._received
                asked = loader._waits.now()
                run = self._begin(asked) if self._run is None else self._run
                received = None
                if run.reading.batches is None or self._received < run.reading.batches:
                    with loader._waits.waiting():
                        received = self._next_batch(run)
                if received is None:
                    self._end(run)
                    raise StopIteration
                if self._newest:
                    samples = 1 if loader._single else samples_in(received[0])
                    loader._log.batch(loader, loader._waits.now() - asked, samples)
                loader._delivered += 1
                return received[0] if loader._prepared is None else self._placed(run, received[0])
        except Exception as error:
            if loader._core is not None or isinstance(error, StopIteration):
                raise
            raise RuntimeError(
                "this DataLoader was closed while a batch was on its way: make a new one"
            ) from error
        except BaseException:  # an interrupt: the loop did not get what was taken for it
            if before is not None:
                self._take_back(before)
            raise
        finally:
            if loader._core is None:
                loader._end(0.0)

    @property
    def _newest(self) -> bool:
        return self._turn is not None and self._loader._iteration.newest(self._turn)

    def _begin(self, asked: float) -> Run:
        loader = self._loader
        loader._check_beginning()
        loader._draw_as_torch()
        upcoming = loader._iteration.upcoming
        skip = 0 if upcoming.consumed else self._received
        run = self._run = loader._delivery.begin(upcoming, skip)  # may fail: no trace
        self._turn = loader._iteration.begin()
        self._has(run, run.taken)
        loader._latest = run
        loader._waits.begin(asked)
        loader._witness.begin_epoch()
        ago = loader._waits.now() - asked
        loader._log.begin(loader, run.reading.place.epoch, run.reading.batches or 0, ago)
        return run

    def _next_batch(self, run: Run) -> tuple[Any] | None:
        loader = self._loader
        try:
            received = loader._delivery.receive(run, loader.timeout or None)
        except TimeoutError:
            raise RuntimeError(
                f"no batch within timeout={loader.timeout:g} seconds: the loop waited for "
                f"{loader._witness.awaited(loader.timeout)}; give a longer timeout if that is "
                "expected"
            ) from None
        except LostError as error:  # nothing was given, and nothing will be
            raise RuntimeError(str(error)) from None
        except Exception:
            loader._failed_batches += 1
            self._count(run)
            raise
        if received is not None:
            self._count(run)
        return received

    def _placed(self, run: Run, batch: Any) -> Any:
        """A batch of a loader that Accelerate has prepared."""
        loader = self._loader
        assert loader._prepared is not None
        assert self._turn is not None
        if self._loop is None:
            self._loop = Loop(loader, run.reading)
        last = self._received == run.reading.batches
        self._loop.gives(last)
        if last:  # a checkpoint that is taken now goes on with the next epoch
            loader._iteration.ended(self._turn)
        return loader._prepared.placed(batch)

    def _count(self, run: Run) -> None:
        """The loop gets a batch, or the error that it is."""
        self._has(run, self._received + 1)
        if self._length is not None and self._received > self._length:
            warnings.warn(
                f"len() of {type(self._loader.dataset).__name__} is {self._length:,}, but it gave "
                f"{self._received:,} batches or samples: say the right length, or let each worker "
                "give a share of the stream",
                stacklevel=4,
            )

    def _has(self, run: Run, received: int) -> None:
        """The loop has so many batches of the epoch: a checkpoint goes on after these."""
        assert self._turn is not None
        self._received = received
        consumed = self._loader._lists.consumed(run.reading, received)
        self._loader._iteration.received(self._turn, consumed)

    def _take_back(self, received: int) -> None:
        """The loop has got so many batches and no more: the next one is the one after these."""
        loader, run = self._loader, self._run
        if self._over or run is None:
            return
        if self._turn is None:  # it had not begun
            self._run = None
            return
        loader._delivery.take_back(run, received)
        self._has(run, received)

    def _end(self, run: Run) -> None:
        """Tell everybody that the epoch is over."""
        loader = self._loader
        self._over = True
        newest = self._newest
        loader._delivery.end(run)
        assert self._turn is not None
        loader._iteration.ended(self._turn)
        if self._loop is not None:
            self._loop.end()
        if newest:
            loader._waits.end()
            loader._log.end(loader)
            loader._tell(stacklevel=4)

    def state_dict(self) -> dict[str, Any]:
        """Where this iteration is, as `DataLoader.state_dict` says it of the newest one."""
        loader, run = self._loader, self._run
        if run is None or self._newest:
            return loader.state_dict()
        if self._over:
            return loader._state_at(Place(run.reading.place.epoch + 1), None)
        consumed = loader._lists.consumed(run.reading, self._received)
        return loader._state_at(Place(run.reading.place.epoch, consumed), run)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise NotImplementedError(
            "an iterator of a DataLoader cannot be pickled or copied: state_dict() has its place"
        )

    def __len__(self) -> int:
        return len(self._loader)
