# SPDX-License-Identifier: Apache-2.0
"""Samples made by Python functions, in threads, in order."""

from __future__ import annotations

import inspect
import io
import os
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from foreload._datasets import Samples

_MASK = 2**64 - 1


class TransformError(RuntimeError):
    """A Python transform failed; its own exception is the cause, with its traceback."""


def sample_generator(seed: int, epoch: int, position: int) -> np.random.Generator:
    """The random numbers of one sample, by its place in the run alone."""
    bits = np.random.Philox(key=[seed & _MASK, epoch & _MASK], counter=[0, 0, position, 0])
    return np.random.Generator(bits)


def takes_generator(function: Callable[..., Any]) -> bool:
    """Whether a function wants to be given `generator=`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return "generator" in parameters


class NamedBytes(io.BytesIO):
    """The bytes of a file, open for reading, with its name."""

    def __init__(self, data: bytes | memoryview, name: str) -> None:
        super().__init__(data)
        self.name = name


def open_image(data: bytes | memoryview | np.ndarray[Any, Any], name: str) -> Any:
    """An RGB image of Pillow."""
    if isinstance(data, np.ndarray):  # decoded already
        return data
    from PIL import Image

    with NamedBytes(data, name) as file, Image.open(file) as image:
        return image.convert("RGB")


class SampleMaker:
    """Turns the bytes (or the decoded array) of one sample into what the data set would give."""

    def __init__(
        self,
        samples: Samples,
        transform: Callable[..., Any] | None,
        seed: int,
        name_of: Callable[[int], bytes],
    ) -> None:
        self._samples = samples
        self._transform = transform
        self._generator = transform is not None and takes_generator(transform)
        self._seed = seed
        self._name_of = name_of
        self.seconds = 0.0  # of all threads together, roughly

    def __call__(self, data: Any, index: int, label: Any, epoch: int, position: int) -> Any:
        begin = time.perf_counter()
        try:
            return self._make(data, index, label, epoch, position)
        except Exception as error:
            name = os.fsdecode(self._name_of(index))
            raise TransformError(
                f"cannot make sample {index} ({name}): {type(error).__name__}: {error}"
            ) from error
        finally:
            self.seconds += time.perf_counter() - begin

    def _make(self, data: Any, index: int, label: Any, epoch: int, position: int) -> Any:
        samples = self._samples
        extra = (
            {"generator": sample_generator(self._seed, epoch, position)} if self._generator else {}
        )
        if samples.decode is not None:
            sample = samples.decode(bytes(data), index)
            return sample if self._transform is None else self._transform(sample, **extra)
        name = os.fsdecode(self._name_of(index))
        image = (
            open_image(data, name)
            if samples.loader is None
            else samples.loader(NamedBytes(data, name))
        )
        if self._transform is not None:
            image = self._transform(image, **extra)
        if samples.target_transform is not None:
            label = samples.target_transform(label)
        return image, label


class Pipeline:
    """Batches on their way through the threads, in order."""

    def __init__(self, threads: int, ahead: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="foreload")
        self._ahead = ahead
        self._window: deque[tuple[Any, list[Future[Any]]]] = deque()
        self._drained = False

    def restart(self) -> None:
        """Forget what is on its way; another iteration begins."""
        for _, futures in self._window:
            for future in futures:
                future.cancel()
        self._window.clear()
        self._drained = False

    def next(
        self,
        pull: Callable[[float | None], Any],
        tasks: Callable[[Any], list[tuple[Any, ...]]],
        make: Callable[..., Any],
        seconds: float | None,
    ) -> tuple[Any, list[Any]] | None:
        """The next batch and its samples. `pull` gives batches, None at the end."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._drained and len(self._window) < self._ahead:
            try:
                batch = pull(0.0 if self._window else seconds)
            except TimeoutError:
                if not self._window:
                    raise
                break
            if batch is None:
                self._drained = True
            else:
                futures = [self._pool.submit(make, *task) for task in tasks(batch)]
                self._window.append((batch, futures))
        if not self._window:
            return None
        batch, futures = self._window[0]
        results = []
        for future in futures:
            left = None if until is None else max(0.0, until - time.monotonic())
            results.append(future.result(left))
        self._window.popleft()
        return batch, results

    def close(self) -> None:
        """Let the threads end."""
        self.restart()
        self._pool.shutdown(wait=False, cancel_futures=True)
