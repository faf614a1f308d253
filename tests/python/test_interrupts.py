# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C at any line of a loader's code: no batch is lost, and none comes twice."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import IterableDataset, TensorDataset

import foreload
from foreload import transforms

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


def interrupt_at(line: int) -> None:
    """Let the line of that number be interrupted."""
    left = line

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal left
        code = frame.f_code
        if not code.co_filename.endswith(FILES) or code.co_name == "__next__":
            return None if event == "call" else trace
        if event == "line":
            left -= 1
            if left == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    sys.settrace(trace)


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
        interrupt_at(line)
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
