# SPDX-License-Identifier: Apache-2.0
"""IterableDatasets: the same batches as torch's DataLoader, and states as torchdata's."""

from __future__ import annotations

import json
import os
import random
import signal
import warnings

import numpy as np
import pytest
import torch
from beside_torch import Reel, check_same
from test_calls import Point, draw
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

import foreload
from foreload.data.iterable_style import StreamCore


class Numbers(IterableDataset):
    """So many numbers, shared by the workers if it is told to, the first having more."""

    def __init__(self, length, split=True, make=None):
        self.length = length
        self.split = split
        self.make = make or (lambda number: number)

    def numbers(self):
        info = get_worker_info()
        if info is None or not self.split:
            return range(self.length)
        return range(info.id, self.length - 5 * info.id, info.num_workers)

    def __iter__(self):
        return map(self.make, self.numbers())


class Resumable(Numbers):
    """The data set itself knows where it is."""

    done = 0
    loaded = 0

    def __iter__(self):
        numbers, self.done = self.numbers()[self.loaded :], self.loaded
        self.loaded = 0
        for number in numbers:
            self.done += 1
            yield self.make(number)

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.loaded = state["done"]


class WithPosition(Numbers):
    def __iter__(self):
        return Reel(self.numbers())


@pytest.fixture
def make():
    """Makes streams that are closed in the end."""
    made = []

    def stream(
        dataset, batch_size=4, workers=0, collate_fn=None, drop_last=False, seed=0, **more
    ) -> StreamCore:
        more.setdefault("multiprocessing_context", "fork")
        made.append(StreamCore(dataset, collate_fn, batch_size, drop_last, seed, workers, **more))
        return made[-1]

    yield stream
    for one in made:
        one.close()


def some(core, count) -> list:
    return [core.next(300).made for _ in range(count)]


def epoch_of(core) -> list:
    made = []
    while (batch := core.next(300)) is not None:
        made.append(batch.made)
    return made


# The same batches.


@pytest.mark.parametrize(
    ("length", "split", "workers", "batch_size", "drop_last"),
    [
        (23, True, 0, 4, False),
        (23, True, 0, 4, True),
        (23, True, 0, None, False),
        (0, True, 0, 4, False),
        (23, False, 2, 4, False),
        (23, True, 1, 4, False),
        (40, True, 3, 4, False),
        (40, True, 3, 4, True),
        (12, True, 3, None, False),
        (3, True, 3, 2, False),
        (0, True, 2, 4, False),
    ],
)
def test_batches_are_those_of_torch(make, length, split, workers, batch_size, drop_last):
    dataset = Numbers(length, split)
    mine = make(dataset, batch_size, workers, drop_last=drop_last)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of more workers than cores
        theirs = list(DataLoader(dataset, batch_size, num_workers=workers, drop_last=drop_last))
    for _ in range(2):  # epochs
        check_same(epoch_of(mine), theirs)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_samples_of_any_kind(make, workers, batch_size):
    def sample(number):
        return {"point": Point(number, np.full(2, number)), "name": str(number), "pair": (1, 2.5)}

    dataset = Numbers(10, make=sample)
    theirs = list(DataLoader(dataset, batch_size, num_workers=workers))
    check_same(epoch_of(make(dataset, batch_size, workers)), theirs)


@pytest.mark.parametrize("workers", [0, 1])
def test_collate_fn_makes_the_batch(make, workers):
    assert epoch_of(make(Numbers(5), 2, workers, collate_fn=tuple)) == [(0, 1), (2, 3), (4,)]


def test_batches_know_their_place(make):
    core = make(Numbers(5), 2)
    places = [(batch.epoch, batch.first) for batch in (core.next(), core.next(), core.next())]
    assert places == [(0, 0), (0, 1), (0, 2)]
    assert core.next() is None
    assert core.next().epoch == 1


def test_the_number_of_batches_is_not_known(make):
    assert make(Numbers(5)).batches_in(0) is None


def test_endless_streams_can_be_left(make):
    class Endless(IterableDataset):
        def __iter__(self):
            number = 0
            while True:
                yield number
                number += 1

    core = make(Endless(), 2, workers=2)
    assert [batch.tolist() for batch in some(core, 3)] == [[0, 1], [0, 1], [2, 3]]
    core.seek(1, 0)
    assert some(core, 1)[0].tolist() == [0, 1]


# Random numbers and who a worker is.


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_random_numbers_follow_from_the_seed(make, workers):
    def drawn(seed):
        core = make(Numbers(8, False, draw), 2, workers, list, seed=seed)
        return [epoch_of(core), epoch_of(core)]

    first = drawn(0)
    assert first == drawn(0)
    samples = [repr(s) for run in (first, drawn(1)) for e in run for batch in e for s in batch]
    assert len(set(samples)) == len(samples) == 2 * 2 * 8 * max(1, workers)


def test_ranks_draw_different_numbers(make):
    made = [epoch_of(make(Numbers(4, make=draw), 2, collate_fn=list, rank=r)) for r in (0, 1)]
    assert made[0] != made[1]


def test_random_numbers_of_the_program_are_left_alone(make):
    random.seed(1)
    expected = random.random()
    random.seed(1)
    epoch_of(make(Numbers(8, make=draw), 2, collate_fn=list))
    assert random.random() == expected


def test_workers_know_who_they_are(make):
    def who(number):
        info = get_worker_info()
        return info.id, info.num_workers, type(info.dataset), info.seed - info.id

    core = make(Numbers(20, make=who), 3, 2, list)
    epochs = [[s for batch in epoch_of(core) for s in batch] for _ in range(2)]
    assert {s[:3] for s in epochs[0]} == {(0, 2, Numbers), (1, 2, Numbers)}
    seeds = [{s[3] for s in epoch} for epoch in epochs]
    assert [len(s) for s in seeds] == [1, 1]  # the same base in all workers,
    assert seeds[0] != seeds[1]  # and another one in the next epoch


calls = []


def test_worker_init_fn_is_called_once(make):
    dataset = Numbers(4, make=lambda number: list(calls))
    core = make(dataset, 2, 1, list, worker_init_fn=calls.append)
    for _ in range(2):
        assert epoch_of(core) == [[[0], [0]], [[0], [0]]]


# States.


@pytest.mark.parametrize("kind", [Resumable, WithPosition, Numbers])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 3, 8, 9])
@pytest.mark.filterwarnings("ignore:.*read again and dropped")
def test_a_stream_goes_on_where_it_was(make, kind, workers, stop):
    """Of 33 numbers two workers have 5 and 4 batches: after 8 the second one is at its end, after 9
    both are, but nobody was told."""
    expected = epoch_of(make(kind(33), 4, workers))
    before = make(kind(33), 4, workers)
    some(before, stop)
    state = json.loads(json.dumps(before.state()))
    after = make(kind(33), 4, workers)
    after.load(state)
    after.seek(0, stop)
    assert after.state() == state
    check_same(epoch_of(after), expected[stop:])
    check_same(epoch_of(after), expected)  # the next epoch is whole again
    check_same(epoch_of(before), expected[stop:])


@pytest.mark.parametrize("kind", [Resumable, WithPosition])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
def test_states_go_on_as_those_of_torchdata(make, kind, workers):
    theirs = StatefulDataLoader(kind(33), 4, num_workers=workers)
    mine = make(kind(33), 4, workers)
    iterator = iter(theirs)
    for _ in range(3):
        check_same(mine.next(300).made, next(iterator))
    their_state, my_state = theirs.state_dict(), mine.state()
    theirs = StatefulDataLoader(kind(33), 4, num_workers=workers)
    theirs.load_state_dict(their_state)
    mine = make(kind(33), 4, workers)
    mine.load(my_state)
    check_same(epoch_of(mine), list(theirs))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_at_the_end_of_an_epoch_begins_the_next_one(make, workers):
    core = make(Resumable(33, make=lambda n: (n, draw(n))), 4, workers, list)
    epoch_of(core)
    state = core.state()
    after = make(Resumable(33, make=lambda n: (n, draw(n))), 4, workers, list)
    after.load(state)
    assert (state["epoch"], state["batches"]) == (1, 0)
    assert epoch_of(after) == epoch_of(core)


@pytest.mark.parametrize("workers", [0, 2])
def test_random_numbers_go_on_where_they_were(make, workers):
    def stream():
        return make(Resumable(33, make=lambda n: (n, draw(n))), 4, workers, list)

    core = stream()
    some(core, 3)
    after = stream()
    after.load(core.state())
    assert epoch_of(after) == epoch_of(core)


def test_without_states_batches_are_dropped_with_a_warning(make):
    before = make(Numbers(33), 4, 2)
    some(before, 3)
    after = make(Numbers(33), 4, 2)
    with pytest.warns(UserWarning, match="3 batches of the stream are read again and dropped"):
        after.load(before.state())
    check_same(epoch_of(after), epoch_of(before))


@pytest.mark.parametrize("workers", [0, 2])
def test_seek_drops_batches_with_a_warning(make, workers):
    expected = epoch_of(make(Numbers(33), 4, workers))
    core = make(Numbers(33), 4, workers)
    with pytest.warns(UserWarning, match="2 batches of the stream are read again and dropped"):
        core.seek(0, 2)
    check_same(epoch_of(core), expected[2:])


@pytest.mark.parametrize(
    ("workers", "more", "words"),
    [
        (1, {"ranks": 2}, "written with 2 worker processes, here are 1: go on with the same"),
        (2, {"ranks": 4}, "written with 2 ranks, here are 4: go on with the same number"),
        (2, {"ranks": 2, "rank": 1}, "that of rank 0, this is rank 1: save and load the state on"),
    ],
)
def test_states_of_others_are_refused(make, workers, more, words):
    state = make(Numbers(5), workers=2, ranks=2).state()
    with pytest.raises(ValueError, match=words):
        make(Numbers(5), workers=workers, **more).load(state)


# What goes wrong.


@pytest.mark.parametrize("workers", [0, 2])
def test_errors_are_raised_and_end_that_stream(make, workers):
    """As in torch: a generator that has raised is at its end."""

    class Fails(Numbers):
        def __iter__(self):
            for number in self.numbers():
                if number == 4:
                    raise KeyError("no such number")
                yield number

    core = make(Fails(12), 2, workers)
    loader = iter(DataLoader(Fails(12), 2, num_workers=workers))
    mine, theirs = [], []
    for batches, following in (
        (mine, lambda: core.next(300)),
        (theirs, lambda: next(loader, None)),
    ):
        while True:
            try:
                batch = following()
            except KeyError as error:
                batches.append(str(error).splitlines()[0])
                continue
            if batch is None:
                break
            batches.append(batch.tolist() if torch.is_tensor(batch) else batch.made.tolist())
    if workers:
        loader._shutdown_workers()  # left to the collector, it takes seconds
    assert mine == theirs
    assert any("KeyError" in b if workers else "number" in b for b in mine if isinstance(b, str))


@pytest.mark.parametrize("workers", [0, 1])
def test_an_iter_that_fails(make, workers):
    class Fails(IterableDataset):
        def __iter__(self):
            raise OSError("no such file")

    core = make(Fails(), 2, workers)
    with pytest.raises(OSError, match="no such file"):
        core.next(300)
    assert core.next(300) is None


def test_a_worker_that_is_killed(make):
    def dies(number):
        if number == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    core = make(Numbers(40, make=dies), 2, 2, ahead_per_worker=1)
    with pytest.raises(RuntimeError, match=r"worker process 1 \(\d+\) was killed by signal 9"):
        epoch_of(core)
    with pytest.raises(RuntimeError, match="was killed by signal 9"):
        core.next(300)


def test_a_late_batch_comes_later(make):
    here, there = os.pipe()

    def waits(number):
        os.read(here, 1)
        return number

    core = make(Numbers(2, make=waits), 2, 1)
    with pytest.raises(TimeoutError):
        core.next(0.01)
    os.write(there, b"xx")
    assert core.next(300).made.tolist() == [0, 1]
    core.close()
    os.close(here)
    os.close(there)


# Through the loader.


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_gives_what_torch_gives_and_goes_on(workers):
    def loader():
        return foreload.DataLoader(
            Resumable(33),
            4,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )

    expected = list(DataLoader(Resumable(33), 4, num_workers=workers))
    first, second = loader(), loader()
    check_same(list(first), expected)
    iterator = iter(first)
    check_same([next(iterator) for _ in range(3)], expected[:3])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    check_same(list(second), expected[3:])
    check_same(list(iterator), expected[3:])
    check_same(list(second), expected)
    first.close()
    second.close()


def test_without_a_number_of_workers_each_sample_comes_once():
    class Ten(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(10))

    assert [int(batch) for batch in foreload.DataLoader(Ten())] == list(range(10))


class FailsOnce(Numbers):
    """A generator that fails, which ends it."""

    def __iter__(self):
        for number in self.numbers():
            if number == 4:
                raise ValueError("no such number")
            yield number


class FailsAndGoesOn(Numbers):
    """An iterator that can be asked again after it has failed."""

    def __iter__(self):
        self.left = iter(self.numbers())
        return self

    def __next__(self):
        number = next(self.left)
        if number == 4:
            raise ValueError("no such number")
        return number


def said_by(iterator, most):
    """What the loop gets: batches, and errors by name; the end is the last."""
    said = []
    while len(said) < most:
        try:
            said.append(next(iterator).tolist())
        except StopIteration:
            return [*said, "end"]
        except ValueError:
            said.append("ValueError")
    return said


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("kind", [FailsOnce, FailsAndGoesOn])
@pytest.mark.filterwarnings("ignore:.*are read again and dropped")
def test_a_loader_tells_an_error_of_a_stream_once(kind, workers):
    """The loop got the same error for ever, and a state led to it again."""
    torchs = iter(DataLoader(kind(20), 2, num_workers=workers))
    theirs = said_by(torchs, 100)
    if workers:
        torchs._shutdown_workers()  # left to the collector, it takes seconds
    assert theirs[-1] == "end"
    assert "ValueError" in theirs

    loader = foreload.DataLoader(kind(20), 2, num_workers=workers)
    iterator = iter(loader)
    until = theirs.index("ValueError") + 1
    before = said_by(iterator, until)
    state = loader.state_dict()
    assert before + said_by(iterator, 100) == theirs

    resumed = foreload.DataLoader(kind(20), 2, num_workers=workers)
    resumed.load_state_dict(json.loads(json.dumps(state)))
    assert said_by(iter(resumed), 100) == theirs[until:]
    assert said_by(iter(loader), 100) == theirs  # the next epoch
    loader.close()
    resumed.close()
