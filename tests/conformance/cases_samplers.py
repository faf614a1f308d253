# SPDX-License-Identifier: Apache-2.0
"""Who says which samples come: samplers of torch, of the user, and what they may give."""

from __future__ import annotations

import numpy as np
import torch
from conformance import Items, Topic, Unsized, outcome
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

import foreload

topic = Topic("samplers")


def seeded(seed=3):
    return torch.Generator().manual_seed(seed)


def epochs(loader, count=2):
    return [list(loader) for _ in range(count)]


class Every(Sampler):
    """A sampler as users write them; it counts how often it is asked."""

    def __init__(self, entries):
        self.entries = entries
        self.asked = 0

    def __iter__(self):
        self.asked += 1
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


def as_tensor(index):
    return index if isinstance(index, int) else ["not an int", str(index)]


OF_TORCH = {
    "SequentialSampler": lambda: SequentialSampler(range(9)),
    "RandomSampler": lambda: RandomSampler(range(9), generator=seeded()),
    "RandomSampler with replacement": lambda: RandomSampler(
        range(9), replacement=True, num_samples=20, generator=seeded()
    ),
    "SubsetRandomSampler": lambda: SubsetRandomSampler([1, 3, 5, 8], generator=seeded()),
    "WeightedRandomSampler": lambda: WeightedRandomSampler([0.1, 0.2, 0.7], 12, generator=seeded()),
    "DistributedSampler": lambda: DistributedSampler(range(9), 2, 1, seed=4),
}


@topic.same("With a generator of its own", over=OF_TORCH)
def of_torch(make, value):
    return epochs(make(Items(9), 2, sampler=value()))


@topic.same("torch.manual_seed decides")
def RandomSampler_by_the_global_generator(make):
    return epochs(make(Items(20), 4, sampler=RandomSampler(range(20))))


@topic.same()
def RandomSampler_that_shares_the_loader_s_generator(make):
    generator = seeded()
    sampler = RandomSampler(range(20), generator=generator)
    return epochs(make(Items(20), 4, sampler=sampler, generator=generator))


@topic.same()
def DistributedSampler_with_set_epoch(make):
    sampler = DistributedSampler(range(9), 2, 0, seed=4)
    loader = make(Items(9), 2, sampler=sampler)
    given = []
    for epoch in (0, 3, 1):
        sampler.set_epoch(epoch)
        given.append(list(loader))
    return given


@topic.same()
def DistributedSampler_without_set_epoch_repeats_itself(make):
    return epochs(make(Items(9), 2, sampler=DistributedSampler(range(9), 2, 0)), 3)


@topic.same()
def a_list_as_sampler(make):
    return epochs(make(Items(9), 2, sampler=[4, 4, 1]))


@topic.same()
def a_numpy_array_as_sampler(make):
    return list(make(Items(9, lambda i: int(i) * 2), 2, sampler=np.array([4, 0, 1])))


@topic.same()
def a_tensor_as_sampler(make):
    return list(make(Items(9, lambda i: int(i) * 2), 2, sampler=torch.tensor([4, 0, 1])))


@topic.same()
def indices_reach_the_data_set_as_they_are(make):
    given = [3, np.int64(2), torch.tensor(1), True, np.int32(0)]
    kinds = Items(9, lambda index: [type(index).__name__, int(index)])
    return list(make(kinds, 5, sampler=given, collate_fn=list))


@topic.same()
def a_sampler_of_the_user_is_asked_once_in_each_iteration(make):
    sampler = Every([2, 0, 1])
    return epochs(make(Items(3), 2, sampler=sampler)), sampler.asked


@topic.same()
def a_generator_that_is_used_up(make):
    return epochs(make(Items(9), 2, sampler=(n for n in (1, 2, 3))))


@topic.same()
def a_sampler_without_a_length(make):
    class Short:
        def __iter__(self):
            return iter((5, 6, 7))

    return epochs(make(Items(9), 2, sampler=Short()))


@topic.same()
def drop_last_with_a_sampler(make):
    return epochs(make(Items(9), 2, sampler=[1, 2, 3], drop_last=True))


NOT_NUMBERS = {
    "tuples": [(0, 1), (2, 3), (4, 5)],
    "texts": ["a", "bc", "def"],
    "floats": [0.5, 1.5],
    "None": [None, None],
    "slices": [slice(0, 2), slice(2, 4)],
    "dicts": [{"row": 1}, {"row": 2}],
    "numbers and texts": [1, "one", 2],
    "large numbers": [2**70, 1],
    "negative numbers": [-1, -2],
}


@topic.same(over=NOT_NUMBERS)
def a_sampler_gives_what_the_data_set_takes(make, value):
    return epochs(make(Items(9, repr), 2, sampler=value))


@topic.same(over=NOT_NUMBERS)
def the_same_in_a_worker(make, value):
    return list(make(Items(9, repr), 2, sampler=value, num_workers=1))


@topic.same()
def a_batch_sampler_gives_tuples_and_texts(make):
    batches = [[(0, 1), (2, 3)], ["a"], [(4, 5), "b", 7]]
    return epochs(make(Items(9, repr), batch_sampler=batches))


@topic.same()
def keys_of_a_data_set_without_a_length(make):
    letters = {"a": 1, "b": 2, "c": 3}
    return list(make(Unsized(letters.__getitem__), 2, sampler=["c", "a", "b"]))


@topic.same("The recipe of torch's documentation for bulk loading")
def a_BatchSampler_as_sampler_with_batch_size_None(make):
    table = Unsized(lambda indices: torch.arange(20)[indices] * 10)
    sampler = BatchSampler(SequentialSampler(range(7)), 3, False)
    loader = make(table, None, sampler=sampler)
    return len(loader), epochs(loader)


@topic.same()
def the_same_recipe_in_a_worker(make):
    table = Unsized(lambda indices: torch.arange(20)[indices] * 10)
    sampler = BatchSampler(SequentialSampler(range(7)), 3, False)
    return epochs(make(table, None, sampler=sampler, num_workers=1))


@topic.same()
def a_batch_sampler_of_torch(make):
    sampler = BatchSampler(RandomSampler(range(9), generator=seeded()), 2, True)
    return epochs(make(Items(9), batch_sampler=sampler))


@topic.same()
def a_batch_sampler_with_batches_of_different_sizes(make):
    return epochs(make(Items(9), batch_sampler=[[0], [1, 2, 3], [4, 4]]))


@topic.same()
def a_batch_sampler_that_gives_tuples_of_indices(make):
    return list(make(Items(9), batch_sampler=[(0, 1), (2,)]))


@topic.same()
def a_batch_sampler_that_gives_arrays_of_indices(make):
    numbers = Items(9, lambda index: int(index))
    return list(make(numbers, batch_sampler=[np.array([0, 1]), torch.tensor([2, 3])]))


@topic.same()
def a_batch_sampler_in_workers(make):
    return list(make(Items(9), batch_sampler=[[0], [1, 2, 3], [4, 4]], num_workers=2))


@topic.same("An IndexError of the data set")
def an_index_beyond_the_data_set(make):
    return outcome(lambda: list(make([10, 11, 12], 1, sampler=[0, 5])))


@topic.same()
def a_negative_index_counts_from_the_end(make):
    return list(make([10, 11, 12], 1, sampler=[-1, 0]))


@topic.same()
def a_sampler_that_raises(make):
    class Broken:
        def __iter__(self):
            raise LookupError("no order today")

        def __len__(self):
            return 3

    return outcome(lambda: list(make(Items(3), sampler=Broken())), "no order today")


@topic.refused(
    ValueError,
    "gave an empty batch",
    "A batch sampler that gives an empty batch is refused.",
    "torch's default_collate fails with an IndexError",
)
def an_empty_batch(make):
    list(make(Items(3), batch_sampler=[[0], []]))


@topic.refused(
    ValueError,
    "did not end after",
    "A sampler that never ends is refused, because an epoch is drawn as a whole.",
    "torch's loader goes on for ever",
)
def a_sampler_that_never_ends(make):
    class Endless:
        def __iter__(self):
            while True:
                yield 0

    most = foreload.planning.sampler_checkpoint.MOST_DRAWN
    foreload.planning.sampler_checkpoint.MOST_DRAWN = 1000
    try:
        next(iter(make(Items(3), sampler=Endless())))
    finally:
        foreload.planning.sampler_checkpoint.MOST_DRAWN = most


@topic.differs(
    "With `shuffle=True` the order is `DistributedSampler`'s for (seed, epoch, rank, world size), "
    "also with one rank."
)
def shuffle(make):
    loader = make(Items(20), 20, shuffle=True, seed=3)
    expected = DistributedSampler(range(20), 1, 0, seed=3)
    for epoch in (0, 1):
        expected.set_epoch(epoch)
        assert [batch.tolist() for batch in loader] == [list(expected)]


@topic.differs("One epoch of a sampler is drawn when an iteration starts.")
def a_sampler_is_drawn_as_a_whole(make):
    drawn = []

    class Told:
        def __iter__(self):
            for number in range(4):
                drawn.append(number)
                yield number

        def __len__(self):
            return 4

    iterator = iter(make(Items(4), sampler=Told()))
    assert drawn == []
    next(iterator)
    assert drawn == [0, 1, 2, 3]
