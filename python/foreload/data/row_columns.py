# SPDX-License-Identifier: Apache-2.0
"""Columns of data that is rows: where the rows lie, and what a batch of them is.

A batch is what torch's default_collate makes of the rows one by one, or the same with numpy where
torch is not installed.
"""

from __future__ import annotations

import importlib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foreload import _core
from foreload._collate import HAVE_TORCH, default_collate

Array = npt.NDArray[Any]


# Where an object lies is another place in each process.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")

# Memory of so many bytes and more is used again.
LARGE = 128 << 10


class Dense:
    """Rows of one shape that C++ copies into the batch.

    Args:
        layout: Where they are.
        memory: What has the memory, and must live as long as this.
        dtype: Of the batch: torch's, or numpy's where torch is not installed.
        described: What else tells this column from another one.
        finish: Makes what the loop gets of the gathered rows, where that is not the same.
    """

    native = True

    def __init__(
        self,
        layout: Layout,
        memory: Any,
        dtype: Any,
        described: str,
        finish: Callable[[Any], Any] | None = None,
    ) -> None:
        self.core = layout.core()
        self.memory = memory
        self.shape = layout.shape
        self.dtype = dtype
        self.described = f"{described} {layout.shape}"
        self.finish = finish
        self._row_bytes = self.core.row_bytes
        self._carrier, self._view = _carrier_of(dtype)
        self._torch: Any = importlib.import_module("torch") if HAVE_TORCH else None

    def __len__(self) -> int:
        return len(self.core)

    def empty(self, count: int, memory: _core.BatchMemory | None = None) -> Any:
        """Memory for so many rows, a large one from there."""
        shape = (count, *self.shape)
        torch = self._torch
        if memory is None or count * self._row_bytes < LARGE:
            make = np.empty if torch is None else torch.empty
            return make(shape, dtype=self.dtype)
        array = memory.empty(self._carrier, shape)
        if torch is None:
            return array
        batch = torch.from_numpy(array)
        return batch if self._view is None else batch.view(self._view)


def _carrier_of(dtype: Any) -> tuple[np.dtype[Any], Any]:
    """The type of numpy's arrays with which batches begin, and what they are seen as then."""
    if not HAVE_TORCH:
        return dtype, None
    import torch

    one = torch.empty(1, dtype=dtype)
    try:
        return one.numpy().dtype, None
    except TypeError:  # numpy has no such type
        return np.dtype(f"i{one.element_size()}"), dtype


class Picked:
    """Rows that are Python objects, or anything that C++ cannot copy.

    Args:
        rows: Gives one row.
        count: Number of rows.
        described: What tells this column from another one.
    """

    native = False

    def __init__(
        self,
        rows: Callable[[int], Any],
        count: int,
        described: str,
    ) -> None:
        self._rows = rows
        self._count = count
        self.described = described

    def __len__(self) -> int:
        return self._count

    def pick(self, numbers: list[int]) -> Any:
        """The batch of these rows."""
        return default_collate([self._rows(number) for number in numbers])

    def bytes_of(self, number: int) -> bytes:
        """A row for the fingerprint."""
        return _ADDRESS.sub("", repr(self._rows(number))).encode()


Column = Dense | Picked


class Layout(NamedTuple):
    """Where rows of one shape are, in bytes."""

    stretches: list[tuple[int, int, int]]  # first row, address, bytes to the next row
    rows: int
    item_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def core(self) -> _core.RowColumn:
        """The same for C++."""
        return _core.RowColumn(
            np.array(self.stretches, dtype=np.int64).reshape(-1, 3),
            self.rows,
            self.item_bytes,
            list(zip(self.shape, self.strides, strict=True)),
        )


def packed(item_bytes: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row whose items lie one after another."""
    return tuple(item_bytes * math.prod(shape[at + 1 :]) for at in range(len(shape)))


def address_of(value: Any) -> int:
    """Where an array or a tensor begins."""
    if isinstance(value, np.ndarray):
        return int(value.__array_interface__["data"][0])
    return int(value.data_ptr())


def batch_dtype(dtype: np.dtype[Any], scalar: bool) -> Any:
    """What a batch of such rows has, None if no batch can be made of them by copying."""
    if dtype.kind not in "biufc":
        return None
    if not HAVE_TORCH:
        return dtype
    import torch

    row = np.zeros((1,) if scalar else (1, 1), dtype)[0]
    try:
        made = default_collate([row])
        same = made.dtype == torch.from_numpy(np.zeros(1, dtype)).dtype
    except (TypeError, ValueError, RuntimeError):
        return None  # torch says why when the first batch is made
    return made.dtype if same else None


def is_array(value: Any) -> bool:
    """Whether it is numpy's own array or memory map with at least one dimension."""
    return type(value) in (np.ndarray, np.memmap) and value.ndim > 0


def is_tensor(value: Any) -> bool:
    """Whether it is torch's own tensor with at least one dimension."""
    return _is_torchs(value) and value.dim() > 0


def _is_torchs(value: Any) -> bool:
    kind = type(value)
    return kind.__module__ == "torch" and kind.__name__ == "Tensor"


def copied_by_bytes(tensor: Any) -> bool:
    """Whether a batch of its rows is nothing but a copy of bytes of this process."""
    import torch

    return bool(
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and not tensor.is_quantized
        and not tensor.requires_grad
        and not tensor.is_conj()
        and not tensor.is_neg()
        and not tensor.is_nested
    )


def _held(tensor: Any) -> Any:
    """Something over the tensor's memory that does not let it be moved."""
    import torch

    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    size = tensor.element_size()
    return (tensor.view(whole[size]) if size in whole else tensor).numpy()


def column_of(value: Any) -> Column | None:
    """The rows of an array, a tensor or a list; None if it is none of these."""
    if is_tensor(value):
        return _tensor_column(value)
    if is_array(value):
        return _array_column(value)
    if type(value) is list:
        return Picked(value.__getitem__, len(value), "list")
    return None


def _tensor_column(tensor: Any) -> Column:
    if not copied_by_bytes(tensor):
        return Picked(tensor.__getitem__, len(tensor), f"{tensor.dtype} {tuple(tensor.shape[1:])}")
    size = tensor.element_size()
    strides = tuple(stride * size for stride in tensor.stride())
    layout = Layout(
        [(0, address_of(tensor), strides[0])],
        len(tensor),
        size,
        tuple(tensor.shape[1:]),
        strides[1:],
    )
    return Dense(layout, _held(tensor), tensor.dtype, str(tensor.dtype))


def _array_column(array: Array) -> Column:
    shape = array.shape[1:]
    dtype = batch_dtype(array.dtype, scalar=not shape)
    if dtype is None:
        return Picked(array.__getitem__, len(array), f"{array.dtype.str} {shape}")
    layout = Layout(
        [(0, address_of(array), array.strides[0])],
        len(array),
        array.itemsize,
        shape,
        array.strides[1:],
    )
    return Dense(layout, array, dtype, array.dtype.str)


def column_of_list(rows: Sequence[Any]) -> Column | None:
    """A list whose entries are arrays, or tensors, of one shape; None for other lists."""
    if not rows:
        return None
    arrays = all(type(row) in (np.ndarray, np.memmap) for row in rows)
    if not arrays and not all(map(_is_torchs, rows)):
        return None
    first = rows[0]
    described = f"list of {first.dtype.str if arrays else first.dtype}"
    if any(row.shape != first.shape for row in rows):
        return None
    shape = tuple(first.shape)
    # A row is an array here, also one without dimensions.
    dtype = batch_dtype(first.dtype, scalar=False) if arrays else first.dtype
    alike = all(row.dtype == first.dtype for row in rows)
    if arrays:
        together = all(row.flags.c_contiguous for row in rows)
    else:
        together = all(row.is_contiguous() and copied_by_bytes(row) for row in rows)
    if dtype is None or not alike or not together:
        return Picked(rows.__getitem__, len(rows), f"{described} {shape}")
    size = first.itemsize if arrays else first.element_size()
    held = list(rows) if arrays else [_held(row) for row in rows]
    stretches = [(number, address_of(row), 0) for number, row in enumerate(rows)]
    layout = Layout(stretches, len(rows), size, shape, packed(size, shape))
    return Dense(layout, held, dtype, described)
