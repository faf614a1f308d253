# SPDX-License-Identifier: Apache-2.0
"""Samplers of torch, torchdata and users: every resume is exact, or refused with the reason.

All stop points of three epochs, side by side with torchdata's StatefulDataLoader.
"""

from __future__ import annotations

import json

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader import sampler as torchdata_samplers

import foreload

COUNT, BATCH, EPOCHS = 11, 3, 3


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return index


DATA = Numbers()


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(7)


class Progress:
    """Keeps how far it is, and its own epoch."""

    def __init__(self):
        self.epoch, self.given = 0, 0

    def __len__(self):
        return COUNT

    def __iter__(self):
        order = [(index * 7 + self.epoch) % COUNT for index in range(COUNT)]
        while self.given < COUNT:
            self.given += 1
            yield order[self.given - 1]
        self.epoch, self.given = self.epoch + 1, 0

    def state_dict(self):
        return {"epoch": self.epoch, "given": self.given}

    def load_state_dict(self, state):
        self.epoch, self.given = state["epoch"], state["given"]


class Settings:
    """Its state says nothing of its progress."""

    def __init__(self):
        self.step = 1

    def __len__(self):
        return COUNT

    def __iter__(self):
        return iter([(index * self.step) % COUNT for index in range(COUNT)])

    def state_dict(self):
        return {"step": self.step}

    def load_state_dict(self, state):
        self.step = state["step"]


def distributed(kind, ranks=2, rank=1):
    return kind(DATA, num_replicas=ranks, rank=rank, shuffle=True, seed=3)


SAMPLERS = {
    "sequential": lambda: SequentialSampler(DATA),
    "random": lambda: RandomSampler(DATA, generator=seeded()),
    "with replacement": lambda: RandomSampler(DATA, True, 17, generator=seeded()),
    "subset": lambda: SubsetRandomSampler([1, 4, 8, 9, 10], generator=seeded()),
    "weighted": lambda: WeightedRandomSampler([1.0, 2.0, 3.0], 8, generator=seeded()),
    "distributed": lambda: distributed(DistributedSampler),
    "stateful distributed": lambda: distributed(torchdata_samplers.StatefulDistributedSampler),
    "torchdata random": lambda: torchdata_samplers.RandomSampler(DATA, generator=seeded()),
    "list": lambda: [5, 3, 1, 0],
    "own progress": Progress,
    "own settings": Settings,
}
BATCH_SAMPLERS = {
    "batches": lambda: BatchSampler(RandomSampler(DATA, generator=seeded()), 4, False),
    "batches of ranks": lambda: BatchSampler(distributed(DistributedSampler), 2, True),
    "torchdata batches": lambda: torchdata_samplers.BatchSampler(
        torchdata_samplers.RandomSampler(DATA, generator=seeded()), 4, False
    ),
    "list of batches": lambda: [[1, 2], [3], [9, 8, 7]],
}
KINDS = SAMPLERS | BATCH_SAMPLERS


def arguments(kind: str):
    made = KINDS[kind]()
    return (
        {"batch_sampler": made}
        if kind in BATCH_SAMPLERS
        else {"batch_size": BATCH, "sampler": made}
    )


def ours(kind: str) -> foreload.DataLoader:
    return foreload.DataLoader(DATA, num_workers=0, **arguments(kind))


def theirs(kind: str) -> StatefulDataLoader:
    return StatefulDataLoader(DATA, num_workers=0, **arguments(kind))


def set_epoch(loader, epoch: int) -> None:
    """As trainers do."""
    for sampler in (loader.sampler, getattr(loader.batch_sampler, "sampler", None)):
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)


def epochs_of(loader, first: int = 0) -> list[list[list[int]]]:
    seen = []
    for epoch in range(first, EPOCHS):
        set_epoch(loader, epoch)
        seen.append([batch.tolist() for batch in loader])
    return seen


def stopped(loader, epoch: int, batches: int):
    """The state after so many batches of an epoch; all of them: after its end."""
    for before in range(epoch):
        set_epoch(loader, before)
        for _ in loader:
            pass
    set_epoch(loader, epoch)
    iterator = iter(loader)
    for _ in range(batches):
        next(iterator)
    return loader.state_dict()


def sent(state):
    """As a file has it, where it can be one."""
    try:
        return json.loads(json.dumps(state))
    except TypeError:
        return state


@pytest.mark.parametrize("kind", KINDS)
def test_every_stop_point_is_exact(kind):
    straight = epochs_of(ours(kind))
    assert straight == epochs_of(theirs(kind))
    for epoch in range(EPOCHS):
        for batches in range(1, len(straight[epoch]) + 1):
            state = sent(stopped(ours(kind), epoch, batches))
            again = ours(kind)
            again.load_state_dict(state)
            rest = epochs_of(again, epoch)
            assert rest[0] == straight[epoch][batches:], (epoch, batches)
            assert rest[1:] == straight[epoch + 1 :], (epoch, batches)


@pytest.mark.parametrize("kind", ["random", "distributed", "torchdata random", "own progress"])
def test_torchdata_goes_on_in_the_same_way(kind):
    straight = epochs_of(theirs(kind))
    for epoch in range(EPOCHS):
        for batches in range(1, len(straight[epoch])):
            again = theirs(kind)
            again.load_state_dict(stopped(theirs(kind), epoch, batches))
            set_epoch(again, epoch)
            theirs_rest = [batch.tolist() for batch in again]
            mine = ours(kind)
            mine.load_state_dict(stopped(ours(kind), epoch, batches))
            set_epoch(mine, epoch)
            assert [batch.tolist() for batch in mine] == straight[epoch][batches:]
            if kind != "random":  # torchdata makes torch's own RandomSampler its own
                assert theirs_rest == straight[epoch][batches:]


@pytest.mark.parametrize("kind", KINDS)
def test_between_epochs_and_before_the_first(kind):
    straight = epochs_of(ours(kind))
    for epoch in range(EPOCHS):
        loader = ours(kind)
        for before in range(epoch):
            set_epoch(loader, before)
            assert [batch.tolist() for batch in loader] == straight[before]
        again = ours(kind)
        again.load_state_dict(sent(loader.state_dict()))
        assert epochs_of(again, epoch) == straight[epoch:]


def test_a_sampler_that_draws_from_global_generators_is_drawn_again():
    def make():
        return foreload.DataLoader(DATA, BATCH, sampler=RandomSampler(DATA), num_workers=0)

    torch.manual_seed(5)
    straight = [batch.tolist() for batch in make()]
    torch.manual_seed(5)
    state = sent(stopped(make(), 0, 2))
    torch.manual_seed(99)
    again = make()
    again.load_state_dict(state)
    before = torch.get_rng_state()
    assert [batch.tolist() for batch in again] == straight[2:]
    assert torch.equal(torch.get_rng_state(), before)


def test_samples_count_not_batches():
    order = [int(index) for batch in ours("random") for index in batch]
    state = stopped(ours("random"), 0, 2)
    other = foreload.DataLoader(DATA, 4, sampler=SAMPLERS["random"](), num_workers=0)
    other.load_state_dict(state)
    assert [int(index) for batch in other for index in batch] == order[2 * BATCH :]


def refused(loader, state, match: str) -> None:
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match=match):
        next(iter(loader))


def test_what_would_not_be_exact_is_refused():
    other_seed = RandomSampler(DATA, generator=torch.Generator().manual_seed(8))
    state = stopped(ours("random"), 0, 1)
    del state["sampler"]["generators"][0]  # as if nobody had kept the generator
    loader = foreload.DataLoader(DATA, BATCH, sampler=other_seed, num_workers=0)
    refused(loader, state, "the sampler gives another list")

    state = stopped(ours("distributed"), 1, 1)
    sampler = distributed(DistributedSampler, ranks=3)
    loader = foreload.DataLoader(DATA, BATCH, sampler=sampler, num_workers=0)
    refused(loader, state, "number of ranks")

    state = stopped(ours("batches"), 0, 1)
    loader = foreload.DataLoader(
        DATA,
        batch_sampler=BatchSampler(RandomSampler(DATA, generator=seeded()), 3, False),
        num_workers=0,
    )
    refused(loader, state, "in the middle of a batch")


def test_the_state_of_one_rank_is_good_for_another():
    def make(rank):
        sampler = distributed(DistributedSampler, rank=rank)
        return foreload.DataLoader(DATA, BATCH, sampler=sampler, num_workers=0)

    straight = [batch.tolist() for batch in make(1)]
    again = make(1)
    again.load_state_dict(stopped(make(0), 0, 1))
    assert [batch.tolist() for batch in again] == straight[1:]
