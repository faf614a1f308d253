# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any line of a loader's code: no batch is lost, and none comes twice."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

import foreload
from foreload import transforms
from foreload._interrupts import Undisturbed

# Where batches are on their way; not __next__ itself, in which Python's own lines of `with` cannot
# be interrupted.
FILES = (
    "loader/iterator.py",
    "loader/delivery.py",
    "loader/engine_feed.py",
    "data/map_style.py",
    "data/iterable_style.py",
)


class Called:
    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        yield from range(12)


def one_number(image: Any) -> int:
    return int(np.asarray(image).sum())


MAKE = {
    "rows": lambda _: foreload.DataLoader(TensorDataset(torch.arange(12)), batch_size=3),
    "collate_fn": lambda _: foreload.DataLoader(
        TensorDataset(torch.arange(12)), batch_size=3, num_workers=0, collate_fn=list
    ),
    "called": lambda _: foreload.DataLoader(Called(), batch_size=3, num_workers=0),
    "stream": lambda _: foreload.DataLoader(Stream(), batch_size=3, num_workers=0),
    "native": lambda images: foreload.DataLoader(
        images, batch_size=13, transform=transforms.Resize((8, 8)), return_index=True
    ),
    "transform": lambda images: foreload.DataLoader(
        images, batch_size=13, transform=one_number, num_workers=2, return_index=True
    ),
}


def at_line(line: int, files: tuple[str, ...], happen: Callable[[], object]) -> Callable[[], bool]:
    """Let something happen when the line of that number is reached; gives whether it has."""
    left = line

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        code = frame.f_code
        if not code.co_filename.endswith(files) or code.co_name == "__next__":
            return None if event == "call" else trace
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                happen()
        return trace

    sys.settrace(trace)
    return lambda: left <= 0


def interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.filterwarnings("ignore:.*are read again and dropped")
def test_an_interrupt_loses_no_batch(kind, images):
    """What came between the engine's batch and the end of next() was lost."""
    loader = MAKE[kind](images)
    expected = [str(batch) for batch in loader]
    line, interrupted = 0, True
    while interrupted:
        line, interrupted = line + 1, False
        iterator = iter(loader)
        got = [str(next(iterator))]
        at_line(line, FILES, interrupt)
        try:
            got.append(str(next(iterator)))
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(None)
        got += [str(batch) for batch in iterator]
        assert got == expected, line
    assert line > 20
    loader.close()


# Beside these, what of Python's own they call.
WAITING = (
    "workers/crew.py",
    "workers/shared_batches.py",
    "workers/process.py",
    "python_transforms/pipeline.py",
    "python_transforms/makers.py",
    "concurrent/futures/_base.py",
    "concurrent/futures/thread.py",
    "/threading.py",
)


def press_at(line: int, files: tuple[str, ...]) -> Callable[[], bool]:
    """Press Ctrl-C when the line of that number is reached; gives whether that has been done."""
    return at_line(line, files, lambda: signal.raise_signal(signal.SIGINT))


class Large(Called):
    """Its batches lie in shared memory."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((20_000,), index)


WAIT = {
    "workers": lambda _: foreload.DataLoader(
        Large(), batch_size=3, num_workers=1, multiprocessing_context="fork"
    ),
    "transform": lambda images: foreload.DataLoader(
        images, batch_size=3, sampler=range(9), transform=one_number, num_workers=1
    ),
}


@pytest.mark.parametrize("kind", WAIT)
def test_ctrl_c_holds_up_nobody_who_makes_batches(kind, images):
    """A batch that was being received was lost and so was the loader. In threads whoever made
    samples waited for ever for a lock that the loop had left taken."""
    loader = WAIT[kind](images)
    expected = [str(batch) for batch in loader]
    line, pressed = 0, True
    while pressed:
        line, pressed = line + 1, False
        iterator = iter(loader)
        got = [str(next(iterator))]
        done = press_at(line, WAITING)
        with contextlib.suppress(KeyboardInterrupt):
            for batch in iterator:
                sys.settrace(None)
                got.append(str(batch))
                break
        sys.settrace(None)
        pressed = done()
        got += [str(batch) for batch in iterator]
        assert got == expected, line
    assert line > 20
    loader.close()


def test_ctrl_c_at_the_border_of_epochs_loses_nothing():
    """What was interrupted while an epoch ended gave 'the list of this epoch was not given'."""
    loader = foreload.DataLoader(
        Called(), batch_size=3, num_workers=1, multiprocessing_context="fork"
    )
    line, pressed = 0, True
    while pressed:
        line += 1
        iterator = iter(loader)
        for _ in range(4):  # and not StopIteration
            next(iterator)
        iterator = iter(loader)
        done = press_at(line, (*FILES, *WAITING))
        got = []
        with contextlib.suppress(KeyboardInterrupt):
            for batch in iterator:
                sys.settrace(None)
                got.append(batch.tolist())
                break
        sys.settrace(None)
        pressed = done()
        got += [batch.tolist() for batch in iterator]
        assert got == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]], line
    assert line > 20
    loader.close()


def test_whoever_else_hears_ctrl_c_hears_it():
    heard = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with Undisturbed(), Undisturbed():
            signal.raise_signal(signal.SIGINT)
            assert heard == []
        assert heard == [signal.SIGINT]
        with Undisturbed():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        with Undisturbed():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
