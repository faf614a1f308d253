# SPDX-License-Identifier: Apache-2.0
"""What users' code raises, workers that die, and what a loader shows of itself."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import signal
import typing

import torch
from conformance import Items, Stream, Topic, outcome
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    default_collate,
    default_convert,
)

import foreload

topic = Topic("errors")
attributes = Topic("attributes")

SOME = {"0 workers": 0, "1 worker": 1}


class Own(Exception):
    """Of the user's."""


class TwoArguments(Exception):
    """It cannot be made from one message."""

    def __init__(self, name, number):
        super().__init__(f"{name} {number}")


def failing(error, bad=2):
    def make(index):
        if index == bad:
            raise error
        return index

    return make


def answers(loader, count, text=""):
    """What so many calls of next() give."""
    iterator = iter(loader)
    return [outcome(lambda: next(iterator), text) for _ in range(count)]


KINDS = {
    "ValueError": ValueError("sample 2 is bad"),
    "KeyError": KeyError("sample 2 is bad"),
    "IndexError": IndexError("sample 2 is bad"),
    "OSError": OSError(5, "sample 2 is bad"),
    "AssertionError": AssertionError("sample 2 is bad"),
    "NotImplementedError": NotImplementedError("sample 2 is bad"),
    "StopIteration": StopIteration("sample 2 is bad"),
    "an error of the user's": Own("sample 2 is bad"),
    "an error that takes two arguments": TwoArguments("sample 2 is bad", 3),
    "UnicodeDecodeError": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "sample 2 is bad"),
    "MemoryError": MemoryError("sample 2 is bad"),
}


@topic.same("Type and text, and the next batch comes", over=KINDS)
def in_getitem(make, value):
    return answers(make(Items(6, failing(value)), 2), 4, "sample 2 is bad")


@topic.same(
    "Type and text, and the next batch comes",
    over={name: value for name, value in KINDS.items() if name != "StopIteration"},
)
def in_getitem_in_a_worker(make, value):
    return answers(make(Items(6, failing(value)), 2, num_workers=1), 4, "sample 2 is bad")


@topic.same("As in torch's, the message has the worker and its traceback")
def the_message_of_a_worker_s_error(make):
    def text(loader):
        try:
            list(loader)
        except Own as error:
            return str(error).splitlines()[0], "in make" in str(error)

    return text(make(Items(4, failing(Own("bad"))), 2, num_workers=1))


@topic.same(over=SOME)
def in_collate_fn(make, value):
    def collate(samples):
        if 2 in samples:
            raise Own("no batch of 2")
        return samples

    loader = make(Items(6), 2, num_workers=value, collate_fn=collate)
    return answers(loader, 4, "no batch of 2")


@topic.same(over=SOME)
def in_getitems(make, value):
    class Table(Items):
        def __getitems__(self, indices):
            if 2 in indices:
                raise Own("no rows")
            return indices

    return answers(make(Table(6), 2, num_workers=value), 4, "no rows")


@topic.same("Type and text")
def in_worker_init_fn(make):
    def begin(worker):
        raise Own("no worker today")

    return answers(make(Items(4), 2, num_workers=1, worker_init_fn=begin), 1, "no worker today")


@topic.same(over=SOME)
def in_iter_of_a_stream(make, value):
    class Broken(IterableDataset):
        def __iter__(self):
            raise Own("no tape")

    return outcome(lambda: list(make(Broken(), num_workers=value)), "no tape")


@topic.same(over=SOME)
def in_the_middle_of_a_stream(make, value):
    return answers(make(Stream(6, failing(Own("torn"))), 2, num_workers=value), 2, "torn")


@topic.same()
def in_single_samples(make):
    return answers(make(Items(4, failing(Own("bad"))), None), 5, "bad")


@topic.same()
def in_every_sample(make):
    def bad(index):
        raise Own(f"sample {index}")

    return answers(make(Items(4, bad), 2), 3, "sample")


@topic.same()
def in_the_last_batch(make):
    return answers(make(Items(3, failing(Own("bad"))), 2), 3, "bad")


@topic.same()
def the_next_epoch_after_an_error(make):
    loader = make(Items(4, failing(Own("bad"))), 2)
    return outcome(lambda: list(loader)), answers(loader, 3)


@topic.same()
def an_error_in_one_of_two_workers(make):
    loader = make(Items(8, failing(Own("bad"))), 2, num_workers=2)
    return answers(loader, 5, "bad")


def end_itself(index):
    if index == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return index


@topic.same("A RuntimeError")
def a_worker_that_is_killed(make):
    loader = make(Items(40, end_itself), 2, num_workers=1, prefetch_factor=1)
    return outcome(lambda: list(loader))


@topic.differs(
    "After the death of a worker every later `next()` and iteration is that error again; torch's "
    "iteration ends, and the next one has new workers."
)
def what_comes_after_a_worker_that_is_killed(make):
    loader = make(Items(40, end_itself), 2, num_workers=1)
    assert outcome(lambda: list(loader)).kind is RuntimeError
    given = [outcome(lambda: next(iter(loader)), "was killed by signal 9") for _ in range(2)]
    assert [(one.kind, one.said) for one in given] == [(RuntimeError, True)] * 2


@topic.same("A RuntimeError")
def a_worker_that_exits(make):
    return outcome(lambda: list(make(Items(2, lambda i: os._exit(3)), num_workers=1)))


@topic.same()
def what_cannot_be_pickled_comes_from_no_worker(make):
    given = outcome(
        lambda: list(make(Items(1, lambda i: lambda: i), num_workers=1, collate_fn=list, timeout=1))
    )
    return type(given).__name__


@topic.differs(
    "A `TimeoutError` that a data set raises is given as a RuntimeError with its text, because a "
    "TimeoutError would say that the batch has not come yet."
)
def TimeoutError_of_the_data_set(make):
    for workers in (0, 1):
        loader = make(Items(3, failing(TimeoutError("slow disk"), 0)), num_workers=workers)
        given = answers(loader, 2, "slow disk")
        assert given[0].kind is RuntimeError
        assert given[0].said
        assert given[1].tolist() == [1]


# What a loader shows of itself.


@attributes.same()
def a_loader_is_a_DataLoader_of_torch(make):
    loader = make(Items(3))
    return isinstance(loader, DataLoader), isinstance(loader, Dataset)


@attributes.same()
def the_class_can_be_subscripted(make):
    return typing.get_args(make.kind[int]), list(make.kind[int](Items(2), num_workers=0))


@attributes.same()
def a_class_may_be_derived(make):
    class Derived(make.kind):
        def __iter__(self):
            for batch in super().__iter__():
                yield batch * 10

    return list(Derived(Items(3), num_workers=0))


GIVEN = {
    "batch_size": {"batch_size": 4},
    "batch_size by default": {},
    "batch_size=None": {"batch_size": None},
    "drop_last": {"batch_size": 4, "drop_last": True},
    "a batch_sampler": {"batch_sampler": [[0, 1]]},
    "workers": {"num_workers": 2, "prefetch_factor": 3, "persistent_workers": True},
    "one worker and the usual prefetch_factor": {"num_workers": 1},
    "timeout": {"num_workers": 1, "timeout": 7},
}
NAMES = (
    "batch_size",
    "drop_last",
    "num_workers",
    "timeout",
    "pin_memory",
    "pin_memory_device",
    "in_order",
    "generator",
    "worker_init_fn",
    "prefetch_factor",
)


@attributes.same(over=GIVEN)
def after(make, value):
    loader = make(Items(9), **value)
    return [getattr(loader, name) for name in NAMES]


@attributes.same()
def dataset_is_the_one_given(make):
    dataset = Items(3)
    return make(dataset).dataset is dataset


@attributes.same()
def sampler_and_batch_sampler_are_those_given(make):
    order, batches = [1, 0], [[0], [1]]
    return (
        make(Items(2), sampler=order).sampler is order,
        make(Items(2), batch_sampler=batches).batch_sampler is batches,
    )


@attributes.same()
def batch_sampler_is_torch_s_over_the_sampler(make):
    loader = make(Items(5), 2)
    batches = loader.batch_sampler
    return type(batches), batches.batch_size, batches.drop_last, list(batches), len(batches)


@attributes.same()
def batch_sampler_of_single_samples_is_None(make):
    return make(Items(5), None).batch_sampler


@attributes.same()
def sampler_gives_the_order(make):
    return list(make(Items(5), 2).sampler), len(make(Items(5), 2).sampler)


@attributes.same()
def collate_fn_by_default_gives_what_torch_s_gives(make):
    return make(Items(2), 2).collate_fn([1, 2]), make(Items(2), None).collate_fn((1, "a"))


@attributes.same()
def collate_fn_is_the_one_given(make):
    return [
        make(Items(2), collate_fn=f).collate_fn is f for f in (default_collate, default_convert)
    ]


@attributes.same()
def multiprocessing_context_is_None_or_a_context(make):
    with_name = make(Items(2), num_workers=1, multiprocessing_context="fork")
    return make(Items(2)).multiprocessing_context, type(with_name.multiprocessing_context)


@attributes.same(
    "A ValueError",
    over={
        name: name
        for name in (
            "batch_size",
            "batch_sampler",
            "sampler",
            "drop_last",
            "dataset",
            "persistent_workers",
        )
    },
)
def cannot_be_set(make, value):
    return outcome(lambda: setattr(make(Items(2)), value, None))


@attributes.same()
def worker_init_fn_and_timeout_can_be_set(make):
    def begin(worker):
        torch.utils.data.get_worker_info().dataset.begun = worker + 5

    dataset = Items(2, lambda i: torch.utils.data.get_worker_info().dataset.begun)
    loader = make(dataset, num_workers=1)
    loader.worker_init_fn, loader.timeout = begin, 60
    return list(loader)


@attributes.same()
def any_other_name_can_be_set(make):
    loader = make(Items(2))
    loader.note = "mine"
    return loader.note


@attributes.same()
def generator_can_be_set(make):
    loader = make(Items(2))
    generator = torch.Generator()
    loader.generator = generator
    return loader.generator is generator


@attributes.same()
def arguments_have_torch_s_names_and_places(make):
    names = list(inspect.signature(make.kind.__init__).parameters)
    return names[:14], set(names) >= {"prefetch_factor", "persistent_workers", "in_order"}


@attributes.same()
def the_class_has_torch_s_name(make):
    return make.kind.__name__


@attributes.same("Trainers make a loader anew from these")
def a_loader_made_anew_from_the_attributes(make):
    loader = make(Items(5), 2, drop_last=True)
    again = make(
        loader.dataset,
        batch_size=loader.batch_size,
        sampler=SequentialSampler(range(5)),
        collate_fn=loader.collate_fn,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
    )
    return list(again)


@attributes.same()
def a_batch_sampler_around_the_loader_s_sampler(make):
    loader = make(Items(5), 2)
    return list(make(Items(5), batch_sampler=BatchSampler(loader.sampler, 3, False)))


NOT_PICKLED = "A loader cannot be pickled or copied: make one where it is used."


@attributes.refused(TypeError, "cannot be pickled or copied", NOT_PICKLED)
def a_loader_cannot_be_pickled(make):
    pickle.dumps(make([1, 2, 3]))


@attributes.refused(TypeError, "cannot be pickled or copied", NOT_PICKLED)
def a_loader_cannot_be_copied(make):
    copy.deepcopy(make([1, 2, 3]))


@attributes.refused(
    ValueError,
    "worker_init_fn cannot be set after the worker processes were started",
    "`worker_init_fn` can be set until the first iteration begins.",
    "torch's loader takes it for the next iteration",
)
def worker_init_fn_after_the_first_iteration(make):
    loader = make(Items(2), num_workers=1)
    list(loader)
    loader.worker_init_fn = print


@attributes.refused(
    ValueError,
    "cannot be set after the DataLoader is made",
    "Only `timeout`, `worker_init_fn` and `generator` can be set after a loader is made.",
    "torch's loader takes it for the next iteration",
)
def num_workers_cannot_be_set(make):
    make(Items(2)).num_workers = 2


@attributes.refused(
    ValueError,
    "cannot be set after the DataLoader is made",
    "Only `timeout`, `worker_init_fn` and `generator` can be set after a loader is made.",
    "torch's loader takes it for the next iteration",
)
def collate_fn_cannot_be_set(make):
    make(Items(2)).collate_fn = list


@attributes.same(over={"without workers": {}, "left out": {"num_workers": 1}})
def persistent_workers(make, value):
    return make(Items(2), **value).persistent_workers


@attributes.same()
def persistent_workers_with_workers(make):
    return make(Items(2), num_workers=1, persistent_workers=True).persistent_workers


@attributes.same("Of classes of its own that are derived from these")
def sampler_is_a_SequentialSampler_or_a_RandomSampler(make):
    samplers = [make(Items(6), shuffle=shuffle).sampler for shuffle in (False, True)]
    return (
        isinstance(samplers[0], SequentialSampler),
        isinstance(samplers[1], RandomSampler),
        sorted(samplers[1]),
    )


@attributes.differs("`loader.collate_fn` is foreload's, which calls torch's.")
def the_default_collate_fn(make):
    assert make(Items(2)).collate_fn is foreload._collate.default_collate
