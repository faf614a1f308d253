# SPDX-License-Identifier: Apache-2.0
"""Iterations beside and after each other, worker processes, and random numbers."""

from __future__ import annotations

import copy
import gc
import itertools
import multiprocessing
import os
import random
import threading

import numpy as np
import torch
from conformance import Items, Stream, Topic, outcome
from torch.utils.data import RandomSampler, get_worker_info

topic = Topic("iteration")
workers = Topic("workers")
randomness = Topic("randomness")

SOME = {"0 workers": 0, "1 worker": 1}


@topic.same(over={"0 workers": 0, "1 worker": 1, "2 workers": 2})
def one_epoch_after_the_other(make, value):
    loader = make(Items(7), 2, num_workers=value)
    return [list(loader) for _ in range(3)]


@topic.same(over=SOME)
def two_iterators_in_turn(make, value):
    loader = make(Items(7), 2, num_workers=value)
    one, other = iter(loader), iter(loader)
    first = [next(one), next(one), next(other)]
    return [*first, *one, *other]


@topic.same(over=SOME)
def nested_loops_over_one_loader(make, value):
    loader = make(Items(4), 2, num_workers=value)
    return [(outer, inner) for outer in loader for inner in loader]


@topic.same()
def zip_of_a_loader_with_itself(make):
    loader = make(Items(5), 2)
    return list(zip(loader, loader, strict=True))


@topic.same(over=SOME)
def an_iteration_that_is_left_early(make, value):
    loader = make(Items(7), 2, num_workers=value)
    left = next(iter(loader))
    return left, list(loader)


@topic.same()
def an_iteration_that_is_left_goes_on(make):
    loader = make(Items(7), 2)
    iterator = iter(loader)
    first = list(itertools.islice(iterator, 2))
    return first, list(loader), list(iterator)


@topic.same(over=SOME)
def an_iterator_at_its_end_stays_there(make, value):
    iterator = iter(make(Items(2), 2, num_workers=value))
    list(iterator)
    return [next(iterator, "nothing") for _ in range(3)]


@topic.same()
def an_iterator_is_its_own_iterator(make):
    iterator = iter(make(Items(3)))
    return iter(iterator) is iterator


@topic.same()
def iter_gives_a_new_iterator_each_time(make):
    loader = make(Items(3))
    return iter(loader) is iter(loader)


@topic.same("A NotImplementedError")
def an_iterator_cannot_be_pickled(make):
    return outcome(lambda: copy.deepcopy(iter(make(Items(3)))))


@topic.same()
def an_iterator_outlives_the_name_of_its_loader(make):
    iterator = iter(make(Items(4), 2))
    make._made.clear()
    gc.collect()
    return list(iterator)


@topic.same()
def two_loaders_of_one_data_set(make):
    dataset = Items(5)
    return list(zip(make(dataset, 2), make(dataset, 3), strict=False))


@topic.same()
def the_loop_changes_the_data_set_between_batches(make):
    values = [0, 0, 0, 0]
    given = []
    for batch in make(Items(4, values.__getitem__), 2):
        given.append(batch)
        values[2] = 9
    return given


@topic.same()
def a_sample_is_not_asked_for_before_its_batch_without_workers(make):
    asked = []
    iterator = iter(make(Items(6, lambda i: asked.append(i) or i), 2))
    next(iterator)
    return list(asked)


@topic.same()
def iter_and_next_from_another_thread(make):
    loader = make(Items(5), 2)
    given = []
    thread = threading.Thread(target=lambda: given.extend(loader))
    thread.start()
    thread.join()
    return given


@topic.same()
def enumerate_and_unpacking(make):
    loader = make(Items(4, lambda i: (torch.tensor([i]), str(i))), 2)
    return [(step, numbers, names) for step, (numbers, names) in enumerate(loader)]


@topic.same()
def membership_and_list_of_a_loader(make):
    loader = make(Items(3, str), 1)
    return ["1"] in loader, ["7"] in loader


@topic.differs("An iteration starts with the first `next()`, not with `iter(loader)`.")
def iter_alone_begins_nothing(make):
    loader = make(Items(4), 4, shuffle=True)
    for _ in range(3):
        iter(loader)
    expected = torch.utils.data.DistributedSampler(range(4), 1, 0)
    assert next(iter(loader)).tolist() == list(expected)


# Worker processes.


def who(index):
    info = get_worker_info()
    return index, info.id, info.num_workers, type(info.dataset).__name__


@workers.same()
def get_worker_info_is_None_in_the_program(make):
    return list(make(Items(2, lambda i: get_worker_info() is None))), get_worker_info()


@workers.same()
def get_worker_info_in_a_worker(make):
    return list(make(Items(4, who), 2, num_workers=1, collate_fn=list))


@workers.same()
def get_worker_info_in_a_collate_fn(make):
    return list(make(Items(4), 2, num_workers=1, collate_fn=lambda s: get_worker_info().id))


@workers.same("With a worker_init_fn workers take turns")
def batches_go_to_workers_in_turn(make):
    return list(make(Items(8, who), 2, num_workers=2, worker_init_fn=id, collate_fn=list))


@workers.same()
def worker_init_fn_gets_the_number_of_the_worker(make):
    def begin(worker):
        get_worker_info().dataset.begun = [worker, get_worker_info().id]

    class Begun(Items):
        begun = None

        def __getitem__(self, index):
            return self.begun

    return list(make(Begun(4), 1, num_workers=2, worker_init_fn=begin, collate_fn=list))


@workers.same()
def a_worker_is_another_process(make):
    return [pids != [os.getpid()] for pids in make(Items(2, lambda i: os.getpid()), num_workers=1)]


@workers.same()
def a_worker_is_a_daemon(make):
    daemon = Items(1, lambda i: multiprocessing.current_process().daemon)
    return list(make(daemon, num_workers=1))


@workers.same()
def torch_has_one_thread_in_a_worker(make):
    return list(make(Items(2, lambda i: torch.get_num_threads()), num_workers=1))


@workers.same()
def what_a_worker_changes_is_not_seen_in_the_program(make):
    dataset = Items(3)
    dataset.make = lambda index: dataset.__dict__.update(seen=index) or index
    return list(make(dataset, num_workers=1)), hasattr(dataset, "seen")


@workers.same()
def what_a_worker_changes_stays_with_persistent_workers(make):
    seen = []
    dataset = Items(2, lambda index: seen.append(index) or list(seen))
    loader = make(dataset, num_workers=1, persistent_workers=True, collate_fn=list)
    return [list(loader), list(loader)]


@workers.same()
def persistent_workers_are_the_same_processes(make):
    loader = make(Items(2, lambda i: os.getpid()), num_workers=1, persistent_workers=True)
    first, second = list(loader), list(loader)
    return [one.tolist() == other.tolist() for one, other in zip(first, second, strict=True)]


@workers.same("The class is imported there")
def spawned(make):
    loader = make(Squares(4), 2, num_workers=1, multiprocessing_context="spawn")
    return list(loader)


@workers.same("An error of pickle, or a TypeError that names it")
def spawned_with_a_data_set_that_cannot_be_sent(make):
    loader = make(Items(4), 2, num_workers=1, multiprocessing_context="spawn")
    given = outcome(lambda: list(loader))
    return given.kind is not None


class Squares:
    """It can be imported by a process that begins with nothing."""

    def __len__(self):
        return 4

    def __init__(self, length):
        self.length = length

    def __getitem__(self, index):
        return index * index, get_worker_info().id


@workers.same()
def more_workers_than_batches(make):
    return list(make(Items(1), 4, num_workers=3))


@workers.same()
def an_empty_data_set_with_workers(make):
    return list(make(Items(0), 4, num_workers=1))


@workers.same("A RuntimeError")
def a_batch_that_takes_longer_than_timeout(make):
    def never(index):
        threading.Event().wait(1.5)

    return outcome(lambda: list(make(Items(1, never), num_workers=1, timeout=0.2)))


@workers.same()
def prefetch_factor_changes_no_batch(make):
    return [list(make(Items(9), 2, num_workers=2, prefetch_factor=n)) for n in (1, 4)]


@workers.same()
def large_batches_of_workers(make):
    rows = Items(6, lambda i: torch.full((100_000,), i, dtype=torch.int32))
    return [batch.sum(dtype=torch.int64) for batch in make(rows, 2, num_workers=2)]


@workers.same()
def a_loader_inside_a_worker(make):
    kind = torch.utils.data.DataLoader

    def inner(index):
        return [batch.tolist() for batch in kind(Items(index + 1), 2)]

    return list(make(Items(3, inner), 3, num_workers=1, collate_fn=list))


@workers.same("Without persistent_workers")
def what_the_program_changes_is_seen_in_the_next_iteration(make):
    dataset = Items(3)
    loader = make(dataset, num_workers=1)
    first = list(loader)
    dataset.make = lambda index: -index
    return first, list(loader)


@workers.same()
def what_the_program_changes_is_not_seen_with_persistent_workers(make):
    dataset = Items(3)
    loader = make(dataset, num_workers=1, persistent_workers=True)
    first = list(loader)
    dataset.make = lambda index: -index
    return first, list(loader)


@workers.differs(
    "Worker processes live as long as the loader, whatever `persistent_workers` is, unless the "
    "data set has changed when an iteration begins."
)
def without_persistent_workers_too(make):
    dataset = Items(2, lambda i: os.getpid())
    loader = make(dataset, 2, num_workers=1, persistent_workers=False)
    first, second = list(loader), list(loader)
    assert first[0].tolist() == second[0].tolist()


@workers.differs("`worker_init_fn` is called once in each worker, not once in each epoch.")
def worker_init_fn_in_the_second_epoch(make):
    called = []
    loader = make(Items(1, lambda i: len(called)), num_workers=1, worker_init_fn=called.append)
    assert [batch.tolist() for _ in range(2) for batch in loader] == [[1], [1]]


@workers.differs(
    "Without a `worker_init_fn` the worker that is free makes the next batch of a map-style data "
    "set; batches still come in order."
)
def whoever_is_free_makes_the_next_batch(make):
    loader = make(Items(8, who), 1, num_workers=2, collate_fn=list)
    samples = [sample for batch in loader for sample in batch]
    assert [sample[0] for sample in samples] == list(range(8))
    assert {sample[1] for sample in samples} <= {0, 1}


# Random numbers.


def drawn(index=0):
    return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002


def numbers_of(make, count=1, **given):
    loader = make(Items(6, drawn), 2, collate_fn=list, **given)
    return [list(loader) for _ in range(count)]


@randomness.same()
def a_generator_of_the_sampler_decides_the_order(make):
    generator = torch.Generator().manual_seed(8)
    loader = make(Items(30), 30, sampler=RandomSampler(range(30), generator=generator))
    return [list(loader) for _ in range(3)]


@randomness.same()
def two_epochs_have_different_orders(make):
    loader = make(Items(50), 50, shuffle=True)
    (first,), (second,) = list(loader), list(loader)
    return torch.equal(first, second), torch.equal(first.sort()[0], second.sort()[0])


@randomness.same()
def two_loaders_with_equal_generators_have_equal_orders(make):
    given = []
    for seed in (1, 1, 2):
        generator = torch.Generator().manual_seed(seed)
        given.append(next(iter(make(Items(50), 50, shuffle=True, generator=generator))))
    return torch.equal(given[0], given[1]), torch.equal(given[0], given[2])


@randomness.same()
def workers_draw_different_numbers(make):
    loader = make(Items(8, drawn), 1, num_workers=2, collate_fn=list)
    samples = [sample for batch in loader for sample in batch]
    return len(set(samples))


@randomness.same()
def two_epochs_draw_different_numbers(make):
    (first, second) = numbers_of(make, 2, num_workers=1, persistent_workers=True)
    return set(map(str, first)).isdisjoint(map(str, second))


@randomness.same()
def a_generator_makes_the_numbers_of_workers_reproducible(make):
    given = [
        numbers_of(make, num_workers=1, generator=torch.Generator().manual_seed(n))
        for n in (1, 1, 2)
    ]
    return given[0] == given[1], given[0] == given[2]


@randomness.same("The recipe of torch's documentation")
def seeds_by_worker_init_fn_and_generator(make):
    def begin(worker):
        seed = torch.initial_seed() % 2**32
        np.random.seed(seed)  # noqa: NPY002
        random.seed(seed)

    given = [
        numbers_of(
            make,
            num_workers=1,
            worker_init_fn=begin,
            generator=torch.Generator().manual_seed(0),
        )
        for _ in range(2)
    ]
    return given[0] == given[1]


@randomness.same()
def get_worker_info_seed_is_that_of_the_worker(make):
    def seeds(worker):
        info = get_worker_info()
        info.dataset.right = info.seed == torch.initial_seed()

    dataset = Items(2, lambda i: get_worker_info().dataset.right)
    return list(make(dataset, num_workers=1, worker_init_fn=seeds, collate_fn=list))


@randomness.same()
def seeds_of_workers_follow_each_other(make):
    dataset = Items(8, lambda i: get_worker_info().seed - get_worker_info().id)
    loader = make(dataset, 1, num_workers=2, worker_init_fn=id, collate_fn=list)
    return len({seed for batch in loader for seed in batch})


@randomness.differs(
    "The random numbers of a sample follow from (seed, epoch, place in the epoch), with any number "
    "of workers. In the loop's own process the global generators are left as they were."
)
def numbers_do_not_depend_on_workers(make):
    assert numbers_of(make, 2) == numbers_of(make, 2, num_workers=1)
    before = torch.get_rng_state(), random.getstate()
    numbers_of(make)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


@randomness.differs(
    "`generator`: one seed is drawn from it when the loader is made; without `seed` and "
    "`generator` the seed is 0, whatever `torch.manual_seed` says."
)
def the_seed_of_a_loader(make):
    orders = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        orders.append(next(iter(make(Items(20), 20, shuffle=True))))
    assert torch.equal(*orders)
    generator = torch.Generator().manual_seed(3)
    word = int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
    generator.manual_seed(3)
    assert make(Items(20), shuffle=True, generator=generator).seed == word


@randomness.differs(
    "For a stream the global generators are seeded for each batch, by the place of the batch."
)
def numbers_of_a_stream(make):
    given = [list(make(Stream(4, drawn), 2, collate_fn=list)) for _ in range(2)]
    assert given[0] == given[1]
    assert len({repr(sample) for batch in given[0] for sample in batch}) == 4
