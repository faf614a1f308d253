# SPDX-License-Identifier: Apache-2.0
"""Data sets that are rows in memory or in mapped files: C++ gathers their batches.

These are torch's TensorDataset and Subsets of it, arrays and tensors, dicts of columns,
lists of arrays, pyarrow's Tables and Hugging Face's Datasets. What a class of the user's own does
is never bypassed: it is no rows.
"""

from __future__ import annotations

import hashlib
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from foreload import _core
from foreload._arguments import Integers
from foreload._collate import default_collate, default_convert
from foreload._packages import is_exactly
from foreload.data.map_style import Wanted
from foreload.data.row_columns import (
    Column,
    Dense,
    Picked,
    address_of,
    column_of,
    column_of_list,
    is_array,
    is_tensor,
)
from foreload.planning.samplers import Sampled

# Batches are gathered ahead within these bytes, but always two and never more than eight.
AHEAD_BYTES = 64 << 20
FEWEST_AHEAD, MOST_AHEAD = 2, 8
LOOP_HOLDS = 3  # batches whose memory a loop usually has


class RowMaker:
    """Makes batches of rows, as `foreload.data.map_style.Maker` says.

    Args:
        columns: What a sample consists of.
        put_together: Makes a batch of a list that has one entry for each column.
        sample: Gives the sample with a number as the data set does.
        single: Whether the loop gets samples instead of batches.
        mapping: Row of each sample, where these are not the same.
    """

    finished = True
    # The loop may change the data between two epochs.
    beyond_the_epoch = False

    def __init__(
        self,
        columns: Sequence[Column],
        put_together: Callable[[list[Any]], Any],
        sample: Callable[[int], Any],
        single: bool = False,
        mapping: Integers | None = None,
    ) -> None:
        self._columns = list(columns)
        self._put_together = put_together
        self._sample = sample
        self._single = single
        self._mapping = mapping
        self._rows = len(self._columns[0])
        self._dense = [column for column in self._columns if isinstance(column, Dense)]
        self._picked = len(self._dense) < len(self._columns)
        self._finishes = any(column.finish is not None for column in self._dense)
        self._gatherer: _core.RowGatherer | None = None
        if self._dense and not single:
            cores = [column.core for column in self._dense]
            memory = [column.memory for column in self._dense]
            self._gatherer = _core.RowGatherer(cores, memory)
        self._sized_for = 0  # rows of the largest batch so far
        self._memory: _core.BatchMemory | None = None
        self.ahead = FEWEST_AHEAD if self._gatherer is not None else 0
        self._own = [0.0, 0.0]  # seconds, and CPU seconds, of the loop's thread
        self.seconds = 0.0
        self.cpu_seconds = 0.0

    @property
    def native(self) -> bool:
        """Whether batches are more than what the data set's own Python code gives."""
        return any(column.native for column in self._columns)

    def __len__(self) -> int:
        return self._rows if self._mapping is None else len(self._mapping)

    def sample(self, index: int) -> Any:
        """One sample as the data set gives it."""
        return self._sample(index)

    def of(
        self, indices: Sequence[int] | Integers, sample: Callable[[Any], Any] | None = None
    ) -> RowMaker:
        """The same data set with these samples of it alone."""
        chosen = np.asarray(indices, dtype=np.int64)
        chosen = np.where(chosen < 0, chosen + len(self), chosen)
        return RowMaker(
            self._columns,
            self._put_together,
            sample or (lambda index: self._sample(int(chosen[index]))),
            self._single,
            chosen if self._mapping is None else self._mapping[chosen],
        )

    def batch(self, indices: Sequence[int]) -> Any:
        """A batch, made at once."""
        numbers = np.asarray(indices, dtype=np.int64)
        return self.take(self.submit(Wanted(0, numbers, numbers)), None)

    @property
    def fingerprint(self) -> str:
        """Of the number of samples, what rows are like, and the first and the last one."""
        digest = hashlib.sha256(len(self).to_bytes(8, "little"))
        ends = np.array([0, len(self) - 1] if len(self) else [], dtype=np.int64)
        numbers = ends if self._mapping is None else self._mapping[ends]
        for column in self._columns:
            digest.update(column.described.encode())
            if isinstance(column, Picked):
                for number in numbers.tolist():
                    digest.update(column.bytes_of(number))
                continue
            raw = np.empty(len(numbers) * column.core.row_bytes, np.uint8)
            one = _core.RowGatherer([column.core], column.memory)
            one.submit(numbers, [address_of(raw)], raw).take()
            digest.update(raw.tobytes())
        return digest.hexdigest()[:32]

    def submit(self, wanted: Wanted) -> Any:
        """Begin to gather; the ticket is what came of that."""
        rows = wanted.indices if wanted.indices.dtype != object else _numbers(wanted.indices)
        if rows is None or self._single:
            return None, wanted.indices
        count = len(rows)
        if count > self._sized_for:
            self._size_for(count)
        try:
            if self._mapping is not None:
                rows = self._mapping[rows]
            if self._gatherer is None:
                return None, rows
            batch = [column.empty(count, self._memory) for column in self._dense]
            addresses = [address_of(each) for each in batch]
            try:
                gathered = self._gatherer.submit(rows, addresses, batch)
            except ValueError as error:  # a row that is not there
                rows = self._from_the_start(rows, error)
                gathered = self._gatherer.submit(rows, addresses, batch)
        except (IndexError, ValueError, MemoryError, RuntimeError) as error:  # of this batch
            return error, rows
        return gathered, rows

    def _from_the_start(self, rows: Integers, error: ValueError) -> Integers:
        """Rows of which some were counted from the end; IndexError if one is beyond that."""
        if rows.min() < -self._rows or rows.max() >= self._rows:
            raise IndexError(str(error)) from None
        return np.where(rows < 0, rows + self._rows, rows)

    def _size_for(self, count: int) -> None:
        self._sized_for = count
        size = max(1, count * sum(column.core.row_bytes for column in self._dense))
        self.ahead = min(MOST_AHEAD, max(FEWEST_AHEAD, AHEAD_BYTES // size))
        self._memory = _core.BatchMemory((self.ahead + LOOP_HOLDS) * size)

    def take(self, ticket: Any, seconds: float | None) -> Any:
        """The batch."""
        gathered, rows = ticket
        if isinstance(gathered, Exception):
            raise gathered
        if self._single:
            return self._timed(lambda: default_convert(self._sample(rows.tolist()[0])))
        if rows.dtype == object:  # the data set knows what is meant
            return self._timed(lambda: default_collate([self._sample(row) for row in rows]))
        dense: list[Any] = gathered.take(seconds) if gathered is not None else []
        if self._picked or self._finishes:
            return self._timed(lambda: self._put_together(self._finished(dense, rows)))
        self._count()
        return self._put_together(dense)

    def _finished(self, dense: list[Any], rows: Integers) -> list[Any]:
        gathered = iter(dense)
        numbers = rows.tolist() if self._picked else []
        made: list[Any] = []
        for column in self._columns:
            if isinstance(column, Picked):
                made.append(column.pick(numbers))
            else:
                batch = next(gathered)
                made.append(batch if column.finish is None else column.finish(batch))
        return made

    def _timed(self, function: Callable[[], Any]) -> Any:
        begin, cpu_begin = time.perf_counter(), time.thread_time()
        try:
            return function()
        finally:
            self._own[0] += time.perf_counter() - begin
            self._own[1] += time.thread_time() - cpu_begin
            self._count()

    def _count(self) -> None:
        seconds, cpu = (0.0, 0.0) if self._gatherer is None else self._gatherer.times()
        self.seconds, self.cpu_seconds = self._own[0] + seconds, self._own[1] + cpu

    def drop(self, ticket: Any) -> None:
        """Nothing more is copied."""
        if isinstance(ticket[0], _core.GatheredRows):
            ticket[0].drop()

    def wake(self) -> None:
        """Whoever waits for a batch gives up."""
        self.close()

    def close(self) -> None:
        """End the threads. Any thread may call it."""
        if self._gatherer is not None:
            self._gatherer.close()


def _numbers(indices: Sampled) -> Integers | None:
    """What a sampler gave, if all are numbers of some kind; None if not."""
    numbers = [operator.index(one) for one in indices if _is_number(one)]
    return np.asarray(numbers, dtype=np.int64) if len(numbers) == len(indices) else None


def _is_number(value: Any) -> bool:
    if isinstance(value, int | np.integer):
        return not isinstance(value, bool) and -(2**63) <= int(value) < 2**63
    return bool(
        getattr(value, "shape", None) == ()
        and hasattr(value, "is_floating_point")  # a tensor
        and not value.is_floating_point()
        and str(value.dtype) != "torch.bool"
    )


def rows_of(dataset: Any, single: bool = False) -> RowMaker | None:
    """Who makes the batches of a data set that is rows; None if it is something else.

    Args:
        dataset: Anything.
        single: Whether the loop gets samples instead of batches.
    """
    if is_exactly(dataset, "TensorDataset", "torch.utils.data"):
        columns = _columns_of(dataset.tensors)
        if columns is None:
            return None
        return RowMaker(columns, _as_it_is, dataset.__getitem__, single)
    if is_exactly(dataset, "Subset", "torch.utils.data"):
        return _subset(dataset, single)
    if is_array(dataset) or is_tensor(dataset):
        column = column_of(dataset)
        assert column is not None
        return RowMaker([column], _the_only_one, dataset.__getitem__, single)
    if type(dataset) is dict:
        return _column_rows(dataset, single)
    if type(dataset) in (list, tuple):
        column = column_of_list(dataset)
        if column is not None:
            return RowMaker([column], _the_only_one, dataset.__getitem__, single)
    if is_exactly(dataset, "Table", "pyarrow"):
        return _table_rows(dataset, single)
    if is_exactly(dataset, "Dataset", "datasets.arrow_dataset"):
        return _hugging_face_rows(dataset, single)
    return None


def _as_it_is(made: list[Any]) -> list[Any]:
    return made


def _the_only_one(made: list[Any]) -> Any:
    return made[0]


def _columns_of(values: Sequence[Any]) -> list[Column] | None:
    """Columns, at least one of which is an array or a tensor; None if they are something else."""
    columns = [column_of(value) for value in values]
    known = [column for column in columns if column is not None]
    arrays = any(is_array(value) or is_tensor(value) for value in values)
    return known if arrays and len(known) == len(columns) else None


def _subset(dataset: Any, single: bool) -> RowMaker | None:
    """A selection of rows."""
    rows = rows_of(dataset.dataset, single)
    indices = np.asarray(dataset.indices)
    if rows is None or len(indices) == 0:
        return None if rows is None else rows.of([], with_rows(dataset).__getitem__)
    if indices.ndim != 1 or indices.dtype.kind not in "iu":
        return None
    if indices.min() < -len(rows) or indices.max() >= len(rows):
        return None  # whoever asks for such a sample gets the error of the data set
    return rows.of(indices, with_rows(dataset).__getitem__)


class Columns:
    """Columns by name, as the data set of rows that they stand for."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns  # the program's own, which it may change

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: Any) -> dict[str, Any]:
        return {name: column[index] for name, column in self.columns.items()}


class ChosenRows:
    """A Subset of a dict of columns, or of such a Subset. torch's own asks the dict by keys."""

    def __init__(self, subset: Any) -> None:
        self.subset = subset

    def __len__(self) -> int:
        return len(self.subset)

    def __getitem__(self, index: Any) -> dict[str, Any]:
        inner = self.subset.dataset
        rows = Columns(inner) if type(inner) is dict else ChosenRows(inner)
        return rows[self.subset.indices[index]]


def with_rows(dataset: Any) -> Any:
    """The data set itself, or the rows of a dict of columns. A dict of something else has its
    samples by key."""
    if is_exactly(dataset, "Subset", "torch.utils.data"):
        inner = with_rows(dataset.dataset)
        return ChosenRows(dataset) if isinstance(inner, Columns | ChosenRows) else dataset
    if type(dataset) is not dict or not all(isinstance(name, str) for name in dataset):
        return dataset
    columns = _columns_of(list(dataset.values()))
    if columns is None:
        return dataset
    if len({len(column) for column in columns}) > 1:
        lengths = ", ".join(f"{name!r} {len(column):,}" for name, column in dataset.items())
        raise ValueError(
            f"the columns of a dict must have equally many rows, but they have {lengths}: cut them "
            "to one length"
        )
    return Columns(dataset)


def _column_rows(dataset: dict[Any, Any], single: bool) -> RowMaker | None:
    """Columns by name."""
    rows = with_rows(dataset)
    if not isinstance(rows, Columns):
        return None
    columns = _columns_of(list(rows.columns.values()))
    assert columns is not None
    return RowMaker(columns, _named(list(rows.columns)), rows.__getitem__, single)


def _table_rows(table: Any, single: bool) -> RowMaker | None:
    """A Table of pyarrow; None if it has no columns."""
    from foreload.data.arrow_rows import table_columns

    columns, sample = table_columns(table)
    if not columns:
        return None
    return RowMaker(columns, _named(table.column_names), sample, single)


def _hugging_face_rows(dataset: Any, single: bool) -> RowMaker:
    """A Dataset of Hugging Face: its table, where batches of that equal its own."""
    from foreload.data import arrow_rows as arrow

    called = RowMaker([arrow.Called(dataset)], _the_only_one, dataset.__getitem__, single)
    if single or len(dataset) == 0:
        return called
    some = sorted({0, len(dataset) // 2, len(dataset) - 1})
    probe = arrow.probe_of(dataset, some)
    columns = None if probe is None else arrow.columns_like(dataset, probe)
    if probe is None or not columns:
        return called
    native = RowMaker(
        columns, _named(list(probe)), dataset.__getitem__, mapping=arrow.mapping_of(dataset)
    )
    return native if arrow.same(native.batch(some), probe) else called


def _named(names: list[str]) -> Callable[[list[Any]], dict[str, Any]]:
    return lambda made: dict(zip(names, made, strict=True))
