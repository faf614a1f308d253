# SPDX-License-Identifier: Apache-2.0
"""One copy of a data set that is iterated over: its batches, and where it is.

The same code runs in the calling process and in worker processes.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from inspect import isgenerator
from typing import Any

import numpy as np

from foreload.data.calls import collation, seed_generators, seed_words
from foreload.workers.process import Ended, failure_of, set_worker_info

State = dict[str, Any]


def _word(seed: int, first: int, second: int) -> int:
    return seed_words(seed, first, np.asarray([second], dtype=np.int64))[0]


def has_state(thing: Any) -> bool:
    """Whether it says where it is, and can be told."""
    return callable(getattr(thing, "state_dict", None)) and callable(
        getattr(thing, "load_state_dict", None)
    )


def is_count(value: Any) -> bool:
    """Whether it says how many there are of something."""
    return type(value) is int and value >= 0


def is_state(value: Any) -> bool:
    """Whether it may be the state of a stream."""
    return (
        isinstance(value, Mapping)
        and {"batches", "ended", "dataset", "iterator"} <= set(value)
        and is_count(value["batches"])
        and type(value["ended"]) is bool
    )


def _load_into(thing: Any, state: Any) -> None:
    if not has_state(thing):
        raise ValueError(
            f"the state has one of the data set or its iterator, but {type(thing).__name__} has no "
            "load_state_dict(): use the class that it was taken with"
        )
    thing.load_state_dict(state)


@dataclass(frozen=True)
class StreamJob:
    """What a stream is made from; it can be pickled if the data set and the function can."""

    dataset: Any
    collate_fn: Callable[[Any], Any] | None
    batch_size: int | None  # None: single samples
    drop_last: bool
    seed: int
    rank: int

    def begin(self, worker: int, workers: int) -> Callable[[bytes], Any]:
        """In a worker process: a task asks for the next batch of a certain iteration."""
        stream = Stream(self, worker, workers)
        current: int | None = None

        def do(task: bytes) -> tuple[Any, State]:
            """The batch, or how it failed, and where the stream is then."""
            nonlocal current
            iteration, epoch, state = pickle.loads(task)
            try:
                if current != iteration:
                    current = iteration
                    stream.begin(epoch, state)
                made = stream.next()
            except Ended:
                raise
            except Exception as error:
                made = failure_of(error, worker)
            return made, stream.state()

        return do


class Stream:
    """The batches of one copy of the data set: a worker's, or that of the calling process.

    An error counts as a batch. A generator that has raised one is at its end, as in torch's
    DataLoader; other iterators are asked again.

    The global generators are seeded for each batch by its place, so that a run that goes on
    elsewhere draws the same numbers.
    """

    def __init__(self, job: StreamJob, worker: int = 0, workers: int = 0) -> None:
        self._job = job
        self._worker = worker
        self._workers = workers  # 0: there are no worker processes
        self._collate = collation(job.collate_fn, job.batch_size is None)
        self._iterator: Iterator[Any] = iter(())
        self._ended = True  # nothing more is asked of the iterator
        self._batches = 0  # given of this epoch
        self._seed = 0

    def begin(self, epoch: int, state: State | None) -> None:
        """Iterate over the data set anew, or go on where the state was taken."""
        job = self._job
        self._iterator, self._ended, self._batches = iter(()), True, 0  # in case this fails
        self._seed = (_word(job.seed, epoch, job.rank) >> 1) + self._worker
        if self._workers > 0 and "torch" in sys.modules:
            set_worker_info(self._worker, self._workers, self._seed, job.dataset)
        seed_generators(self._seed)
        given = state or {"batches": 0, "ended": False, "dataset": None, "iterator": None}
        # The order of torchdata: the data set, its iterator, the iterator's state.
        if given["dataset"] is not None:
            _load_into(job.dataset, given["dataset"])
        self._iterator = iter(job.dataset)
        if given["iterator"] is not None:
            _load_into(self._iterator, given["iterator"])
        self._ended = False
        if given["dataset"] is None and given["iterator"] is None:
            while self._batches < given["batches"]:
                try:
                    self._draw()
                except Ended:
                    raise
                except Exception:  # it was told when its turn was
                    pass
        self._batches = given["batches"]
        self._ended = given["ended"]

    def _draw(self) -> Any:
        """The samples of the next batch. Ended where there is none."""
        if self._ended:
            raise Ended(self.state())
        seed_generators(_word(self._seed, 1, self._batches))
        size = self._job.batch_size
        samples: list[Any] = []
        while len(samples) < (size or 1):
            try:
                samples.append(next(self._iterator))
            except StopIteration:
                self._ended = True
                break
            except Exception:
                self._batches += 1  # it counts as given
                self._ended = isgenerator(self._iterator)
                raise
        if not samples or (self._ended and self._job.drop_last and size is not None):
            raise Ended(self.state())
        self._batches += 1
        return samples[0] if size is None else samples

    def next(self) -> Any:
        """The next batch. Ended at the end of the epoch."""
        return self._collate(self._draw())

    def state(self) -> State:
        """After the last batch."""
        dataset, iterator = self._job.dataset, self._iterator
        with_iterator = has_state(iterator) and not self._ended
        with_dataset = has_state(dataset) and iterator is not dataset and not self._ended
        return {
            "batches": self._batches,
            "ended": self._ended,
            "dataset": dataset.state_dict() if with_dataset else None,
            "iterator": iterator.state_dict() if with_iterator else None,  # type: ignore[attr-defined]
        }
