# SPDX-License-Identifier: Apache-2.0
"""Batches of a data set that has `__getitem__` only, made in the calling process."""

from __future__ import annotations

import random
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
import torch
from beside_torch import check_same
from torch.utils.data import DataLoader

from foreload._core import OrderSettings
from foreload.cluster.ranks import Ranks
from foreload.data.calls import CallMaker, seed_words
from foreload.data.map_style import ListCore, Wanted
from foreload.planning.place import Iteration
from foreload.planning.samplers import OrderSampler

Point = namedtuple("Point", ["x", "y"])


class Made:
    """A data set of a function."""

    def __init__(self, make, length=10):
        self.make = make
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.make(index)


KINDS = {
    "numbers": lambda i: i,
    "floats": lambda i: i / 3,
    "arrays": lambda i: np.full((2, 3), i, dtype=np.int16),
    "numpy numbers": lambda i: np.float32(i),
    "tensors": lambda i: torch.full((4,), i, dtype=torch.bfloat16),
    "strings": lambda i: f"sample {i}",
    "bytes": lambda i: bytes([i]),
    "pairs": lambda i: (np.full(2, i), i),
    "lists": lambda i: [i, i + 0.5],
    "dicts": lambda i: {"a": i, "b": {"c": np.full(2, i), "d": str(i)}},
    "ordered": lambda i: OrderedDict(a=i, b=(i, i)),
    "named": lambda i: Point(i, np.full(2, i)),
}


def core_of(maker, length, batch_size=4, drop_last=False, epochs=None, shuffle=False) -> ListCore:
    kind = "torch" if shuffle else "sequential"
    order = OrderSampler(
        length, OrderSettings(kind), 0, Ranks(0, 1, 1, "nobody"), "repeat", Iteration()
    )
    return ListCore(maker, order, batch_size, drop_last, epochs)


def epoch_of(core: ListCore) -> list:
    made = []
    while (batch := core.next()) is not None:
        made.append(batch.made)
    return made


def wanted(indices, epoch=0) -> Wanted:
    numbers = np.asarray(indices, dtype=np.int64)
    return Wanted(epoch, numbers, numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_those_of_torch(kind):
    dataset = Made(KINDS[kind])
    mine = epoch_of(core_of(CallMaker(dataset, None, False, 0), 10))
    check_same(mine, list(DataLoader(dataset, batch_size=4)))


@pytest.mark.parametrize("kind", KINDS)
def test_single_samples_are_those_of_torch(kind):
    dataset = Made(KINDS[kind])
    mine = epoch_of(core_of(CallMaker(dataset, None, True, 0), 10, batch_size=1))
    check_same(mine, list(DataLoader(dataset, batch_size=None)))


def test_collate_fn_gets_the_samples():
    maker = CallMaker(Made(lambda i: i), tuple, False, 0)
    assert maker.take(maker.submit(wanted([3, 1])), None) == (3, 1)


def test_collate_fn_gets_a_single_sample():
    maker = CallMaker(Made(lambda i: i), str, True, 0)
    assert maker.take(maker.submit(wanted([3])), None) == "3"


class Several(Made):
    def __getitems__(self, indices):
        assert all(type(index) is int for index in indices)
        return [index * 100 for index in indices]


def test_several_samples_are_asked_for_at_once():
    dataset = Several(lambda i: i)
    check_same(
        epoch_of(core_of(CallMaker(dataset, None, False, 0), 10)),
        list(DataLoader(dataset, batch_size=4)),
    )


def test_a_single_sample_is_asked_for_alone():
    maker = CallMaker(Several(lambda i: i), None, True, 0)
    assert maker.take(maker.submit(wanted([3])), None) == 3


# Random numbers.


def draw(index):
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def drawn(batch_size, epoch=0, seed=0, length=10) -> list:
    core = core_of(CallMaker(Made(draw), list, False, seed), length, batch_size)
    core.seek(epoch, 0)
    return [sample for batch in epoch_of(core) for sample in batch]


def test_random_numbers_do_not_depend_on_the_batch_size():
    assert drawn(4) == drawn(3)


def test_random_numbers_differ_by_sample_epoch_and_seed():
    kinds = zip(*drawn(4), *drawn(4, epoch=1), *drawn(4, seed=1), strict=True)
    assert [len(set(kind)) for kind in kinds] == [30, 30, 30]


def test_random_numbers_of_the_program_are_left_alone():
    def seeded():
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        torch.manual_seed(1)

    seeded()
    expected = [draw(0), draw(0)]
    seeded()
    first = draw(0)
    drawn(4)
    assert [first, draw(0)] == expected


def test_random_numbers_of_the_program_are_left_alone_after_an_error():
    def fails(index):
        draw(index)
        raise KeyError(index)

    random.seed(1)
    expected = random.random()
    random.seed(1)
    maker = CallMaker(Made(fails), None, False, 0)
    with pytest.raises(KeyError):
        maker.take(maker.submit(wanted([0])), None)
    assert random.random() == expected


def test_seeds_are_all_different():
    places = np.arange(1000, dtype=np.int64)
    words = [w for seed in range(3) for epoch in range(3) for w in seed_words(seed, epoch, places)]
    assert len(set(words)) == 9000
    assert min(words) >= 0
    assert max(words) < 2**63


# The rest.


def test_what_the_data_set_raises_is_raised():
    maker = CallMaker(Made(lambda i: 1 // i), None, False, 0)
    with pytest.raises(ZeroDivisionError):
        maker.take(maker.submit(wanted([1, 0])), None)


def test_a_data_set_that_times_out_is_no_batch_that_is_late():
    """TimeoutError means that the batch is still on its way."""

    def fails(index):
        raise TimeoutError("no answer from the database")

    maker = CallMaker(Made(fails), None, False, 0)
    with pytest.raises(RuntimeError, match="no answer from the database"):
        maker.take(maker.submit(wanted([0])), None)


def test_time_is_counted():
    maker = CallMaker(Made(lambda i: sum(range(20_000))), None, False, 0)
    maker.take(maker.submit(wanted(range(10))), None)
    assert maker.seconds > 0
    assert maker.cpu_seconds > 0


def test_fingerprint_is_of_class_and_length():
    def of(dataset):
        return CallMaker(dataset, None, False, 0).fingerprint

    assert of(Made(len)) == of(Made(str))
    assert of(Made(len)) != of(Made(len, 11))
    assert of(Made(len)) != of(Several(len))
