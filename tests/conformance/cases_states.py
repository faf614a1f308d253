# SPDX-License-Identifier: Apache-2.0
"""States beside torchdata's StatefulDataLoader."""

from __future__ import annotations

import copy
import json
import pickle
import random

import torch
from beside_torch import Reel
from conformance import Items, Stream, Topic, compare, outcome
from torch.utils.data import BatchSampler, DistributedSampler, IterableDataset, RandomSampler

topic = Topic("states")
TORCHDATA = "torchdata"


def take(iterator, count):
    return [next(iterator) for _ in range(count)]


def resumed(build, stop, epochs=2):
    """What a loader gives that goes on after `stop` batches, the next epoch included."""
    loader = build()
    given = take(iter(loader), stop)
    state = copy.deepcopy(loader.state_dict())
    after = build()
    after.load_state_dict(state)
    return given, [list(after) for _ in range(epochs)]


STOPS = {
    f"{workers} workers, after {stop} of 4 batches": (workers, stop)
    for workers in (0, 2)
    for stop in (0, 1, 2, 3, 4)
}


@topic.same("", TORCHDATA, STOPS)
def of_a_map_style_data_set(make, value):
    workers, stop = value
    return resumed(lambda: make(Items(7), 2, num_workers=workers), stop)


class Tape(Stream):
    """The data set knows where it is."""

    done = loaded = 0

    def __iter__(self):
        numbers, self.done, self.loaded = self.numbers()[self.loaded :], self.loaded, 0
        for number in numbers:
            self.done += 1
            yield number

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.loaded = state["done"]


class OfReels(Stream):
    def __iter__(self):
        return Reel(self.numbers())


STREAM_STOPS = {
    f"{workers} workers, after {stop} of {count} batches": (workers, stop)
    for workers, count in ((0, 4), (2, 4))
    for stop in range(count + 1)
}


@topic.same("", TORCHDATA, STREAM_STOPS)
def of_a_stream_with_a_state(make, value):
    workers, stop = value
    return resumed(lambda: make(Tape(8), 2, num_workers=workers), stop)


@topic.same("", TORCHDATA, {name: STREAM_STOPS[name] for name in list(STREAM_STOPS)[1:8:2]})
def of_a_stream_whose_iterator_has_a_state(make, value):
    workers, stop = value
    return resumed(lambda: make(OfReels(8), 2, num_workers=workers), stop)


@topic.same(
    "What was given before is read again and dropped, with a warning",
    TORCHDATA,
    {name: STREAM_STOPS[name] for name in list(STREAM_STOPS)[1:8:2]},
)
def of_a_stream_without_a_state(make, value):
    workers, stop = value
    return resumed(lambda: make(Stream(8), 2, num_workers=workers), stop)


@topic.same("The next iteration is the whole next epoch", TORCHDATA, {"0 workers": 0, "2": 2})
def after_the_end_of_an_epoch(make, value):
    loader = make(Items(5), 2, num_workers=value)
    list(loader)
    after = make(Items(5), 2, num_workers=value)
    after.load_state_dict(loader.state_dict())
    return list(after)


@topic.same("", TORCHDATA)
def before_the_first_iteration(make):
    loader = make(Items(5), 2)
    state = loader.state_dict()
    given = list(loader)
    after = make(Items(5), 2)
    after.load_state_dict(state)
    return given, list(after)


@topic.same("", TORCHDATA)
def taking_a_state_changes_nothing(make):
    loader = make(Items(9), 2)
    given = []
    for batch in loader:
        loader.state_dict()
        given.append(batch)
    return given


@topic.same("", TORCHDATA)
def a_state_in_the_loop_body_is_that_of_the_batch(make):
    loader = make(Items(9), 2)
    states = [copy.deepcopy(loader.state_dict()) for _ in loader]
    rests = []
    for state in states:
        after = make(Items(9), 2)
        after.load_state_dict(state)
        rests.append(list(after))
    return rests


@topic.same("", TORCHDATA)
def the_same_loader_goes_back(make):
    loader = make(Items(9), 2)
    iterator = iter(loader)
    take(iterator, 1)
    state = copy.deepcopy(loader.state_dict())
    take(iterator, 2)
    loader.load_state_dict(state)
    return list(loader)


@topic.same("The last one counts", TORCHDATA)
def a_state_loaded_twice(make):
    loader = make(Items(9), 2)
    iterator = iter(loader)
    states = []
    for _ in range(3):
        next(iterator)
        states.append(copy.deepcopy(loader.state_dict()))
    after = make(Items(9), 2)
    after.load_state_dict(states[2])
    after.load_state_dict(states[0])
    first = list(after)
    after.load_state_dict(states[0])
    return first, list(after)


@topic.same("", TORCHDATA)
def a_state_of_a_loader_that_was_resumed(make):
    loader = make(Items(11), 2)
    given = take(iter(loader), 2)
    for _ in range(3):
        state = copy.deepcopy(loader.state_dict())
        loader = make(Items(11), 2)
        loader.load_state_dict(state)
        given += take(iter(loader), 1)
    return given, list(loader)


@topic.same("", TORCHDATA)
def a_state_can_be_pickled(make):
    loader = make(Items(9), 2)
    take(iter(loader), 2)
    after = make(Items(9), 2)
    after.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    return list(after)


@topic.same("", TORCHDATA)
def of_single_samples(make):
    return resumed(lambda: make(Items(4), None), 3)


@topic.same("", TORCHDATA)
def with_drop_last(make):
    return resumed(lambda: make(Items(9), 2, drop_last=True), 2)


@topic.same("The rest of the epoch is empty", TORCHDATA)
def after_the_last_batch_but_before_the_end(make):
    return resumed(lambda: make(Items(4), 2), 2)


@topic.same("", TORCHDATA)
def with_a_list_as_sampler(make):
    return resumed(lambda: make(Items(9), 2, sampler=[5, 3, 8, 1, 0]), 1)


@topic.same("", TORCHDATA)
def with_a_RandomSampler_that_has_a_generator(make):
    def build():
        generator = torch.Generator().manual_seed(4)
        return make(Items(9), 2, sampler=RandomSampler(range(9), generator=generator))

    return resumed(build, 2, epochs=1)


@topic.same("", TORCHDATA)
def with_a_DistributedSampler(make):
    return resumed(lambda: make(Items(9), 2, sampler=DistributedSampler(range(9), 2, 1)), 2)


@topic.same("", TORCHDATA)
def with_a_batch_sampler(make):
    def build():
        return make(Items(9), batch_sampler=BatchSampler([3, 1, 4, 1, 5], 2, False))

    return resumed(build, 2)


class Cards:
    """A sampler with a state of its own."""

    def __init__(self):
        self.order = list(range(9))
        self.done = 0

    def __len__(self):
        return 9

    def __iter__(self):
        while self.done < 9:
            self.done += 1
            yield self.order[self.done - 1]
        self.done = 0

    def state_dict(self):
        return {"order": list(self.order), "done": self.done}

    def load_state_dict(self, state):
        self.order, self.done = list(state["order"]), state["done"]


@topic.same("", TORCHDATA)
def with_a_sampler_that_has_a_state(make):
    def build():
        cards = Cards()
        random.Random(3).shuffle(cards.order)
        return make(Items(9), 2, sampler=cards)

    return resumed(build, 2, epochs=1)


class Counted(Items):
    """It counts calls, and a sample says how many there were."""

    calls = 0

    def __getitem__(self, index):
        self.calls += 1
        return index, self.calls

    def state_dict(self):
        return {"calls": self.calls}

    def load_state_dict(self, state):
        self.calls = state["calls"]


@topic.same("", TORCHDATA)
def of_a_map_style_data_set_with_a_state(make):
    return resumed(lambda: make(Counted(9), 2), 2, epochs=1)


@topic.refused(
    ValueError,
    "has a state of its own",
    "If a map-style data set has a `state_dict` of its own, its loader gives and takes a state "
    "without workers only.",
    "torchdata keeps one state for each worker",
)
def of_a_map_style_data_set_with_a_state_in_workers(make):
    loader = make(Counted(9), 2, num_workers=1)
    loader.state_dict()


@topic.same("", TORCHDATA)
def an_error_in_a_batch_counts_as_a_batch(make):
    def bad(index):
        if index == 2:
            raise LookupError("bad")
        return index

    loader = make(Items(8, bad), 2)
    iterator = iter(loader)
    given = [outcome(lambda: next(iterator)) for _ in range(3)]
    after = make(Items(8, bad), 2)
    after.load_state_dict(copy.deepcopy(loader.state_dict()))
    return given, list(after)


@topic.differs("The state is a dict of numbers and texts, which JSON can hold.")
def what_a_state_is(make):
    loader = make(Items(9), 2, shuffle=True)
    take(iter(loader), 2)
    state = json.loads(json.dumps(loader.state_dict()))
    after = make(Items(9), 2, shuffle=True)
    after.load_state_dict(state)
    assert len(list(after)) == 3


@topic.differs(
    "A state of a map-style data set may be loaded with another batch size or number of workers: "
    "the rest of the epoch is the same.",
    "torchdata goes on after as many batches, or refuses another number of workers",
)
def another_batch_size_and_number_of_workers(make):
    loader = make(Items(12), 2, shuffle=True)
    given = torch.cat(take(iter(loader), 3))
    for batch_size, workers in ((3, 0), (2, 1), (4, 2)):
        after = make(Items(12), batch_size, shuffle=True, num_workers=workers)
        after.load_state_dict(loader.state_dict())
        rest = torch.cat(list(after))
        assert torch.cat([given, rest]).tolist() == list(DistributedSampler(range(12), 1, 0))


@topic.differs(
    "Orders and random numbers after a resume are those of a run that was not interrupted, in all "
    "later epochs too.",
    "torchdata restores the rest of the epoch only",
)
def shuffled_epochs_after_a_resume(make):
    def build():
        return make(Items(9, lambda i: (i, random.random())), 2, shuffle=True)

    whole = build()
    expected = [list(whole) for _ in range(3)]
    loader = build()
    list(loader)
    given = take(iter(loader), 2)
    after = build()
    after.load_state_dict(loader.state_dict())
    rest = list(after)
    assert str([*given, *rest]) == str(expected[1])
    assert str(list(after)) == str(expected[2])


@topic.refused(
    ValueError,
    "was written with 2 worker processes",
    "The state of a stream with another number of workers is refused.",
    "torchdata refuses it too, with an AssertionError",
)
def of_a_stream_with_another_number_of_workers(make):
    loader = make(Tape(8), 2, num_workers=2)
    take(iter(loader), 1)
    make(Tape(8), 2).load_state_dict(loader.state_dict())


@topic.refused(
    ValueError,
    "use the same data set, or start anew",
    "A state of another data set, seed or order is refused, and the error says which of them "
    "differs.",
    "torchdata goes on in the other data set",
)
def of_another_data_set(make):
    state = make(TensorLike(9), 2).state_dict()
    make(TensorLike(10), 2).load_state_dict(state)


class TensorLike(Items):
    """Its length is not part of what it is."""


@topic.refused(
    ValueError,
    "another seed",
    "A state of another data set, seed or order is refused, and the error says which of them "
    "differs.",
)
def of_another_seed(make):
    state = make(Items(9), 2, shuffle=True, seed=1).state_dict()
    make(Items(9), 2, shuffle=True, seed=2).load_state_dict(state)


@topic.refused(
    ValueError,
    "another order",
    "A state of another data set, seed or order is refused, and the error says which of them "
    "differs.",
)
def of_another_order(make):
    state = make(Items(9), 2, shuffle=True).state_dict()
    make(Items(9), 2).load_state_dict(state)


@topic.refused(
    ValueError,
    "has no entry 'foreload'",
    "A state of torchdata's StatefulDataLoader is refused.",
)
def of_torchdata(make):
    from torchdata.stateful_dataloader import StatefulDataLoader

    make(Items(9), 2).load_state_dict(StatefulDataLoader(Items(9), 2).state_dict())


@topic.refused(
    ValueError,
    "has no entry 'foreload'",
    "An empty state is refused.",
    "torchdata begins anew",
)
def an_empty_state(make):
    make(Items(9), 2).load_state_dict({})


@topic.refused(
    TypeError,
    "snapshot_every_n_steps",
    "`snapshot_every_n_steps` of StatefulDataLoader is refused: a state can be taken after every "
    "batch.",
)
def snapshot_every_n_steps(make):
    make(Items(2), snapshot_every_n_steps=2)


class Unnumbered(IterableDataset):
    """A stream that ends in the middle of a batch."""

    def __iter__(self):
        return iter(range(5))


@topic.same("", TORCHDATA)
def of_a_stream_after_the_end_of_an_epoch(make):
    loader = make(Unnumbered(), 2)
    list(loader)
    after = make(Unnumbered(), 2)
    after.load_state_dict(copy.deepcopy(loader.state_dict()))
    return list(after), list(after)


@topic.differs(
    "After the end of an epoch the state of a stream begins the next one; torchdata's gives an "
    "epoch without batches first, if the data set itself has a state and there are no workers."
)
def of_a_stream_with_a_state_after_the_end_of_an_epoch(make):
    loader = make(Tape(5), 2)
    given = list(loader)
    after = make(Tape(5), 2)
    after.load_state_dict(copy.deepcopy(loader.state_dict()))
    compare([list(after), list(after)], [given, given], "both epochs")
