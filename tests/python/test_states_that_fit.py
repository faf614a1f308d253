# SPDX-License-Identifier: Apache-2.0
"""Which states a loader takes: those of the same data, order and random numbers."""

from __future__ import annotations

from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, RandomSampler, Subset, TensorDataset

import foreload
from foreload.transforms import CenterCrop


class Random(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(())


class RandomStream(IterableDataset):
    def __iter__(self):
        return iter(torch.rand(8).tolist())


def noise(image: Any, generator: Any) -> Any:
    return generator.random(3)


def louder(batch: Any, generator: Any) -> Any:
    return [batch[0] * generator.random(), batch[1]]


def plain(image: Any) -> Any:
    return np.zeros(3)


def state_after_one(dataset: Any, **given: Any) -> dict[str, Any]:
    loader = foreload.DataLoader(dataset, **given)
    next(iter(loader))
    state = loader.state_dict()
    loader.close()
    return state


def goes_on(state: dict[str, Any], dataset: Any, **given: Any) -> list[Any]:
    loader = foreload.DataLoader(dataset, **given)
    loader.load_state_dict(state)
    batches = list(loader)
    loader.close()
    return batches


@pytest.mark.parametrize(
    ("dataset", "given"),
    [
        (Random(), {"num_workers": 0}),
        pytest.param(
            RandomStream(),
            {},
            marks=pytest.mark.filterwarnings("ignore:1 batches of the stream are read again"),
        ),
        ("images", {"transform": noise}),
        ("images", {"transform": plain, "workers": "process", "num_workers": 1}),
        ("images", {"transform": CenterCrop(8), "batch_transform": louder}),
    ],
)
def test_the_seed_of_python_code_must_be_the_same(images, dataset, given):
    """A resumed run had other random numbers, in silence."""
    dataset = images if dataset == "images" else dataset
    state = state_after_one(dataset, batch_size=2, seed=1, shuffle=False, **given)
    with pytest.raises(ValueError, match=r"another seed: .* is 1 in the state and 2 here"):
        goes_on(state, dataset, batch_size=2, seed=2, shuffle=False, **given)
    assert goes_on(state, dataset, batch_size=2, seed=1, shuffle=False, **given)


def test_a_seed_that_nobody_uses_may_differ(images):
    state = state_after_one(images, batch_size=2, seed=1, transform=CenterCrop(8))
    assert len(goes_on(state, images, batch_size=2, seed=2, transform=CenterCrop(8))) == 24
    numbers = TensorDataset(torch.arange(8))
    state = state_after_one(numbers, batch_size=2, seed=1)
    assert len(goes_on(state, numbers, batch_size=2, seed=2)) == 3


def test_the_seed_of_a_shuffled_order_cannot_be_missing():
    numbers = torch.arange(8)
    state = state_after_one(numbers, batch_size=2, shuffle=True) | {"seed": None}
    with pytest.raises(ValueError, match="another seed"):
        goes_on(state, numbers, batch_size=2, shuffle=True)


WAYS: list[dict[str, Any]] = [
    {"batch_size": 2},
    {"batch_size": 2, "num_workers": 0, "collate_fn": list},
    {"batch_size": None, "num_workers": 0},
]


def numbers_in(batch: Any) -> list[int]:
    if isinstance(batch, dict):
        return numbers_in(batch["n"])
    if isinstance(batch, list | tuple):
        return [number for each in batch for number in numbers_in(each)]
    return np.asarray(batch).reshape(-1).tolist()


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("kind", ["tensor", "TensorDataset", "dict", "hugging face", "subset"])
def test_rows_are_the_same_data_in_whatever_way_they_are_given(kind, before, after):
    """With a collate_fn the state was refused as one of other files."""
    numbers = torch.arange(10)
    rows = datasets.Dataset.from_dict({"n": list(range(10))})
    dataset = {
        "tensor": numbers,
        "TensorDataset": TensorDataset(numbers),
        "dict": {"n": numbers},
        "hugging face": rows,
        "subset": Subset(rows, range(10)),
    }[kind]
    state = state_after_one(dataset, **WAYS[before])
    done = WAYS[before]["batch_size"] or 1
    given = [
        number for batch in goes_on(state, dataset, **WAYS[after]) for number in numbers_in(batch)
    ]
    assert given == list(range(done, 10))


def test_other_rows_are_other_data():
    state = state_after_one(torch.arange(10), batch_size=2)
    for way in WAYS:
        with pytest.raises(ValueError, match="written for other data"):
            goes_on(state, torch.arange(10) + 1, **way)


def test_objects_in_rows_are_not_told_apart_by_their_place():
    column = [Random() for _ in range(4)]
    again = [Random() for _ in range(4)]
    state = state_after_one({"n": torch.arange(4), "o": column}, batch_size=None)
    assert len(goes_on(state, {"n": torch.arange(4), "o": again}, batch_size=None)) == 3


@pytest.mark.parametrize("consumed", [99_999, 51, True, -1, "3", 2.0, None])
def test_a_damaged_place_is_refused(images, consumed):
    state = state_after_one(images, transform=CenterCrop(8)) | {"consumed": consumed}
    with pytest.raises(ValueError, match=r"^the state is damaged: .*; use another state"):
        goes_on(state, images, transform=CenterCrop(8))


def test_a_damaged_place_in_the_list_of_a_sampler_is_refused(images):
    given = {"transform": CenterCrop(8), "sampler": [3, 2, 1]}
    state = state_after_one(images, **given) | {"consumed": 4}
    with pytest.raises(RuntimeError, match=r"damaged: .* after 4 samples, but the sampler gives 3"):
        goes_on(state, images, **given)


class Counted(Dataset):
    """Its samples depend on what was asked for before."""

    def __init__(self):
        self.asked = 0

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.asked += 1
        return self.asked

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked = state["asked"]


def test_a_data_set_with_a_state_goes_on_with_it_or_not_at_all():
    """Without its state, and in worker processes, it went on with other samples."""
    state = state_after_one(Counted(), batch_size=2, num_workers=0)
    again = goes_on(state, Counted(), batch_size=2, num_workers=0)
    assert [batch.tolist() for batch in again] == [[3, 4], [5, 6], [7, 8]]
    with pytest.raises(ValueError, match="of which each worker process has another one"):
        goes_on(state, Counted(), batch_size=2, num_workers=1)
    del state["data"]
    with pytest.raises(ValueError, match="has no entry 'data', but Counted has a state"):
        goes_on(state, Counted(), batch_size=2, num_workers=0)


def shuffled() -> Any:
    return RandomSampler(range(8), generator=torch.Generator().manual_seed(1))


def test_the_state_of_a_sampler_cannot_be_missing():
    """The rest of the list was drawn without a look at what it was."""
    state = state_after_one(torch.arange(8), batch_size=2, sampler=shuffled())
    del state["sampler"]
    with pytest.raises(ValueError, match="damaged: its entry 'sampler' does not say"):
        goes_on(state, torch.arange(8), batch_size=2, sampler=shuffled())


@pytest.mark.parametrize(
    "damage",
    [
        None,
        [],
        {},
        {"epochs": []},
        {"epochs": [None], "generators": [None], "digest": "0"},
        {"epochs": [None], "generators": ["no state"]},
        {"epochs": [None], "generators": [7]},
    ],
)
def test_a_damaged_state_of_a_sampler_is_refused(damage):
    state = state_after_one(torch.arange(8), batch_size=2, sampler=shuffled())
    with pytest.raises(ValueError, match=r"use another state$"):
        goes_on(state | {"sampler": damage}, torch.arange(8), batch_size=2, sampler=shuffled())


class Counting(IterableDataset):
    def __iter__(self):
        return iter(range(8))


DAMAGED_STREAMS: list[Any] = [
    {"epoch": -1},
    {"batches": "3"},
    {"turn": 1},
    {"turn": True},
    {"streams": None},
    {"streams": []},
    {"streams": [3]},
    {"streams": [{"batches": 1}]},
    {"streams": [{"batches": -1, "ended": False, "dataset": None, "iterator": None}]},
    {"streams": [{"batches": 1, "ended": 0, "dataset": None, "iterator": None}]},
]


@pytest.mark.parametrize("damage", DAMAGED_STREAMS, ids=str)
def test_a_damaged_state_of_a_stream_is_refused(damage):
    state = state_after_one(Counting(), batch_size=2)
    state["stream"] |= damage
    loader = foreload.DataLoader(Counting(), batch_size=2)
    with pytest.raises(ValueError, match=r"^the state is damaged: .*use another state$"):
        loader.load_state_dict(state)
    assert len(list(loader)) == 4


@pytest.mark.parametrize("name", [None, "epoch", "batches", "turn", "streams", "workers", "rank"])
def test_the_state_of_a_stream_cannot_be_missing(name):
    state = state_after_one(Counting(), batch_size=2)
    del (state if name is None else state["stream"])[name or "stream"]
    with pytest.raises(ValueError, match="does not say where a stream is"):
        goes_on(state, Counting(), batch_size=2)


@pytest.mark.parametrize("name", ["dataset", "iterator"])
def test_the_state_of_a_stream_is_for_a_class_that_takes_it(name):
    state = state_after_one(Counting(), batch_size=2)
    state["stream"]["streams"][0][name] = {"place": 2}
    with pytest.raises(ValueError, match=r"has no load_state_dict\(\): use the class that"):
        goes_on(state, Counting(), batch_size=2)
