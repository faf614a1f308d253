# SPDX-License-Identifier: Apache-2.0
"""One batch of a data set that only has `__getitem__`: random numbers, calls, collation.

The same code runs in the calling process and in worker processes, so that the number of workers
changes no batch.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import pickle
import random
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from foreload._collate import HAVE_TORCH, default_collate, default_convert

if TYPE_CHECKING:  # workers need not import what the loop needs
    from foreload._arguments import Integers
    from foreload.data.map_style import Wanted

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def _mix(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finish of SplitMix64: each bit of the input changes half of the output."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def seed_words(seed: int, epoch: int, places: Integers) -> list[int]:
    """A seed of 63 bits for each place of an epoch."""
    words = np.full(1, seed & _MASK, dtype=np.uint64)
    for value in (np.full(1, epoch & _MASK, dtype=np.uint64), places.astype(np.uint64)):
        words = _mix((words + np.uint64(_GOLDEN)) ^ _mix(value + np.uint64(_GOLDEN)))
    found: list[int] = (words >> np.uint64(1)).tolist()
    return found


def seed_generators(word: int) -> bool:
    """Seed the global generators: Python's, numpy's, and torch's for the CPU, if it is used, which
    is the answer.

    torch.manual_seed would seed those of devices too, which takes a hundred times as long as all
    of this; samples are made on the CPU.
    """
    random.seed(word)
    np.random.seed(word & 0xFFFFFFFF)  # noqa: NPY002 - others use it
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return False
    torch.default_generator.manual_seed(word)
    return True


@contextmanager
def kept_generators() -> Iterator[None]:
    """What is drawn inside changes nothing outside."""
    python, legacy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch: Any = sys.modules.get("torch")
    drawn = None if torch is None else torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(legacy)  # noqa: NPY002
        if drawn is not None:
            torch.set_rng_state(drawn)


def collation(collate_fn: Callable[[Any], Any] | None, single: bool) -> Callable[[Any], Any]:
    """What is done to the samples of a batch, or to a single one."""
    if collate_fn is not None:
        return collate_fn
    return default_convert if single else default_collate


def needs_torch(collate_fn: Callable[[Any], Any] | None) -> bool:
    """Whether torch is used: the program has imported it, or tensors are to be made."""
    return "torch" in sys.modules or (collate_fn is None and HAVE_TORCH)


def fingerprint_of(dataset: Any, length: int | None) -> str:
    """Of its class and length: reading samples would take too long."""
    kind = type(dataset)
    text = f"{kind.__module__}.{kind.__qualname__}:{length}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class OwnTimes:
    """How long a data set was called in the calling process."""

    seconds = 0.0
    cpu_seconds = 0.0

    @contextmanager
    def calling(self) -> Iterator[None]:
        """It is called inside. The generators of the program are left alone."""
        begin, cpu_begin = time.perf_counter(), time.thread_time()
        try:
            with kept_generators():
                yield
        except TimeoutError as error:  # it would say that the batch has not come yet
            raise RuntimeError(f"the data set raised {type(error).__name__}: {error}") from error
        finally:
            self.seconds += time.perf_counter() - begin
            self.cpu_seconds += time.thread_time() - cpu_begin


@dataclass(frozen=True)
class Calls:
    """Makes batches; it can be pickled if the data set and the function can."""

    dataset: Any
    collate_fn: Callable[[Any], Any] | None
    single: bool  # samples, not batches
    seed: int

    def __call__(self, epoch: int, indices: list[int], places: Integers) -> Any:
        """One batch. The global generators are left where the last sample left them."""
        words = seed_words(self.seed, epoch, places)
        several = None if self.single else getattr(self.dataset, "__getitems__", None)
        if several:
            samples = _seeded(several, indices, words[0])
        else:
            call = functools.partial(operator.getitem, self.dataset)
            samples = [
                _seeded(call, index, word) for index, word in zip(indices, words, strict=True)
            ]
        return collation(self.collate_fn, self.single)(samples[0] if self.single else samples)


# Epoch, samples, and whether these are pickled: a sampler may give anything. They follow, and their
# places.
_TASK = struct.Struct("<qqq")


def task_of(wanted: Wanted) -> bytes:
    """A batch that is to be made, as a worker is told of it."""
    numbers = wanted.indices.dtype != object
    indices = wanted.indices.tobytes() if numbers else pickle.dumps(wanted.indices.tolist())
    head = _TASK.pack(wanted.epoch, len(wanted.indices), not numbers)
    return b"".join((head, indices, wanted.places.tobytes()))


@dataclass(frozen=True)
class CallJob:
    """What a worker process is started with."""

    calls: Calls

    @property
    def dataset(self) -> Any:
        """For get_worker_info()."""
        return self.calls.dataset

    def begin(self, worker: int, workers: int) -> Callable[[bytes], Any]:
        """All workers do the same."""
        del worker, workers
        return self._make

    def _make(self, task: bytes) -> Any:
        epoch, count, pickled = _TASK.unpack_from(task)
        places = np.frombuffer(task, dtype=np.int64, offset=len(task) - 8 * count)
        if pickled:
            return self.calls(epoch, pickle.loads(task[_TASK.size : -8 * count]), places)
        indices = np.frombuffer(task, dtype=np.int64, count=count, offset=_TASK.size)
        return self.calls(epoch, indices.tolist(), places)


def _seeded(call: Callable[[Any], Any], index: Any, word: int) -> Any:
    seeded = seed_generators(word)
    made = call(index)
    if not seeded and "torch" in sys.modules:  # the data set has imported it just now
        seed_generators(word)
        made = call(index)
    return made


class MadeWhenTaken(OwnTimes):
    """Base of makers that make batches in the calling process, when they are taken."""

    ahead = 0
    beyond_the_epoch = True

    def submit(self, wanted: Wanted) -> Wanted:
        """The ticket is the question itself."""
        return wanted

    def drop(self, ticket: Wanted) -> None:
        """Nothing was begun."""

    def wake(self) -> None:
        """Nobody waits: the data set is called."""

    def close(self) -> None:
        """Nothing was started."""


class CallMaker(MadeWhenTaken):
    """Calls the data set for a batch."""

    finished = True

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any] | None, single: bool, seed: int
    ) -> None:
        if needs_torch(collate_fn):
            import torch  # noqa: F401 - its generator is one of those that are kept
        self._calls = Calls(dataset, collate_fn, single, seed)

    @property
    def fingerprint(self) -> str:
        """Of what is known without reading samples."""
        return fingerprint_of(self._calls.dataset, len(self._calls.dataset))

    def take(self, ticket: Wanted, seconds: float | None) -> Any:
        """Make it now; nobody can be told to stop earlier."""
        del seconds
        with self.calling():
            return self._calls(ticket.epoch, ticket.indices.tolist(), ticket.places)
