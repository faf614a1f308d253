# SPDX-License-Identifier: Apache-2.0
"""What tests share that look at foreload beside torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch


def check_same(made: Any, wanted: Any) -> None:
    """Equal in types, shapes and bits, all the way down."""
    assert type(made) is type(wanted)
    if isinstance(wanted, torch.Tensor):
        assert made.dtype == wanted.dtype
        assert made.shape == wanted.shape
        assert made.requires_grad == wanted.requires_grad
        assert raw(made) == raw(wanted)
    elif isinstance(wanted, np.ndarray):
        assert made.dtype == wanted.dtype
        assert np.array_equal(made, wanted)
    elif isinstance(wanted, dict):
        assert list(made) == list(wanted)
        for key in wanted:
            check_same(made[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert len(made) == len(wanted)
        for one, other in zip(made, wanted, strict=True):
            check_same(one, other)
    else:
        assert made == wanted


def raw(tensor: torch.Tensor) -> bytes:
    """The bits of a tensor."""
    whole = torch.empty(tensor.shape, dtype=tensor.dtype)
    whole.copy_(tensor.detach())
    return bytes(whole.reshape(-1).view(torch.uint8).numpy()) if whole.numel() else b""


class Reel:
    """An iterator that knows where it is."""

    def __init__(self, numbers: Any) -> None:
        self.numbers, self.done = numbers, 0

    def __iter__(self) -> Reel:
        return self

    def __next__(self) -> Any:
        if self.done == len(self.numbers):
            raise StopIteration
        self.done += 1
        return self.numbers[self.done - 1]

    def state_dict(self) -> dict[str, int]:
        return {"done": self.done}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.done = state["done"]
