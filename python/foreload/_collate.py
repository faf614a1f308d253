# SPDX-License-Identifier: Apache-2.0
"""From arrays and samples to the batch that the loop gets: torch's tensors, or numpy's arrays."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

HAVE_TORCH = importlib.util.find_spec("torch") is not None


def tensor(array: npt.NDArray[Any], bfloat16: bool = False) -> Any:
    """The array as a tensor over the same memory, where torch is installed."""
    if not HAVE_TORCH:
        return array
    import torch

    if bfloat16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def channels_first(images: Any) -> Any:
    """N, H, W, C as N, C, H, W, without moving anything."""
    if isinstance(images, np.ndarray):
        return np.moveaxis(images, -1, -3)
    return images.movedim(-1, -3)


def each_tensor(value: Any, change: Callable[[Any], Any], has: str = "data_ptr") -> Any:
    """The value with all tensors in it changed: whatever has a method of that name."""
    if hasattr(value, has):
        return change(value)
    if isinstance(value, Mapping):
        return {key: each_tensor(entry, change, has) for key, entry in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(each_tensor(entry, change, has) for entry in value))
    if isinstance(value, list | tuple):
        return type(value)(each_tensor(entry, change, has) for entry in value)
    return value


def pinned(value: Any) -> Any:
    """Copies of all tensors in pinned memory; a batch of the user's own may pin itself."""
    return each_tensor(value, lambda entry: entry.pin_memory(), has="pin_memory")


def _numpy_collate(samples: list[Any]) -> Any:
    """What torch's default_collate does, with numpy alone."""
    first = samples[0]
    if isinstance(first, np.ndarray):
        return np.stack(samples)
    if isinstance(first, bool | int | float | np.number):
        return np.asarray(samples)
    if isinstance(first, str | bytes):
        return samples
    if isinstance(first, Mapping):
        return {key: _numpy_collate([sample[key] for sample in samples]) for key in first}
    if isinstance(first, tuple | list):
        if any(len(sample) != len(first) for sample in samples):
            raise RuntimeError(
                "cannot make a batch of tuples or lists of different lengths: let the transform "
                "give equally many entries for every sample, or give collate_fn="
            )
        return [_numpy_collate(list(column)) for column in zip(*samples, strict=True)]
    raise TypeError(
        f"cannot make a batch of {type(first).__name__}: let the transform give arrays or numbers, "
        "or give collate_fn="
    )


def default_collate(samples: list[Any]) -> Any:
    """Samples as a batch: torch's default_collate, or the same with numpy."""
    if not HAVE_TORCH:
        return _numpy_collate(samples)
    from torch.utils.data import default_collate as collate

    return collate(samples)


def default_convert(sample: Any) -> Any:
    """One sample as it is, arrays as tensors: torch's default_convert, or nothing."""
    if not HAVE_TORCH:
        return list(sample) if isinstance(sample, tuple) else sample
    from torch.utils.data import default_convert as convert

    converted: Any = convert(sample)  # type: ignore[no-untyped-call,unused-ignore]
    return converted
