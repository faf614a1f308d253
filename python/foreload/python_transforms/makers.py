# SPDX-License-Identifier: Apache-2.0
"""Who makes the samples of a Python transform: threads of this process, or processes of its own.

Both take a task and give a future of (sample, seconds it took, CPU seconds of that).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from foreload.data.calls import seed_generators
from foreload.python_transforms.sample_maker import Key, SampleMaker, Task, sample_generator

Made = tuple[Any, float, float]


class Makers(Protocol):
    """What the pipeline needs of them."""

    def submit(self, task: Task) -> Future[Made]:
        """Begin to make a sample."""

    def take(self, future: Future[Made]) -> Made:
        """What a future gives that is done."""

    def restart(self) -> None:
        """Begin anew if something is broken."""

    def close(self) -> None:
        """Let them end."""


class ThreadMakers:
    """Threads: nothing is copied, but Python code runs one thread at a time."""

    def __init__(self, threads: int, maker: SampleMaker) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="foreload")
        self._maker = maker

    def submit(self, task: Task) -> Future[Made]:
        return self._pool.submit(_timed, self._maker, task)

    def take(self, future: Future[Made]) -> Made:
        return future.result()

    def restart(self) -> None:
        pass

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class ProcessMakers:
    """Spawned processes: bytes go there and samples come back through pipes.

    Nothing lies in shared memory, so nothing is left there. The processes end with this one, in
    whatever way it ends.
    """

    def __init__(self, processes: int, maker: SampleMaker) -> None:
        try:
            self._pickled = pickle.dumps(maker)
        except Exception as error:
            raise TypeError(
                "workers='process' needs functions that can be sent to other processes: define "
                "the transform (and a data set's decode or loader) at the top level of a module, "
                f"not inside a function ({error})"
            ) from error
        self._processes = processes
        self._broken = False
        self._pool = self._start()

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self._processes,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_begin_process,
            initargs=(self._pickled,),
        )

    def submit(self, task: Task) -> Future[Made]:
        data: Any = task.data
        if isinstance(data, tuple):
            data = tuple(map(bytes, data))
        elif not isinstance(data, np.ndarray):
            data = bytes(data)
        try:
            return self._pool.submit(_make_in_process, task._replace(data=data))
        except BrokenExecutor as error:
            failed: Future[Made] = Future()
            failed.set_exception(error)
            return failed

    def take(self, future: Future[Made]) -> Made:
        try:
            pickled, took, cpu = future.result()
        except BrokenExecutor as error:
            self._broken = True
            raise RuntimeError(
                "a worker process ended before its sample was made: it was killed (is there "
                "enough memory?), it crashed, or it could not start (a script that starts "
                "processes needs `if __name__ == '__main__':`); see its output above"
            ) from error
        return pickle.loads(pickled), took, cpu

    def restart(self) -> None:
        if self._broken:
            self.close()
            self._pool = self._start()
            self._broken = False

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def makers_of(workers: str, count: int, maker: SampleMaker) -> Makers:
    """So many threads or processes."""
    return ProcessMakers(count, maker) if workers == "process" else ThreadMakers(count, maker)


def _timed(maker: SampleMaker, task: Task) -> Made:
    begin, cpu_begin = time.perf_counter(), time.thread_time()
    sample = maker(task)
    return sample, time.perf_counter() - begin, time.thread_time() - cpu_begin


# What runs in the processes.

_maker: SampleMaker | None = None  # of this process


def _begin_process(pickled: bytes) -> None:
    global _maker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the loop
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _maker = pickle.loads(pickled)


def _end_with_parent() -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make_in_process(task: Task) -> tuple[bytes, float, float]:
    assert _maker is not None
    seeded = seed_generators(_word_of(task.key))
    sample, seconds, cpu = _timed(_maker, task)
    if "torch" in sys.modules and not seeded:  # the function has imported it just now
        seed_generators(_word_of(task.key))
        sample, seconds, cpu = _timed(_maker, task)
    # torch's own way to send tensors would leave them in shared memory.
    return pickle.dumps(sample, protocol=pickle.HIGHEST_PROTOCOL), seconds, cpu


def _word_of(key: Key) -> int:
    """The word by which the global generators are seeded for one sample."""
    return int(sample_generator(key, stream=1).integers(2**63))
