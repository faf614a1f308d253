# SPDX-License-Identifier: Apache-2.0
"""Arguments, the combinations that contradict each other, and lengths."""

from __future__ import annotations

import multiprocessing
from typing import Any

import torch
from conformance import Items, SizedStream, Stream, Topic, Unsized, outcome, warned
from torch.utils.data import BatchSampler, SequentialSampler

topic = Topic("construction")
length = Topic("length")

CONTRADICTIONS: dict[str, dict[str, Any]] = {
    "sampler with shuffle": {"sampler": [1, 0], "shuffle": True},
    "batch_sampler with batch_size": {"batch_sampler": [[0]], "batch_size": 2},
    "batch_sampler with batch_size=None": {"batch_sampler": [[0]], "batch_size": None},
    "batch_sampler with shuffle": {"batch_sampler": [[0]], "shuffle": True},
    "batch_sampler with sampler": {"batch_sampler": [[0]], "sampler": [0]},
    "batch_sampler with drop_last": {"batch_sampler": [[0]], "drop_last": True},
    "batch_size=None with drop_last": {"batch_size": None, "drop_last": True},
    "prefetch_factor without workers": {"prefetch_factor": 2},
    "persistent_workers without workers": {"persistent_workers": True},
    "multiprocessing_context without workers": {"multiprocessing_context": "fork"},
}

OUT_OF_RANGE: dict[str, dict[str, Any]] = {
    "num_workers=-1": {"num_workers": -1},
    "timeout=-1": {"timeout": -1},
    "prefetch_factor=-1": {"num_workers": 1, "prefetch_factor": -1},
    "batch_size=0": {"batch_size": 0},
    "batch_size=-3": {"batch_size": -3},
    "batch_size=2.5": {"batch_size": 2.5},
    "batch_size=True": {"batch_size": True},
    "batch_size as text": {"batch_size": "4"},
    "drop_last=1": {"drop_last": 1},
    "drop_last as text": {"drop_last": "yes"},
    "an unknown start method": {"num_workers": 1, "multiprocessing_context": "spoon"},
    "a start method that is a number": {"num_workers": 1, "multiprocessing_context": 3},
    "an unknown keyword": {"batchsize": 4},
    "num_workers as text": {"num_workers": "2"},
}


@topic.same(over=CONTRADICTIONS)
def is_an_error(make, value):
    return outcome(lambda: make(Items(4), **value))


@topic.same(over=OUT_OF_RANGE)
def is_an_error_of_the_same_type(make, value):
    return outcome(lambda: make(Items(4), **value))


@topic.same(
    over={
        "shuffle": {"shuffle": True},
        "sampler": {"sampler": [0]},
        "batch_sampler": {"batch_sampler": [[0]]},
        "batch_size=None with drop_last": {"batch_size": None, "drop_last": True},
    }
)
def is_an_error_for_a_stream(make, value):
    return outcome(lambda: make(Stream(4), **value))


@topic.same()
def shuffle_may_be_False_or_None_for_a_stream(make):
    return [list(make(Stream(3), shuffle=shuffle)) for shuffle in (False, None)]


@topic.same()
def a_batch_has_one_sample_unless_told_otherwise(make):
    return list(make(Items(3)))


@topic.same()
def arguments_by_position(make):
    def doubled(samples):
        return [2 * sample for sample in samples]

    order = [4, 3, 2, 1, 0]
    loader = make(Items(5), 2, None, order, None, 0, doubled, False, True, 0, None, None, None)
    return list(loader)


@topic.same()
def what_comes_after_generator_has_no_position(make):
    given = (Items(2), 1, None, None, None, 0, None, False, False, 0, None, None, None, 2)
    return outcome(lambda: make(*given))


@topic.same(over={"False": False, "None": None, "0": 0})
def shuffle_is_off(make, value):
    return list(make(Items(5), 2, shuffle=value))


@topic.same(over={"None": None, "False": False})
def a_sampler_with_shuffle(make, value):
    return list(make(Items(3), shuffle=value, sampler=[2, 0]))


@topic.same()
def pin_memory_without_an_accelerator_warns_and_is_ignored(make):
    batches, kinds = warned(lambda: list(make(Items(3), pin_memory=True)))
    return batches, "UserWarning" in kinds or torch.accelerator.is_available()


@topic.same()
def worker_init_fn_is_not_called_without_workers(make):
    called = []
    return list(make(Items(2), worker_init_fn=called.append)), called


@topic.same()
def an_empty_data_set(make):
    loader = make(Items(0), 4)
    return len(loader), list(loader)


@topic.same("A ValueError when the loader is made")
def an_empty_data_set_with_shuffle(make):
    return outcome(lambda: list(make(Items(0), 4, shuffle=True)))


@topic.same()
def an_empty_sampler(make):
    loader = make(Items(4), 2, sampler=[])
    return len(loader), list(loader)


@topic.same()
def a_batch_size_beyond_the_data_set(make):
    return list(make(Items(3), 10)), list(make(Items(3), 10, drop_last=True))


@topic.same(over={"a name": "fork", "a context": multiprocessing.get_context("fork")})
def multiprocessing_context_with_workers(make, value):
    return list(make(Items(3), num_workers=1, multiprocessing_context=value))


@topic.same()
def persistent_workers_and_prefetch_factor_with_workers(make):
    loader = make(Items(5), 2, num_workers=1, persistent_workers=True, prefetch_factor=1)
    return [list(loader), list(loader)]


@topic.same(over={"timeout": 30, "a fraction": 30.5})
def a_timeout_that_is_kept(make, value):
    return list(make(Items(3), num_workers=1, timeout=value))


@topic.refused(
    ValueError,
    "timeout=5 is for worker processes",
    "`timeout` without workers is an error when the iteration begins: nobody can end a call in the "
    "loop's own process.",
    "torch's loader fails with an AssertionError",
)
def timeout_without_workers(make):
    list(make(Items(3), timeout=5))


@topic.refused(
    ValueError,
    "in_order=False is refused",
    "`in_order=False` is refused: batches always come in order.",
)
def in_order_False(make):
    make(Items(3), num_workers=1, in_order=False)


@topic.refused(
    ValueError,
    "pin_memory_device is refused",
    "`pin_memory_device` is refused: `pin_memory` pins for the current device.",
    "torch warns that it is deprecated",
)
def pin_memory_device(make):
    make(Items(3), pin_memory_device="cuda")


@topic.refused(
    ValueError,
    "prefetch_factor must be at least 1",
    "`prefetch_factor=0` is refused: with torch's loader nothing would ever come.",
)
def prefetch_factor_0(make):
    make(Items(3), num_workers=1, prefetch_factor=0)


@topic.refused(
    TypeError,
    "foreload cannot read samples of a NoneType",
    "What has neither `__getitem__` nor `__iter__` is refused when the loader is made.",
    "torch's loader fails when the iteration begins",
)
def something_that_is_no_data_set(make):
    make(None)


@topic.differs(
    "If `num_workers` is left out, it is the number of CPUs of the container, shared by the ranks "
    "on the machine; torch's default is 0."
)
def num_workers_left_out(make):
    loader = make.kind(Items(3), 2, multiprocessing_context="fork")
    assert loader.num_workers >= 1
    assert [batch.tolist() for batch in loader] == [[0, 1], [2]]
    loader.close()


# Lengths.

SIZES = {
    f"{samples} samples, batch_size={batch_size}, drop_last={drop_last}": (
        samples,
        batch_size,
        drop_last,
    )
    for samples, batch_size in ((0, 3), (8, 4), (9, 4), (3, 4), (5, 1))
    for drop_last in (False, True)
}


@length.same(over=SIZES)
def of_a_loader_and_what_it_gives(make, value):
    samples, batch_size, drop_last = value
    loader = make(Items(samples), batch_size, drop_last=drop_last)
    return len(loader), len(iter(loader)), list(loader)


@length.same()
def of_single_samples(make):
    loader = make(Items(5), None)
    return len(loader), list(loader)


@length.same()
def with_shuffle(make):
    return len(make(Items(9), 4, shuffle=True)), len(make(Items(9), 4, True, drop_last=True))


@length.same()
def with_a_sampler(make):
    order = [3, 1, 2]
    return [len(make(Items(9), 2, sampler=order, drop_last=last)) for last in (False, True)]


@length.same()
def with_a_batch_sampler(make):
    by_torch = BatchSampler(SequentialSampler(range(9)), 4, False)
    return len(make(Items(9), batch_sampler=by_torch)), len(make(Items(9), batch_sampler=[[1]]))


@length.same("A TypeError")
def with_a_sampler_that_has_none(make):
    loader = make(Items(9), 2, sampler=(n for n in range(3)))
    return outcome(lambda: len(loader)), list(loader)


@length.same("A TypeError")
def with_a_batch_sampler_that_has_none(make):
    loader = make(Items(9), batch_sampler=([n, n] for n in range(3)))
    return outcome(lambda: len(loader)), list(loader)


@length.same("A TypeError")
def of_a_data_set_that_has_none(make):
    return outcome(lambda: len(make(Unsized())))


@length.same("The sampler's counts")
def of_a_data_set_that_has_none_with_a_sampler(make):
    loader = make(Unsized(), 2, sampler=[5, 6, 7])
    return len(loader), list(loader)


STREAMS = {
    f"batch_size={batch_size}, drop_last={drop_last}": (batch_size, drop_last)
    for batch_size, drop_last in ((4, False), (4, True), (1, False), (None, False))
}


@length.same(over=STREAMS)
def of_a_stream_that_has_one(make, value):
    batch_size, drop_last = value
    loader = make(SizedStream(10), batch_size, drop_last=drop_last)
    return len(loader), len(list(loader))


@length.same("An estimate, as torch documents it")
def of_a_stream_whatever_its_workers_do(make):
    return len(make(SizedStream(10, split=False), 4, num_workers=2))


@length.same("A TypeError")
def of_a_stream_that_has_none(make):
    return outcome(lambda: len(make(Stream(4))))


@length.same("A warning with the first batch beyond it")
def of_a_stream_that_gives_more(make):
    class Short(SizedStream):
        def __len__(self):
            return 2

    loader = make(Short(4))
    unasked = warned(lambda: list(loader))
    len(loader)
    return unasked, warned(lambda: list(loader))
