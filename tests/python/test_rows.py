# SPDX-License-Identifier: Apache-2.0
"""Data sets that are rows: their batches are the ones of torch's DataLoader."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from beside_torch import check_same
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split

import foreload
from foreload import _core
from foreload._core import OrderSettings
from foreload.cluster.ranks import Ranks
from foreload.data.map_style import ListCore, Wanted
from foreload.data.row_columns import Dense
from foreload.data.rows import MOST_AHEAD, RowMaker, rows_of
from foreload.planning.place import Iteration
from foreload.planning.samplers import OrderSampler

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

TENSOR_TYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
]
ARRAY_TYPES = ["?", "u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def taken(maker: RowMaker, lists: Sequence[Sequence[int]]) -> Iterator[Any]:
    """Batches that were all asked for before the first is taken."""
    wanted = [np.array(numbers, dtype=np.int64) for numbers in lists]
    tickets = [maker.submit(Wanted(0, numbers, numbers)) for numbers in wanted]
    for ticket in tickets:
        yield maker.take(ticket, 60)


def some_lists(length: int, seed: int = 0, size: int = 7) -> list[list[int]]:
    """A shuffled epoch in batches, and one batch with repeats."""
    random = np.random.default_rng(seed)
    numbers = random.permutation(length).tolist()
    cut = [numbers[at : at + size] for at in range(0, length, size)]
    return [*cut, random.integers(0, length, size).tolist()]


def check_like_torch(dataset: Any, reference: Any = None, seed: int = 0) -> RowMaker:
    """Batches of the data set are torch's DataLoader's, over the reference if torch cannot take
    the data set itself."""
    maker = rows_of(dataset)
    assert maker is not None
    reference = dataset if reference is None else reference
    assert len(maker) == len(reference)
    lists = some_lists(len(maker), seed)
    loader = DataLoader(reference, batch_sampler=lists)
    for made, wanted in zip(taken(maker, lists), loader, strict=True):
        check_same(made, wanted)
    single = rows_of(dataset, single=True)
    assert single is not None
    for number in lists[0]:
        (made,) = taken(single, [[number]])
        (wanted,) = DataLoader(reference, batch_size=None, sampler=[number])
        check_same(made, wanted)
    return maker


def all_dense(maker: RowMaker) -> bool:
    """Whether C++ copies everything."""
    return all(isinstance(column, Dense) for column in maker._columns)


class Columns(Dataset[Any]):
    """What a dict of columns means, for torch."""

    def __init__(self, columns: Any) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> Any:
        return {name: column[index] for name, column in self.columns.items()}


def bits(shape: Sequence[int], dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """A tensor of random bits, NaNs included."""
    if dtype == torch.bool:
        return torch.from_numpy(np.random.default_rng(seed).integers(0, 2, shape) > 0)
    size = torch.empty(0, dtype=dtype).element_size()
    count = int(np.prod(shape)) * size
    if count == 0:
        return torch.empty(*shape, dtype=dtype)
    noise = np.frombuffer(np.random.default_rng(seed).bytes(count), np.uint8).copy()
    return torch.from_numpy(noise).view(dtype).reshape(*shape)


# Tensors.


@pytest.mark.parametrize("dtype", TENSOR_TYPES, ids=str)
def test_tensor_datasets_of_every_type(dtype: torch.dtype) -> None:
    dataset = TensorDataset(bits((50, 3, 5), dtype), bits((50,), dtype, 1))
    assert all_dense(check_like_torch(dataset))


@pytest.mark.parametrize("seed", range(40))
def test_tensors_of_any_shape_and_layout(seed: int) -> None:
    random = np.random.default_rng(seed)
    tensors = []
    for column in range(int(random.integers(1, 4))):
        shape = [30, *random.integers(0 if seed % 5 == 0 else 1, 5, random.integers(0, 4)).tolist()]
        dtype = TENSOR_TYPES[int(random.integers(len(TENSOR_TYPES)))]
        steps = random.integers(1, 3, len(shape)).tolist()
        order = random.permutation(len(shape)).tolist()
        stored = bits([shape[at] * steps[at] for at in order], dtype, column)
        back = stored.permute(np.argsort(order).tolist())
        tensors.append(back[tuple(slice(None, None, step) for step in steps)])
    assert all_dense(check_like_torch(TensorDataset(*tensors), seed=seed))


def test_a_tensor_that_repeats_one_row() -> None:
    assert all_dense(check_like_torch(TensorDataset(torch.arange(4.0).expand(20, 4))))


def test_a_tensor_alone_is_a_data_set() -> None:
    check_like_torch(torch.arange(60).reshape(20, 3))
    check_like_torch(torch.arange(20))


def test_gradients_reach_tensors_that_require_them() -> None:
    weights = torch.arange(40.0).reshape(20, 2).requires_grad_()
    maker = check_like_torch(TensorDataset(weights, torch.arange(20)))
    assert not all_dense(maker)
    (made,) = taken(maker, [[3, 3]])
    made[0].sum().backward()
    assert weights.grad is not None
    assert weights.grad[3].tolist() == [2, 2]
    assert float(weights.grad.sum()) == 4


def test_conjugated_and_negated_views() -> None:
    numbers = bits((20, 3), torch.complex64).conj()
    check_like_torch(TensorDataset(numbers, numbers.imag))


def test_changes_of_a_tensor_are_seen() -> None:
    numbers = torch.zeros(10, dtype=torch.int64)
    maker = rows_of(TensorDataset(numbers))
    assert maker is not None
    numbers += 1
    assert next(taken(maker, [[4, 5]]))[0].tolist() == [1, 1]


def test_batches_are_copies() -> None:
    numbers = torch.zeros(10, 2)
    maker = rows_of(TensorDataset(numbers))
    assert maker is not None
    next(taken(maker, [[4, 5]]))[0].fill_(1)
    assert float(numbers.sum()) == 0


def test_the_memory_of_a_tensor_cannot_be_moved_away() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.complex128):
        numbers = torch.zeros(10, 2, dtype=dtype)
        maker = rows_of(TensorDataset(numbers))
        with pytest.raises(RuntimeError, match="resize"):
            numbers.resize_(1 << 20)
        assert maker is not None


def test_subsets_of_rows() -> None:
    dataset = TensorDataset(torch.arange(60).reshape(20, 3), torch.arange(20))
    for part in random_split(dataset, [13, 7]):
        assert all_dense(check_like_torch(part))
    check_like_torch(Subset(Subset(dataset, range(0, 20, 2)), [3, 1, -1, 9]))
    check_like_torch(Subset(dataset, torch.tensor([4, 4, 2])))


def test_empty_data_sets() -> None:
    nothing = torch.empty(0, 3)
    for dataset in (TensorDataset(nothing), nothing, np.empty((0, 2)), Subset([nothing], [])):
        maker = rows_of(dataset)
        assert maker is not None
        assert len(maker) == 0
        assert maker.fingerprint


def test_batches_that_are_kept_stay_as_they_are() -> None:
    dataset = TensorDataset(torch.arange(4000).repeat_interleave(1000).reshape(4000, 1000))
    maker = rows_of(dataset)
    assert maker is not None
    lists = [list(range(first, first + 100)) for first in range(0, 4000, 100)]
    kept = list(taken(maker, lists))
    for numbers, (made,) in zip(lists, kept, strict=True):
        assert made[:, 999].tolist() == numbers


def test_memory_of_large_batches_is_used_again() -> None:
    maker = rows_of(torch.zeros(1000, 1000))
    assert maker is not None
    places = set()
    for _ in range(20):
        (made,) = taken(maker, [range(500)])
        places.add(made.data_ptr())
        del made
    assert len(places) == 1


@pytest.mark.parametrize("dtype", TENSOR_TYPES, ids=str)
def test_large_batches_of_every_type(dtype: torch.dtype) -> None:
    check_like_torch(TensorDataset(bits((20, 40_000), dtype)))


# What is the user's own.


class OwnTensors(TensorDataset):
    def __getitem__(self, index: int) -> Any:
        return tuple(-tensor[index] for tensor in self.tensors)


class NothingOwn(TensorDataset):
    pass


class OwnSubset(Subset[Any]):
    pass


class OwnArray(np.ndarray[Any, Any]):
    pass


class OwnDict(dict[str, Any]):
    pass


class OwnTensor(torch.Tensor):
    pass


@pytest.mark.parametrize(
    "dataset",
    [
        OwnTensors(torch.arange(3)),
        NothingOwn(torch.arange(3)),
        OwnSubset(TensorDataset(torch.arange(3)), [0]),
        Subset(OwnTensors(torch.arange(3)), [0]),
        np.arange(3).view(OwnArray),
        torch.arange(3).as_subclass(OwnTensor),
        OwnDict(x=np.arange(3)),
        np.ma.masked_array(np.arange(3)),
        np.rec.fromarrays([np.arange(3)]),
        Columns((np.arange(3),)),
    ],
    ids=lambda dataset: type(dataset).__name__,
)
def test_classes_of_the_user_are_no_rows(dataset: Any) -> None:
    assert rows_of(dataset) is None


@pytest.mark.parametrize(
    "dataset",
    [
        "folder",
        Path("folder"),
        None,
        3,
        np.array(3),
        [],
        (),
        {},
        [1, 2],
        ["a"],
        [(np.arange(2), 1)],
        {"a": [1, 2]},
        {0: np.arange(3), 1: np.arange(3)},
        (np.arange(3), np.arange(4)),
        (np.arange(3), "abc"),
        range(4),
        iter([1]),
    ],
    ids=repr,
)
def test_other_things_are_no_rows(dataset: Any) -> None:
    assert rows_of(dataset) is None


# Arrays.


@pytest.mark.parametrize("kind", ARRAY_TYPES)
def test_arrays_of_every_type(kind: str) -> None:
    numbers = np.random.default_rng(0).integers(0, 100, 60).astype(kind)
    assert all_dense(check_like_torch(numbers.reshape(20, 3)))
    if kind != "u8":  # of which torch makes no batch
        assert all_dense(check_like_torch(numbers))


@pytest.mark.parametrize("seed", range(30))
def test_arrays_of_any_shape_and_layout(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = [30, *random.integers(0 if seed % 5 == 0 else 1, 5, random.integers(1, 4)).tolist()]
    kind = ARRAY_TYPES[int(random.integers(len(ARRAY_TYPES)))]
    steps = [int(random.choice([-2, -1, 1, 2])), *random.integers(1, 3, len(shape) - 1).tolist()]
    order = random.permutation(len(shape)).tolist()
    sizes = [shape[at] * abs(steps[at]) for at in order]
    stored = random.integers(0, 100, sizes).astype(kind)
    numbers = stored.transpose(np.argsort(order))[tuple(slice(None, None, s) for s in steps)]
    assert all_dense(check_like_torch(numbers, seed=seed))


def test_fortran_order() -> None:
    assert all_dense(check_like_torch(np.asfortranarray(np.arange(600).reshape(20, 5, 6))))


def test_rows_that_run_backwards_inside() -> None:
    """torch refuses these; a copy has no strides that it could refuse."""
    numbers = np.arange(60).reshape(20, 3)[:, ::-1]
    maker = rows_of(numbers)
    assert maker is not None
    assert next(taken(maker, [[7, 1]])).tolist() == [[23, 22, 21], [5, 4, 3]]


@pytest.mark.parametrize(
    "numbers",
    [
        np.arange(4, dtype="u8"),
        np.arange(8, dtype=">i4").reshape(4, 2),
        np.arange(8, dtype="g").reshape(4, 2),
        np.arange(4).astype("M8[s]"),
        np.zeros(4, dtype=[("a", "i4")]),
        np.array([["a"], ["b"]]),
    ],
    ids=lambda numbers: str(numbers.dtype),
)
def test_what_torch_refuses_is_refused_in_its_words(numbers: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        list(DataLoader(numbers, batch_size=2))
    maker = rows_of(numbers)
    assert maker is not None
    with pytest.raises(theirs.type) as ours:
        list(taken(maker, [[0, 1]]))
    assert str(ours.value) == str(theirs.value)


def test_strings_and_objects() -> None:
    check_like_torch(np.array([f"row {i}" for i in range(20)]))
    maker = rows_of(np.array([b"row", b"r"] * 10))
    assert maker is not None
    assert next(taken(maker, [[3, 4]])) == [b"r", b"row"]
    check_like_torch(np.array([{"a": i} for i in range(20)], dtype=object))


def test_memory_maps_that_cannot_be_written(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(6000, dtype=np.float32).reshape(100, 60))
    numbers = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        maker = rows_of(numbers)
        assert maker is not None
        made = next(taken(maker, [[5, 99]]))
    made += 1  # its own memory
    assert made[0, 0] == 301
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about arrays that cannot be written
        assert all_dense(check_like_torch(numbers))


def test_a_memory_map_lives_as_long_as_its_batches_are_made(tmp_path: Path) -> None:
    np.arange(1 << 20, dtype=np.int64).tofile(tmp_path / "rows")
    maker = rows_of(np.memmap(tmp_path / "rows", np.int64, "r", shape=(1024, 1024)))
    assert maker is not None
    numbers = np.arange(1024)
    tickets = [maker.submit(Wanted(0, numbers, numbers)) for _ in range(4)]
    gatherer = maker._gatherer
    del maker
    gc.collect()
    assert gatherer is not None
    for gathered, _ in tickets:
        assert int(gathered.take(60)[0].sum()) == (1 << 19) * ((1 << 20) - 1)


# Columns.


def test_dicts_of_columns() -> None:
    columns = {
        "image": np.arange(120, dtype=np.uint8).reshape(20, 3, 2),
        "mask": torch.arange(20) > 4,
        "name": [f"row {i}" for i in range(20)],
        "text": np.array([f"text {i}" for i in range(20)]),
        "weight": np.linspace(0, 1, 20, dtype=np.float32),
        "number": list(range(20)),
    }
    assert not all_dense(check_like_torch(columns, Columns(columns)))


WAYS: list[dict[str, Any]] = [
    {},
    {"collate_fn": list},
    {"batch_size": None},
    {"batch_size": None, "num_workers": 1, "multiprocessing_context": "fork"},
]


@pytest.mark.parametrize("given", WAYS, ids=str)
def test_a_part_of_columns_is_rows_in_whatever_way_they_are_given(given: dict[str, Any]) -> None:
    """Without batches, and with a collate_fn, the dict was asked for the key 7."""
    columns = {"x": torch.arange(20), "text": [f"row {i}" for i in range(20)]}
    chosen = Subset(Subset(columns, range(5, 15)), [2, -1, 0])
    loader = foreload.DataLoader(chosen, **{"num_workers": 0} | given)
    found = [batch[0] if isinstance(batch, list) else batch for batch in loader]
    assert [int(sample["x"]) for sample in found] == [7, 14, 5]
    assert [np.asarray(sample["text"]).item() for sample in found] == ["row 7", "row 14", "row 5"]
    loader.close()


def test_another_column_is_used_where_rows_are_called_or_refused() -> None:
    """Rows that a collate_fn gets came from the column that was there before."""
    columns = {"x": torch.arange(4)}
    called = foreload.DataLoader(columns, batch_size=4, num_workers=0, collate_fn=list)
    gathered = foreload.DataLoader(columns, batch_size=4)
    for loader in (called, gathered):
        assert len(list(loader)) == 1
    columns["x"] = torch.arange(4) + 10
    ((first, *_),) = called
    assert int(first["x"]) == 10
    with pytest.raises(RuntimeError, match="the columns of the data set changed"):
        next(iter(gathered))


def test_columns_of_different_lengths_are_named() -> None:
    with pytest.raises(ValueError, match="equally many rows, but they have 'x' 3, 'y' 4: cut"):
        rows_of({"x": np.arange(3), "y": np.arange(4)})


# Lists.


@pytest.mark.parametrize("kind", ["f4", "u1", "i8", "c16"])
@pytest.mark.parametrize("shape", [(3, 2), (4,), (), (2, 0)], ids=str)
def test_lists_of_arrays_and_tensors(kind: str, shape: tuple[int, ...]) -> None:
    arrays = [np.full(shape, i).astype(kind) for i in range(20)]
    assert all_dense(check_like_torch(arrays))
    assert all_dense(check_like_torch([torch.from_numpy(array) for array in arrays]))
    assert all_dense(check_like_torch(tuple(arrays)))


def test_lists_of_arrays_that_are_not_alike() -> None:
    check_like_torch([np.arange(i, 6 + i).reshape(2, 3).T for i in range(20)])
    mixed = [torch.arange(3, dtype=torch.float32 if i % 2 else torch.int16) for i in range(20)]
    check_like_torch(mixed)
    check_like_torch([torch.ones(2, requires_grad=bool(i % 2)) for i in range(20)])


def test_ragged_lists_are_no_rows() -> None:
    rows = [np.arange(i % 4 + 1) for i in range(20)]
    assert rows_of(rows) is None
    assert rows_of([torch.from_numpy(row) for row in rows]) is None


# How batches are asked for.


def core_of(maker: RowMaker, batch_size: int, drop_last: bool = False) -> ListCore:
    order = OrderSampler(
        len(maker), OrderSettings("torch"), 3, Ranks(0, 1, 1, "nobody"), "repeat", Iteration()
    )
    return ListCore(maker, order, batch_size, drop_last)


def test_epochs_follow_the_order() -> None:
    maker = rows_of(TensorDataset(torch.arange(1000).repeat_interleave(50).reshape(1000, 50)))
    assert maker is not None
    core = core_of(maker, 64)
    for epoch in range(3):
        seen = []
        while (batch := core.next(60)) is not None:
            assert batch.epoch == epoch
            seen += batch.made[0][:, 7].tolist()
        assert seen == core._order.indices(epoch).tolist()
    assert maker.ahead == MOST_AHEAD
    assert maker.seconds > 0
    core.close()


def test_seeking_forgets_what_was_asked_for() -> None:
    maker = rows_of(TensorDataset(torch.arange(1000).repeat_interleave(500).reshape(1000, 500)))
    assert maker is not None
    core = core_of(maker, 64)
    for epoch in (0, 4, 2):
        core.seek(epoch, 0)
        batch = core.next(60)
        assert batch is not None
        assert batch.made[0][:, 0].tolist() == core._order.indices(epoch)[:64].tolist()
    core.close()


def test_large_rows_are_not_gathered_far_ahead() -> None:
    maker = rows_of(np.zeros((4, 5 << 20), np.int64))
    assert maker is not None
    next(taken(maker, [[1]]))
    assert maker.ahead == 2


def test_a_row_that_is_not_there_belongs_to_its_batch() -> None:
    maker = rows_of(np.arange(6).reshape(3, 2))
    assert maker is not None
    bad = maker.submit(Wanted(0, np.array([0, 3]), np.array([0, 3])))
    with pytest.raises(IndexError, match=r"cannot gather row 3: the data set has rows 0 to 2; "):
        maker.take(bad, None)
    assert next(taken(maker, [[2]])).tolist() == [[4, 5]]


def test_a_batch_that_is_late_can_be_taken_later() -> None:
    maker = rows_of(np.arange(4_000_000).reshape(1000, 4000))
    assert maker is not None
    numbers = np.arange(1000)
    ticket = maker.submit(Wanted(0, numbers, numbers))
    while True:
        try:
            made = maker.take(ticket, 0)
            break
        except TimeoutError:
            continue
    assert int(made.sum()) == 4_000_000 * 3_999_999 // 2


def test_nothing_is_gathered_after_close() -> None:
    maker = rows_of(np.arange(6))
    assert maker is not None
    maker.close()
    maker.close()
    ticket = maker.submit(Wanted(0, np.array([0]), np.array([0])))
    with pytest.raises(ValueError, match="after close"):
        maker.take(ticket, None)


def test_fingerprints_tell_data_sets_apart() -> None:
    base = np.arange(60, dtype=np.int64).reshape(20, 3)
    end = base.copy()
    end[-1, 2] += 1
    datasets: list[Any] = [
        base,
        end,
        base[:-1],
        base.astype(np.int32),
        base.reshape(20, 3, 1),
        {"a": base, "b": base},
        [*base],
        np.array([f"{i}" for i in range(20)]),
    ]
    made = [rows_of(dataset) for dataset in datasets]
    prints = [maker.fingerprint for maker in made if maker is not None]
    assert len(set(prints)) == len(datasets)
    again = rows_of(base.copy())
    assert again is not None
    assert again.fingerprint == prints[0]


def test_a_forked_child_leaves_the_threads_alone() -> None:
    maker = rows_of(torch.zeros(1000, 1000))
    assert maker is not None
    next(taken(maker, [range(1000)]))  # threads are running
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of forks with threads
        child = os.fork()
    if child == 0:
        try:
            error = maker.submit(Wanted(0, np.array([1]), np.array([1])))[0]
            maker.close()
            os._exit(0 if isinstance(error, ValueError) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    maker.close()


def test_a_program_may_end_with_batches_on_their_way(tmp_path: Path) -> None:
    np.zeros((2000, 4096), np.uint8).tofile(tmp_path / "rows")
    script = f"""
import numpy as np
from foreload.data.map_style import Wanted
from foreload.data.rows import rows_of
rows = np.memmap({str(tmp_path / "rows")!r}, np.uint8, "r", shape=(2000, 4096))
maker = rows_of(rows)
numbers = np.arange(2000)
tickets = [maker.submit(Wanted(0, numbers, numbers)) for _ in range(8)]
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
import numpy as np
from foreload.data.map_style import Wanted
from foreload.data.rows import rows_of

def batch(dataset, numbers, single=False):
    maker = rows_of(dataset, single)
    numbers = np.array(numbers)
    return maker.take(maker.submit(Wanted(0, numbers, numbers)), 60)

rows = np.arange(60, dtype=np.float16).reshape(20, 3)
made = batch(rows, [3, 1])
assert type(made) is np.ndarray and made.dtype == np.float16
assert made.tolist() == rows[[3, 1]].tolist()
assert batch(np.arange(5) > 2, [4, 0]).tolist() == [True, False]
both = batch({"x": rows, "y": np.arange(20, dtype=np.uint64)}, [2])
assert both["y"].dtype == np.uint64
named = batch({"x": rows, "name": ["a", "b"] * 10}, [2, 3])
assert named["name"] == ["a", "b"] and named["x"].tolist() == rows[2:4].tolist()
assert batch([np.arange(2), np.arange(2)], [1]).tolist() == [[0, 1]]
assert batch(rows, [2], single=True).tolist() == [6, 7, 8]
assert rows_of(rows).fingerprint == sys.argv[1]
"""


def test_rows_without_torch_are_arrays() -> None:
    rows = rows_of(np.arange(60, dtype=np.float16).reshape(20, 3))
    assert rows is not None
    command = [sys.executable, "-c", WITHOUT_TORCH, rows.fingerprint]
    subprocess.run(command, check=True, timeout=120)


def test_foreload_alone_imports_neither_torch_nor_arrow() -> None:
    script = "import sys, foreload; assert not {'torch', 'pyarrow', 'datasets'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_a_column_says_what_is_wrong_with_it() -> None:
    make: Callable[..., Any] = _core.RowColumn
    with pytest.raises(ValueError, match="first row, address, stride"):
        make(np.zeros((1, 2), np.int64), 1, 1, [])
    with pytest.raises(ValueError, match="begin with row 0 and ascend"):
        make(np.ones((1, 3), np.int64), 2, 1, [])
