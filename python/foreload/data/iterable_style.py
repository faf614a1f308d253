# SPDX-License-Identifier: Apache-2.0
"""Data sets that are iterated over, not asked for samples: the order is theirs.

As in torch's DataLoader, each worker process has a copy of the data set and makes batches of its
own stream, and batches come from the workers in turn, without those that are at their end. A data
set that should not give everything in each worker and on each rank asks who it is
(`torch.utils.data.get_worker_info()`, the rank).
"""

from __future__ import annotations

import importlib
import pickle
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from foreload._arguments import Integers
from foreload._lost import LostError
from foreload.data.calls import OwnTimes, fingerprint_of, kept_generators, needs_torch
from foreload.data.map_style import ListBatch
from foreload.data.no_figures import NoFigures
from foreload.data.stream_copy import State, Stream, StreamJob, is_count, is_state
from foreload.workers.crew import Crew
from foreload.workers.process import Ended, Failure

# What a state says, beside what it is bound to.
_PLACE = ("epoch", "batches", "turn", "streams")
_NO_INDICES = np.zeros(0, dtype=np.int64)


def _warn_of(batches: int) -> None:
    warnings.warn(
        f"{batches} batches of the stream are read again and dropped: give the data set or its "
        "iterator state_dict() and load_state_dict(), and it goes on at once",
        stacklevel=4,  # whoever calls load_state_dict() of the loader
    )


class StreamCore(NoFigures):
    """Gives the batches of an IterableDataset, in the place of `_core.LoaderCore`.

    Args:
        dataset: What is iterated over, once for each epoch and worker.
        collate_fn: Makes a batch of a list of samples, or something of a single one.
        batch_size: None for single samples.
        drop_last: Whether the last batch of each worker is left out if it is not full.
        seed: Of the global generators.
        workers: Number of processes; 0: the calling process.
        ahead_per_worker: Batches that each of them makes ahead.
        worker_init_fn, multiprocessing_context: As for torch's DataLoader.
        rank, ranks: Which process of how many this is.
    """

    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[Any], Any] | None,
        batch_size: int | None,
        drop_last: bool,
        seed: int,
        workers: int,
        ahead_per_worker: int = 2,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        torch = needs_torch(collate_fn)
        if torch:
            importlib.import_module("torch")  # its generator is one of those that are kept
        job = StreamJob(dataset, collate_fn, batch_size, drop_last, seed, rank)
        self.samples = 0
        self.bytes = 0
        self._dataset = dataset
        self._ahead = ahead_per_worker
        self._known = {"workers": workers, "rank": rank, "ranks": ranks}  # what a state is bound to
        self._stream = Stream(job) if workers == 0 else None
        self._crew: Crew | None = None
        if workers > 0:
            self._crew = Crew(
                job, workers, seed, worker_init_fn, multiprocessing_context, torch, apart=True
            )
        self._count = max(1, workers)
        self._epoch = 0  # of the batch that comes next
        self._given = 0  # batches of this epoch
        self._turn = 0  # the stream that the next batch comes from
        self._running = False  # whether the streams are in this epoch
        self._iterations = 0
        self._tickets: list[deque[int]] = [deque() for _ in range(self._count)]
        # Of each stream after the last batch that was given, None before the first.
        self._states: list[State | None] = [None] * self._count
        self._own = OwnTimes()  # of the calling process
        self._woken = False

    @property
    def fingerprint(self) -> str:
        """Of the class; what a stream holds is not known."""
        return fingerprint_of(self._dataset, None)

    @property
    def seconds(self) -> float:
        """That batches took, of all workers together."""
        return (self._crew or self._own).seconds

    @property
    def cpu_seconds(self) -> float:
        """Of these, CPU time."""
        return (self._crew or self._own).cpu_seconds

    def set_init_fn(self, init_fn: Callable[[int], Any] | None) -> None:
        """Another worker_init_fn."""
        if self._crew is not None:
            self._crew.set_init_fn(init_fn, apart=True)

    # Batches.

    def next(self, seconds: float | None = None) -> ListBatch | None:
        """The next batch, None at the end of an epoch."""
        until = None if seconds is None else time.monotonic() + seconds
        if not self._running:
            self._begin()
        while (source := self._next_source()) is not None:
            left = None if until is None else max(0.0, until - time.monotonic())
            try:
                made = self._take(source, left)
            except (TimeoutError, LostError):
                raise
            except Ended as end:
                self._states[source] = end.value
                self._drop(source)
                continue
            except Exception:
                self._pass_on(source)
                raise
            self._pass_on(source)
            return ListBatch(self._epoch, self._given - 1, _NO_INDICES, made)
        self._forget()
        self._states = [None] * self._count
        self._epoch, self._given = self._epoch + 1, 0
        return None

    def _pass_on(self, source: int) -> None:
        """A batch was given, or what it raised."""
        self._turn = (source + 1) % self._count
        self._given += 1

    def _next_source(self) -> int | None:
        """The stream whose turn it is, of those that have not ended."""
        for step in range(self._count):
            source = (self._turn + step) % self._count
            if self._tickets[source]:
                return source
        return None

    def _begin(self) -> None:
        """Start the streams, each where its state says."""
        self._running = True
        self._iterations += 1
        alive = [n for n, state in enumerate(self._states) if state is None or not state["ended"]]
        if self._stream is not None and alive:
            with kept_generators():
                self._stream.begin(self._epoch, self._states[0])
            self._tickets[0].append(0)
            return
        for number in range(self._ahead):
            for source in alive:
                self._ask(source, self._states[source] if number == 0 else None)

    def _ask(self, source: int, state: State | None) -> None:
        assert self._crew is not None
        task = pickle.dumps((self._iterations, self._epoch, state))
        self._tickets[source].append(self._crew.ask(task, source))

    def _take(self, source: int, seconds: float | None) -> Any:
        """The next batch of one stream; what it raises is that stream's next answer too."""
        if self._stream is not None:
            with self._own.calling():
                return self._stream.next()
        assert self._crew is not None
        tickets = self._tickets[source]
        try:
            made, state = self._crew.take(tickets[0], seconds)
        except (TimeoutError, LostError):
            raise
        except Ended:
            tickets.popleft()
            raise
        except Exception:
            tickets.popleft()
            self._ask(source, None)
            raise
        tickets.popleft()
        self._ask(source, None)
        self._states[source] = state
        if isinstance(made, Failure):
            raise made.error()
        return made

    def _drop(self, source: int) -> None:
        while self._tickets[source]:
            ticket = self._tickets[source].popleft()
            if self._crew is not None:
                self._crew.drop(ticket)

    def _forget(self) -> None:
        for source in range(self._count):
            self._drop(source)
        self._running = False
        self._turn = 0

    # Places.

    def seek(self, epoch: int, start: int) -> None:
        """The next batch is the one after `start` batches of `epoch`."""
        if not self._running and (epoch, start) == (self._epoch, self._given):
            return  # this is where load() has gone
        self._forget()
        self._states = [None] * self._count
        self._epoch, self._given = epoch, 0
        if start > 0:
            _warn_of(start)
            while self._given < start:
                try:
                    if self.next() is None:
                        return
                except LostError:
                    raise
                except Exception:  # it was told when its turn was
                    pass

    def state(self) -> State:
        """The place after the last batch that was given; of this rank alone."""
        if self._stream is not None and self._running:
            self._states[0] = self._stream.state()
        return {
            "epoch": self._epoch,
            "batches": self._given,
            "turn": self._turn,
            **self._known,
            "streams": list(self._states),
        }

    def load(self, state: Any) -> None:
        """The next batch is the one after the place that state() told. ValueError, and nothing has
        changed, if it cannot be."""
        if not isinstance(state, Mapping) or not {*_PLACE, *self._known} <= set(state):
            raise ValueError(
                "the state is damaged: its entry 'stream' does not say where a stream is; use "
                "another state"
            )
        for name, what in (("workers", "worker processes"), ("ranks", "ranks")):
            if state[name] != self._known[name]:
                raise ValueError(
                    f"the state of this stream was written with {state[name]} {what}, here are "
                    f"{self._known[name]}: go on with the same number"
                )
        if state["rank"] != self._known["rank"]:
            raise ValueError(
                f"the state of this stream is that of rank {state['rank']}, this is rank "
                f"{self._known['rank']}: save and load the state on each rank"
            )
        epoch, batches, turn, streams = (state[name] for name in _PLACE)
        if (
            not (is_count(epoch) and is_count(batches) and is_count(turn))
            or turn >= self._count
            or not isinstance(streams, list | tuple)
            or len(streams) != self._count
            or not all(stream is None or is_state(stream) for stream in streams)
        ):
            raise ValueError(
                f"the state is damaged: no stream can be at epoch {epoch!r}, batch {batches!r}, "
                f"turn {turn!r} with what it says of each; use another state"
            )
        self._forget()
        self._epoch, self._given, self._turn = epoch, batches, turn
        self._states = list(streams)
        again = sum(
            stream["batches"]
            for stream in self._states
            if stream is not None
            and not stream["ended"]
            and stream["dataset"] is None
            and stream["iterator"] is None
        )
        if again > 0:
            _warn_of(again)

    def batches_in(self, epoch: int) -> None:
        """Nobody knows before the end."""

    def give_list(self, samples: Integers, batch_ends: Integers) -> None:
        """The order is the data set's."""
        raise RuntimeError("an IterableDataset takes no list of samples")

    # The rest of what a loader asks its core.

    def name_of(self, sample: int) -> bytes:
        """What to call a sample in a message."""
        return b"in a stream"

    def renew(self) -> None:
        """Let new worker processes have the data set as it is now; seek() must follow."""
        if self._running:  # otherwise it is where load() has gone
            self._forget()
        if self._crew is not None:
            self._crew = self._crew.renewed()
            if self._woken:  # meanwhile
                self._crew.wake()

    def wake(self) -> None:
        """Whoever waits for a batch gives up. Any thread may call it."""
        self._woken = True
        if self._crew is not None:
            self._crew.wake()

    def close(self) -> None:
        """Nothing more is made."""
        self._forget()
        if self._crew is not None:
            self._crew.close()
