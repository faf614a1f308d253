# SPDX-License-Identifier: Apache-2.0
"""Questions for samples, asked by any thread and answered by one engine.

The engine is for one thread and gives lists in order, but works on all lists that it has at once:
so one thread hands it every question as a list of its own, as soon as it comes, and deals out the
answers.
"""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from foreload import _core

# Seconds that the engine is waited for until new questions are looked for.
_GLANCE = 0.002


@dataclass(frozen=True)
class Sample:
    """What an answer has of one sample."""

    name: str
    label: int
    data: memoryview


Answer = Future[list[Sample]]


class Questions:
    """All that is asked of one engine. `closed` is called when it has ended."""

    def __init__(self, core: _core.LoaderCore, closed: Callable[[], None]) -> None:
        self._core = core
        self._closed = closed
        self._new: queue.SimpleQueue[tuple[npt.NDArray[np.int64], Answer] | None] = (
            queue.SimpleQueue()
        )
        # Questions that the engine has, in order, and how many were answered before.
        self._asked: deque[tuple[npt.NDArray[np.int64], Answer]] = deque()
        self._answered = 0
        self._stopping = False
        self._lock = threading.RLock()  # a thread that holds it may be the one that collects us
        self._thread = threading.Thread(target=self._run, name="foreload-serve", daemon=True)
        self._thread.start()

    def ask(self, samples: npt.NDArray[np.int64]) -> Answer:
        """The samples of these numbers, once they are there."""
        answer: Answer = Future()
        with self._lock:
            if not self._stopping:
                self._new.put((samples, answer))
                return answer
        answer.set_exception(RuntimeError("the data set is closed"))
        return answer

    def close(self) -> None:
        """End the thread and the engine; questions that are left fail."""
        with self._lock:
            self._stopping = True  # what was asked before is in the queue
        self._new.put(None)
        if threading.current_thread() is not self._thread:  # it may be the one that collects us
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping:
            self._take_questions()
            if self._asked and not self._stopping:
                self._answer()
        while not self._new.empty():
            question = self._new.get()
            if question is not None:
                self._asked.append(question)
        for _, answer in self._asked:
            answer.set_exception(RuntimeError("the data set is closed"))
        self._core.close()
        self._closed()

    def _take_questions(self) -> None:
        """Give the engine what is new; wait for a question if it has none."""
        while not self._asked or not self._new.empty():
            question = self._new.get()
            if question is None:
                return
            try:
                self._give(question[0])
            except ValueError as error:
                question[1].set_exception(error)
            else:
                self._asked.append(question)

    def _give(self, samples: npt.NDArray[np.int64]) -> None:
        self._core.give_list(samples, np.array([len(samples)]))

    def _answer(self) -> None:
        """Answer the first question, if what it is about is there within a glance."""
        try:
            batch = self._core.next(_GLANCE)
        except TimeoutError:
            return
        except Exception as error:
            # The engine goes on failing until it is told to go elsewhere: ask the rest again.
            _, answer = self._asked.popleft()
            self._answered += 1
            self._core.seek(self._answered, 0)
            for samples, _ in self._asked:
                self._give(samples)
            answer.set_exception(error)
            return
        assert batch is not None
        _, answer = self._asked.popleft()
        self._answered += 1
        self._core.next(None)  # the end of this list
        answer.set_result(
            [
                Sample(os.fsdecode(self._core.name_of(index)), label, data)
                for index, label, data in zip(
                    batch.indices.tolist(), batch.labels.tolist(), batch.data, strict=True
                )
            ]
        )
