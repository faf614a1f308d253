# SPDX-License-Identifier: Apache-2.0
"""Checks of arguments that C++ could not name in its own error messages."""

from __future__ import annotations

import operator
import os
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from foreload import _core

Integers = npt.NDArray[np.int64]
Bytes = SupportsIndex | str

MAX_INT64 = 2**63 - 1
MAX_UINT32 = 2**32 - 1
MAX_UINT64 = 2**64 - 1


def whole(name: str, value: SupportsIndex, low: int = 0, high: int = MAX_INT64) -> int:
    """`value` as an int between `low` and `high`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number < low:
        raise ValueError(f"{name} must be at least {low:,}, not {number:,}")
    if number > high:
        raise ValueError(f"{name} must be at most {high:,}, not {number:,}")
    return number


def maybe_whole(name: str, value: SupportsIndex | None, low: int = 0) -> int | None:
    """`value` as an int, None if it is None."""
    return None if value is None else whole(name, value, low)


def one_of(name: str, value: str, *choices: str) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        listed = " or ".join(filter(None, (", ".join(map(repr, choices[:-1])), repr(choices[-1]))))
        near = _core.nearest(str(value), choices)
        raise ValueError(
            f"{name} is {value!r}: use {listed}" + (f"; did you mean {near!r}?" if near else "")
        )


def seed_word(seed: SupportsIndex) -> int:
    """The seed modulo 2**64, as torch takes it."""
    return whole("seed", seed, -(2**63), MAX_UINT64) % 2**64


def size(name: str, value: Bytes) -> int:
    """Bytes, given as a number or as text with a unit ("2GiB")."""
    if isinstance(value, str):
        try:
            return _core.parse_bytes(value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return whole(name, value, 0, MAX_UINT64)


def budget(name: str, value: Bytes) -> int:
    """A size that is to hold samples: a whole number that is small forgot its unit."""
    number = size(name, value)
    if not isinstance(value, str) and 1 <= number <= 2**20:
        raise ValueError(
            f"{name}={number}: {number:,} bytes? Write '{number}GiB', or '{number}B' if you mean it"
        )
    return number


def path_of(value: str | os.PathLike[str]) -> str:
    """A path with `~` and `~user` expanded."""
    return os.path.expanduser(os.fspath(value))


def integers(name: str, values: npt.ArrayLike, low: int, high: int = MAX_INT64) -> Integers:
    """`values` as a one-dimensional array of int64 with entries from `low` to `high`."""
    array: npt.NDArray[Any] = np.asarray(values)
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be whole numbers, not {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension, not {array.ndim}")
    if array.size and int(array.min()) < low:
        raise ValueError(f"{name} has an entry below {low:,}: {int(array.min()):,}")
    if array.size and int(array.max()) > high:
        raise ValueError(f"{name} has an entry above {high:,}: {int(array.max()):,}")
    return np.ascontiguousarray(array, dtype=np.int64)
