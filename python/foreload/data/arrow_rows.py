# SPDX-License-Identifier: Apache-2.0
"""Rows that lie in Arrow's memory: pyarrow's Tables, and Datasets of Hugging Face's `datasets`.

Numbers are copied out of Arrow's own buffers, which may be mapped files. What is more than numbers,
lists of one length and text is made by the data set itself.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from foreload._arguments import Integers
from foreload._collate import HAVE_TORCH, default_collate
from foreload.data.row_columns import Column, Dense, Layout, Picked, address_of, batch_dtype, packed


class _Piece(NamedTuple):
    """Numbers of consecutive rows."""

    address: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    memory: Any


class Text(Picked):
    """A column of strings or of bytes.

    Args:
        column: A chunked array.
        kind: What a row becomes, where that is not Python's str or bytes.
        through_numpy: Whether zeros at the end are lost, as they are in numpy's strings.
    """

    native = True

    def __init__(self, column: Any, kind: type | None = None, through_numpy: bool = False) -> None:
        super().__init__(lambda number: column[number].as_py(), len(column), str(column.type))
        pa: Any = sys.modules["pyarrow"]

        self._kind = kind
        self._through_numpy = through_numpy
        self._text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        wide = pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type)
        width = np.int64 if wide else np.int32
        self._pieces: list[tuple[npt.NDArray[Any], memoryview]] = []
        firsts: list[int] = []
        first = 0
        for chunk in column.chunks:
            if len(chunk) == 0:
                continue
            _, offsets, data = chunk.buffers()
            ends = np.frombuffer(offsets, width)[chunk.offset : chunk.offset + len(chunk) + 1]
            self._pieces.append((ends, memoryview(b"" if data is None else data)))
            firsts.append(first)
            first += len(chunk)
        self._firsts = np.array(firsts, dtype=np.int64)

    def pick(self, numbers: list[int]) -> list[Any]:
        """The strings of these rows."""
        rows = np.array(numbers, dtype=np.int64)
        pieces = np.searchsorted(self._firsts, rows, side="right") - 1
        made: list[Any] = []
        places = (rows - self._firsts[pieces]).tolist()
        for piece, place in zip(pieces.tolist(), places, strict=True):
            ends, data = self._pieces[piece]
            each = data[ends[place] : ends[place + 1]]
            made.append(str(each, "utf-8") if self._text else bytes(each))
        if self._through_numpy:
            made = [each.rstrip("\0" if self._text else b"\0") for each in made]
        return made if self._kind is None else [self._kind(each) for each in made]


def _piece(array: Any) -> _Piece | None:
    """The numbers of one chunk, if it has nothing else in rows of one shape."""
    pa: Any = sys.modules["pyarrow"]

    while isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.null_count > 0:
        return None
    kind = array.type
    if pa.types.is_boolean(kind):  # eight in a byte
        numbers = array.to_numpy(zero_copy_only=False)
        return _Piece(address_of(numbers), numbers.dtype, (), numbers)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype = np.dtype(kind.to_pandas_dtype())
        buffer = array.buffers()[1]
        return _Piece(buffer.address + array.offset * dtype.itemsize, dtype, (), array)
    if pa.types.is_fixed_size_list(kind):
        length = kind.list_size
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = np.diff(array.offsets.to_numpy())
        length = int(lengths[0])
        if not bool((lengths == length).all()):
            return None
    else:
        return None
    if length == 0:
        return None
    inner = _piece(array.flatten())
    return None if inner is None else inner._replace(shape=(length, *inner.shape))


class Numbers(NamedTuple):
    """A column of numbers."""

    layout: Layout
    dtype: np.dtype[Any]
    batch_dtype: Any
    memory: Any


def numbers_of(column: Any) -> Numbers | None:
    """Where the numbers of a chunked array are; None if it has anything else, or nulls, or lists
    of different lengths, or no rows, or if no batch can be made by copying them."""
    stretches: list[tuple[int, int, int]] = []
    memory: list[Any] = [column]
    first, alike = 0, None
    for chunk in column.chunks:
        if len(chunk) == 0:
            continue
        piece = _piece(chunk)
        if piece is None or alike not in (None, (piece.dtype, piece.shape)):
            return None
        alike = piece.dtype, piece.shape
        size = piece.dtype.itemsize * math.prod(piece.shape)
        stretches.append((first, piece.address, size))
        memory.append(piece.memory)
        first += len(chunk)
    if alike is None:
        return None
    dtype, shape = alike
    batch = batch_dtype(dtype, scalar=False)
    if batch is None:
        return None
    size = dtype.itemsize
    return Numbers(Layout(stretches, first, size, shape, packed(size, shape)), dtype, batch, memory)


def _is_text(kind: Any) -> bool:
    pa: Any = sys.modules["pyarrow"]

    types = pa.types
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )


def table_columns(table: Any) -> tuple[list[Column], Callable[[int], dict[str, Any]]]:
    """The columns of a pyarrow Table, and what gives one row.

    Numbers keep their type. Text is a list of strings. Everything else is collated from what
    Arrow's as_py() gives.
    """
    columns: list[Column] = []
    rows: dict[str, Callable[[int], Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if column.null_count > 0:
            raise ValueError(
                f"column {name!r} of the table has {column.null_count:,} nulls, for which a batch "
                "has no place: fill them (pyarrow.compute.fill_null), drop their rows or leave the "
                "column out"
            )
        made, row = _table_column(column)
        columns.append(made)
        rows[name] = row
    return columns, lambda index: {name: row(index) for name, row in rows.items()}


def _table_column(column: Any) -> tuple[Column, Callable[[int], Any]]:
    def as_py(index: int) -> Any:
        return column[index].as_py()

    if _is_text(column.type):
        return Text(column), as_py
    numbers = numbers_of(column)
    if numbers is None:
        return Picked(as_py, len(column), str(column.type)), as_py
    layout, own, dtype, memory = numbers
    # [()]: a number is numpy's, not an array without dimensions.
    row = lambda index: np.array(as_py(index), own)[()]  # noqa: E731
    return Dense(layout, memory, dtype, str(column.type)), row


# Hugging Face.


# Kinds of columns that the library gives without decoding anything, and lists of such.
_PLAIN = {"Value", "ClassLabel", "Array2D", "Array3D", "Array4D", "Array5D"}
_LISTS = {"List", "LargeList", "Sequence"}


def plain(feature: Any) -> bool:
    """Whether a column of `datasets` is numbers, text, or lists of these."""
    kind = type(feature)
    if kind.__module__ != "datasets.features.features":
        return False
    if kind.__name__ in _LISTS:
        return plain(feature.feature)
    return kind.__name__ in _PLAIN


def column_like(column: Any, like: Any, through_numpy: bool) -> Column | None:
    """A column whose batches are like the given one, which the data set made; None if there is no
    such column."""
    if _is_text(column.type):
        if column.null_count > 0 or not isinstance(like, list):
            return None
        kind = type(like[0])
        return Text(column, None if kind in (str, bytes) else kind, through_numpy)
    numbers = numbers_of(column)
    if numbers is None:
        return None
    leaf, depth = like, 0
    while isinstance(leaf, list):  # of as many batches as lists have entries
        if not leaf:
            return None
        leaf, depth = leaf[0], depth + 1
    layout, _, dtype, memory = numbers
    if not hasattr(leaf, "dtype") or str(dtype).endswith("uint64"):
        return None
    convert = None if leaf.dtype == dtype else leaf.dtype
    finish = None if convert is None and depth == 0 else _Finish(convert, depth)
    return Dense(layout, memory, dtype, str(column.type), finish)


class _Finish:
    """Gathered rows as another type, and as lists of columns where rows are Python's lists."""

    def __init__(self, dtype: Any, depth: int) -> None:
        self._dtype = dtype
        self._depth = depth

    def __call__(self, batch: Any) -> Any:
        if self._dtype is not None:
            batch = batch.to(self._dtype) if HAVE_TORCH else batch.astype(self._dtype)
        if self._depth == 0:
            return batch
        if HAVE_TORCH:
            return _split(batch.movedim(0, self._depth).contiguous(), self._depth)
        return _split(np.ascontiguousarray(np.moveaxis(batch, 0, self._depth)), self._depth)


def _split(batch: Any, depth: int) -> Any:
    return batch if depth == 0 else [_split(each, depth - 1) for each in batch]


def same(made: Any, wanted: Any) -> bool:
    """Whether two batches are equal in everything."""
    if type(made) is not type(wanted):
        return False
    if isinstance(made, dict):
        return list(made) == list(wanted) and all(same(made[key], wanted[key]) for key in made)
    if isinstance(made, list):
        return len(made) == len(wanted) and all(map(same, made, wanted))
    if hasattr(made, "dtype"):
        if made.dtype != wanted.dtype or made.shape != wanted.shape:
            return False
        one, other = np.asarray(made), np.asarray(wanted)
        return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
    return bool(made == wanted)


class Called(Picked):
    """A data set that is asked for its samples, all of a batch at once."""

    def __init__(self, dataset: Any) -> None:
        super().__init__(dataset.__getitem__, len(dataset), repr(dataset.features))
        self._dataset = dataset

    def pick(self, numbers: list[int]) -> Any:
        """The batch as torch's DataLoader makes it."""
        return default_collate(self._dataset.__getitems__(numbers))

    def bytes_of(self, number: int) -> bytes:
        """A row as it is stored."""
        return repr(self._dataset.with_format("arrow")[number].to_pydict()).encode()


def mapping_of(dataset: Any) -> Integers | None:
    """Rows of the table that select(), shuffle() and filter() chose, None if these are all."""
    if dataset._indices is None:
        return None
    return np.asarray(dataset._indices.column(0).to_numpy(), dtype=np.int64)


def columns_like(dataset: Any, probe: dict[str, Any]) -> list[Column] | None:
    """The columns of a Hugging Face Dataset, if batches like the given one can be made of them."""
    table = dataset.data.table
    formatted = dataset.format["type"] is not None
    columns = [column_like(table.column(name), like, formatted) for name, like in probe.items()]
    known = [column for column in columns if column is not None]
    return known if len(known) == len(columns) else None


def probe_of(dataset: Any, rows: list[int]) -> dict[str, Any] | None:
    """A batch as the data set makes it, None if its columns or its format are left to it."""
    format_ = dataset.format
    hidden = format_["output_all_columns"] and format_["columns"] != dataset.column_names
    if format_["type"] not in (None, "numpy", "torch") or format_["format_kwargs"] or hidden:
        return None
    if not all(plain(dataset.features[name]) for name in format_["columns"]):
        return None
    try:
        made = default_collate(dataset.__getitems__(rows))
    except Exception:  # whatever it is, it comes again where a batch is wanted
        return None
    return made if type(made) is dict else None
