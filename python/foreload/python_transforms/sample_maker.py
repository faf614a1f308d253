# SPDX-License-Identifier: Apache-2.0
"""Samples made by Python functions: what is done to one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from foreload.data.parts import BadPartError, PartsTransform
from foreload.data.samples import LeafDecoder, Samples
from foreload.transforms.python_images import NamedBytes, open_image

_MASK = 2**64 - 1

Key = tuple[int, int, int]  # seed, epoch, position in the epoch


class TransformError(RuntimeError):
    """A sample could not be made; the exception that ended it is the cause, with its traceback."""


class BadSampleError(TransformError):
    """The sample itself is bad, before any transform has seen it: `on_error` says what happens."""


class Task(NamedTuple):
    """One sample to be made."""

    data: Any  # its bytes, or the decoded array
    name: str
    sample: int
    label: Any
    key: Key  # of its random numbers


def sample_generator(key: Key, stream: int = 0) -> np.random.Generator:
    """The random numbers of one sample, by its place in the run alone."""
    seed, epoch, position = key
    bits = np.random.Philox(key=[seed & _MASK, epoch & _MASK], counter=[0, stream, position, 0])
    return np.random.Generator(bits)


def takes_generator(function: Callable[..., Any]) -> bool:
    """Whether a function wants to be given `generator=`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return "generator" in parameters


class SampleMaker:
    """Turns the bytes (or the decoded array) of one sample into what the data set would give.

    Any thread may call it; it can be pickled if the functions it was given can.
    """

    def __init__(
        self, samples: Samples, transform: Callable[..., Any] | None, unchanged: bool = False
    ) -> None:
        self._unchanged = unchanged
        self._decode = samples.decode
        self._loader = samples.loader
        self._target_transform = samples.target_transform
        self._transform = transform
        self.random = (  # wants random numbers
            transform.random
            if isinstance(transform, PartsTransform)
            else transform is not None and takes_generator(transform)
        )

    def __call__(self, task: Task) -> Any:
        try:
            opened = self._open(task)
        except Exception as error:
            raise BadSampleError(_message(task, error)) from error
        try:
            return self._finish(opened, task)
        except BadPartError as error:
            files = self._decode.files(task.sample) if isinstance(self._decode, LeafDecoder) else {}
            raise BadSampleError(
                f"cannot make sample {task.sample}: {error.told(files)}"
            ) from error
        except Exception as error:
            raise TransformError(_message(task, error)) from error

    def _open(self, task: Task) -> Any:
        if self._decode is not None:
            data = task.data if isinstance(task.data, tuple) else bytes(task.data)
            return self._decode(data, task.sample)
        if self._loader is not None:
            return self._loader(NamedBytes(task.data, task.name))
        return open_image(task.data, task.name, self._unchanged)

    def _finish(self, opened: Any, task: Task) -> Any:
        if isinstance(self._transform, PartsTransform):
            return self._transform(opened, task.key)
        if self._transform is not None:
            extra = {"generator": sample_generator(task.key)} if self.random else {}
            opened = self._transform(opened, **extra)
        if self._decode is not None:
            return opened
        label = task.label
        if self._target_transform is not None:
            label = self._target_transform(label)
        return opened, label


def _message(task: Task, error: Exception) -> str:
    return f"cannot make sample {task.sample} ({task.name}): {type(error).__name__}: {error}"
