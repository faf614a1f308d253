# SPDX-License-Identifier: Apache-2.0
"""Samplers that cannot be meant: one line names the argument, what it was and what is wanted."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import foreload
from foreload.planning import sampler_checkpoint
from foreload.transforms import CenterCrop


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"sampler": 5}, "sampler is 5: give a sampler, or a list of indices"),
        ({"sampler": [0, 1.5]}, "the sampler gave 1.5: give whole numbers from 0 to 49"),
        ({"sampler": ["a"]}, "the sampler gave 'a': give whole numbers from 0 to 49"),
        ({"sampler": [torch.tensor(1.0)]}, r"the sampler gave tensor\(1\.\): give whole"),
        ({"sampler": [2**70]}, f"the sampler gave {2**70}: give whole numbers from 0 to 49"),
        ({"batch_sampler": 5}, "batch_sampler is 5: give a sampler, or a list of lists of"),
        ({"batch_sampler": [1, 2]}, "the batch_sampler gave 1 as batch 0: give a list of indices"),
        ({"batch_sampler": [[0], [1, None]]}, "the batch_sampler gave None: give whole numbers"),
    ],
)
def test_what_cannot_be_meant_is_named(images, given, said):
    """[1.5] was sample 1."""
    with pytest.raises(TypeError, match=f"^{said}"):
        next(iter(foreload.DataLoader(images, transform=CenterCrop(8), **given)))
    with pytest.raises((TypeError, IndexError)):
        list(DataLoader(list(range(50)), **given))


def test_numbers_of_every_kind_are_indices(images):
    given = [3, torch.tensor(7), torch.tensor([9])[0].numpy()[()], True]
    loader = foreload.DataLoader(
        images, 4, transform=CenterCrop(8), sampler=given, return_index=True
    )
    assert next(iter(loader))[2].tolist() == [3, 7, 9, 1]
    loader.close()


class Endless:
    def __init__(self, entry):
        self.entry = entry

    def __iter__(self):
        return itertools.repeat(self.entry)


class SaysLess(Endless):
    def __len__(self):
        return 3


class SaysMore(Endless):
    def __init__(self, length):
        self.length = length

    def __iter__(self):
        return itertools.repeat(0, self.length)

    def __len__(self):
        return self.length


@pytest.fixture
def soon(monkeypatch):
    """Fewer entries are too many, so that a test need not draw millions."""
    monkeypatch.setattr(sampler_checkpoint, "MOST_DRAWN", 10_000)


@pytest.mark.parametrize(
    "given",
    [
        {"sampler": Endless(0)},
        {"sampler": SaysLess(0)},
        {"batch_sampler": Endless([0] * 100)},
        {"batch_sampler": SaysLess([0] * 100)},
    ],
)
@pytest.mark.usefixtures("soon")
def test_a_sampler_without_end_is_refused(given):
    """One with a __len__ filled the memory, and so did batches."""
    loader = foreload.DataLoader(TensorDataset(torch.arange(3)), **given)
    with pytest.raises(
        ValueError, match=r"did not end after [\d,]+ samples, and the data set has 3"
    ):
        next(iter(loader))
    loader.close()


@pytest.mark.usefixtures("soon")
def test_a_long_sampler_that_says_so_is_taken():
    loader = foreload.DataLoader(TensorDataset(torch.arange(3)), 1000, sampler=SaysMore(20_000))
    assert len(list(loader)) == 20
    loader.close()


@pytest.mark.usefixtures("soon")
def test_sixteen_times_a_large_data_set_is_no_end_too_late():
    rows = TensorDataset(torch.arange(2000))
    loader = foreload.DataLoader(rows, 1000, sampler=iter([0] * 20_000))
    assert len(list(loader)) == 20
    loader.close()


class BeginsAnew:
    """An iterator that gives its entries again after it has said that it is at its end."""

    def __init__(self):
        self.left = 3

    def __iter__(self):
        return self

    def __next__(self):
        if self.left == 0:
            self.left = 3
            raise StopIteration
        self.left -= 1
        return [self.left]


def test_a_sampler_is_not_asked_after_its_end():
    loader = foreload.DataLoader(TensorDataset(torch.arange(3)), batch_sampler=BeginsAnew())
    assert [batch[0].item() for batch in loader] == [2, 1, 0]
    loader.close()


@pytest.mark.parametrize("given", [{}, {"shuffle": False}])
def test_an_order_without_shuffle_is_refused(images, given):
    """It was taken in silence, and samples came in the order of the data set."""
    with pytest.raises(ValueError, match="order='feistel' is a way to shuffle: give shuffle=True"):
        foreload.DataLoader(images, order="feistel", **given)


def test_an_order_beside_a_sampler_is_ignored_with_a_word(images):
    """Lightning makes a loader again from its arguments, with a sampler of its own."""
    with pytest.warns(UserWarning, match=r"order='feistel' .* is ignored") as said:
        loader = foreload.DataLoader(images, order="feistel", sampler=[0, 1])
    assert said[0].filename == __file__
    loader.close()
