# SPDX-License-Identifier: Apache-2.0
"""Several iterators over one loader: each has a place of its own, and gives what a loop that is
alone would get."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref

import numpy as np
import pytest

import foreload

torch = pytest.importorskip("torch")

COUNT, BATCH, SEED = 50, 4, 5
BATCHES = 13
EPOCHS = 20


class Called:
    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        return torch.full((2,), float(index)), index


class Located:
    def __len__(self):
        return COUNT

    def locate(self, index):
        return bytes([index])

    def decode(self, data, index):
        return torch.full((2,), float(data[0])), index


def by_python(image):
    return torch.from_numpy(np.asarray(image.resize((4, 4)), dtype=np.float32).copy())


SETTINGS = {"shuffle": True, "seed": SEED, "num_workers": 1, "epochs": EPOCHS}
KINDS = {
    "engine": lambda images: {
        "dataset": images,
        "transform": foreload.transforms.imagenet_train(8),  # with random numbers
    },
    "Python transform": lambda images: {"dataset": images, "transform": by_python},
    "__getitem__": lambda _: {"dataset": Called()},
    "locate": lambda _: {"dataset": Located()},
    "rows": lambda _: {
        "dataset": torch.utils.data.TensorDataset(
            torch.arange(COUNT * 2.0).reshape(COUNT, 2), torch.arange(COUNT)
        )
    },
    "sampler": lambda images: {
        "dataset": images,
        "transform": foreload.transforms.imagenet_eval(8),
        "sampler": torch.utils.data.RandomSampler(
            range(COUNT), generator=torch.Generator().manual_seed(SEED)
        ),
        "shuffle": None,
    },
}


@pytest.fixture(params=KINDS)
def make(request, images):
    """Makes a loader of one kind, again and again."""
    return lambda **more: foreload.DataLoader(
        batch_size=BATCH, **SETTINGS | KINDS[request.param](images) | more
    )


def values(batches) -> list[list]:
    """What batches have, to be compared."""
    return [[entry.tolist() for entry in batch] for batch in batches]


@pytest.fixture
def alone(make):
    """Epochs of a loader that one loop after the other goes over."""
    loader = make()
    return [values(loader) for _ in range(3)]


def test_zip_gives_two_epochs_side_by_side(make, alone):
    loader = make()
    pairs = list(zip(loader, loader, strict=True))
    assert values(first for first, _ in pairs) == alone[0]
    assert values(second for _, second in pairs) == alone[1]
    assert loader.stats()["delivered"] == 2 * BATCHES
    assert values(loader) == alone[2]


def test_a_loop_in_a_loop(make, alone):
    """The inner one goes over two epochs and is left in the middle of its second."""
    loader = make()
    outer, inner = [], []
    for number, batch in enumerate(loader):
        outer.append(batch)
        if number == 2:
            inner += loader
            inner += itertools.islice(loader, 5)
    assert values(outer) == alone[0]
    assert values(inner) == alone[1] + alone[2][:5]


def test_states_of_two_iterators(make, alone):
    loader = make()
    first, second = iter(loader), iter(loader)
    for _ in range(3):
        next(first)
    for _ in range(7):
        next(second)
    next(first)
    for iterator, rest in ((first, alone[0][4:]), (second, alone[1][7:])):
        again = make()
        again.load_state_dict(iterator.state_dict())
        assert values(again) == rest
    assert loader.state_dict() == second.state_dict()
    assert values(first) == alone[0][4:]
    assert values(second) == alone[1][7:]


class Batch:
    """A batch that can be watched."""

    def __init__(self, index: int) -> None:
        self.index = index


@pytest.fixture
def watched():
    """A loader, and the batches that somebody holds."""
    alive: weakref.WeakSet[Batch] = weakref.WeakSet()

    def finished(batch):
        made = Batch(int(batch[1]))
        alive.add(made)
        return made

    return foreload.DataLoader(Called(), 1, batch_transform=finished, **SETTINGS), alive


def by_turns(loader, times: int):
    """Two iterators that have got as many batches, by turns."""
    first, second = iter(loader), iter(loader)
    for _ in range(times):
        next(first)
        next(second)
    return first, second


def order(epoch: int) -> list[int]:
    return foreload.order(COUNT, epoch=epoch, seed=SEED).tolist()


def test_an_iterator_that_nobody_goes_on_with_gives_its_batches_back(watched):
    loader, alive = watched
    left, other = by_turns(loader, 3)
    gc.collect()
    before = len(alive)
    assert before > 0  # of the few that the one whose turn it is takes at once
    assert [batch.index for batch in other] == order(1)[3:]
    gc.collect()
    assert len(alive) == 0
    assert [batch.index for batch in left] == order(0)[3:]


def test_an_iterator_that_is_gone_holds_nothing(watched):
    loader, alive = watched
    left, other = by_turns(loader, 3)
    del left
    next(other)
    del other
    assert [batch.index for batch in loader] == order(2)
    gc.collect()
    assert len(alive) == 0


def test_threads_that_share_an_iterator_get_each_batch_once(make, alone):
    """And the end of the epoch is told once, not to each of them."""
    loader = make()
    ends = []
    end, loader._log.end = loader._log.end, lambda one: (ends.append(1), end(one))
    for expected in alone:
        iterator, got, together = iter(loader), [], threading.Barrier(4)

        def pull(iterator=iterator, got=got, together=together):
            together.wait()
            for batch in iterator:
                got.append(batch)

        threads = [threading.Thread(target=pull) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(values(got)) == sorted(expected)
    assert len(ends) == len(alone)
    loader.close()
