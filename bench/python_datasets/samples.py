# SPDX-License-Identifier: Apache-2.0
"""Data sets that have __getitem__ only."""

from __future__ import annotations

import time
from typing import Any

import numpy as np


class Light:
    """Small arrays: what counts is what a loader does around them."""

    samples = 6400
    batch_size = 32

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.full(64, index, dtype=np.float32), index


class Wide(Light):
    """Arrays of 600 KB that take no time: what counts is how bytes travel."""

    samples = 512
    batch_size = 8

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return np.full((3, 224, 224), index, dtype=np.float32), index


class Heavy(Wide):
    """10 ms of work for 600 KB."""

    samples = 128
    batch_size = 8

    def __getitem__(self, index: int) -> tuple[Any, int]:
        work(0.010)
        return super().__getitem__(index)


class Uneven(Light):
    """5 ms of work on average; every sixteenth sample takes nine times as long as the others."""

    samples = 256
    batch_size = 8

    def __getitem__(self, index: int) -> tuple[Any, int]:
        work(0.030 if index % 16 == 0 else 0.00333)
        return super().__getitem__(index)


def work(seconds: float) -> None:
    """So much time of one CPU, with numpy."""
    values = np.ones(10_000)
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        np.sqrt(values, out=values)
