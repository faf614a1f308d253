# SPDX-License-Identifier: Apache-2.0
"""How samples become batches: default_collate, a collate_fn, __getitems__, single samples."""

from __future__ import annotations

import collections
import copy
import dataclasses
import decimal
import pickle
from typing import NamedTuple

import numpy as np
import torch
from conformance import Items, Stream, Topic, outcome
from torch.utils.data import default_collate, default_convert

topic = Topic("batches")

Point = collections.namedtuple("Point", ["x", "y"])


class Typed(NamedTuple):
    image: torch.Tensor
    label: int


class OwnList(list):
    pass


class OwnDict(dict):
    pass


class OwnTensor(torch.Tensor):
    pass


@dataclasses.dataclass
class Record:
    number: int


KINDS = {
    "whole numbers": lambda i: i,
    "floats": lambda i: i / 3,
    "bools": lambda i: i % 2 == 0,
    "texts": lambda i: f"sample {i}",
    "bytes": lambda i: bytes([i]),
    "tensors": lambda i: torch.full((2, 3), i, dtype=torch.int16),
    "tensors without dimensions": lambda i: torch.tensor(i),
    "tensors of bfloat16": lambda i: torch.full((4,), i, dtype=torch.bfloat16),
    "tensors without elements": lambda i: torch.zeros(0, 3),
    "transposed tensors": lambda i: (torch.arange(6).view(2, 3) + i).T,
    "a subclass of tensors": lambda i: torch.ones(2).as_subclass(OwnTensor),
    "arrays": lambda i: np.full((2, 3), i, dtype=np.float32),
    "arrays of uint16": lambda i: np.full(2, i, dtype=np.uint16),
    "arrays without dimensions": lambda i: np.array(i),
    "numpy numbers": lambda i: np.float32(i),
    "numpy bools": lambda i: np.bool_(i % 2),
    "transposed arrays": lambda i: (np.arange(6).reshape(2, 3) + i).T,
    "arrays that cannot be written": lambda i: np.broadcast_to(np.float64(i), (2, 2)),
    "pairs": lambda i: (np.full(2, i), i),
    "lists": lambda i: [i, i + 0.5],
    "empty tuples": lambda i: (),
    "dicts": lambda i: {"a": i, "b": {"c": np.full(2, i), "d": str(i)}},
    "empty dicts": lambda i: {},
    "dicts with numbers as keys": lambda i: {1: i, 0: -i},
    "OrderedDict": lambda i: collections.OrderedDict(b=i, a=(i, i)),
    "defaultdict": lambda i: collections.defaultdict(list, a=i),
    "Counter": lambda i: collections.Counter(a=i),
    "a dict class of the user's": lambda i: OwnDict(a=i),
    "namedtuple": lambda i: Point(i, np.full(2, i)),
    "typed NamedTuple": lambda i: Typed(torch.full((2,), i), i),
    "a list class of the user's": lambda i: OwnList([i, i]),
    "deeply nested": lambda i: {"a": [(i, {"b": Point([i], {"c": torch.tensor(i)})})]},
    "ranges": lambda i: range(i, i + 2),
}

NOT_TO_COLLATE = {
    "None": lambda i: None,
    "complex numbers": lambda i: complex(i, 1),
    "sparse tensors": lambda i: torch.eye(2).to_sparse(),
    "sets": lambda i: {i},
    "objects": lambda i: object(),
    "dataclasses": Record,
    "Decimal": lambda i: decimal.Decimal(i),
    "arrays of objects": lambda i: np.array([None, i], dtype=object),
    "arrays of texts": lambda i: np.array(["a", "b"]),
    "tensors of different shapes": lambda i: torch.zeros(i + 1),
    "arrays of different shapes": lambda i: np.zeros(i + 1),
    "lists of different lengths": lambda i: list(range(i + 1)),
    "dicts with different keys": lambda i: {str(i): i},
    "numbers beyond 64 bits": lambda i: 2**70 + i,
    "different types": lambda i: [1, "one"][i % 2],
}


@topic.same(over=KINDS)
def of(make, value):
    return list(make(Items(5, value), 2))


@topic.same(
    over={
        name: KINDS[name]
        for name in (
            "tensors",
            "a subclass of tensors",
            "texts",
            "transposed arrays",
            "deeply nested",
            "typed NamedTuple",
            "defaultdict",
            "numpy numbers",
        )
    }
)
def made_in_a_worker_of(make, value):
    return list(make(Items(3, value), 2, num_workers=1))


@topic.same(over=NOT_TO_COLLATE)
def is_an_error_for(make, value):
    return outcome(lambda: list(make(Items(4, value), 2)))


@topic.same(over={name: KINDS[name] for name in ("texts", "pairs", "deeply nested", "arrays")})
def single_samples_of(make, value):
    return list(make(Items(3, value), None))


@topic.same("default_convert leaves them as they are")
def single_samples_of_objects(make):
    return list(make(Items(3, Record), None))


@topic.same()
def single_samples_in_a_worker(make):
    return list(make(Items(3, lambda i: (np.full(2, i), Record(i))), None, num_workers=1))


@topic.same()
def single_samples_with_a_collate_fn(make):
    return list(make(Items(3), None, collate_fn=lambda sample: [sample, sample]))


@topic.same()
def a_collate_fn_gets_a_list_of_samples(make):
    return list(make(Items(5), 2, collate_fn=lambda samples: (type(samples), samples)))


@topic.same()
def a_collate_fn_in_a_worker(make):
    return list(make(Items(5), 2, collate_fn=lambda samples: sum(samples), num_workers=1))


@topic.same()
def a_collate_fn_may_give_anything(make):
    return list(make(Items(3), 2, collate_fn=lambda samples: None))


@topic.same()
def a_collate_fn_that_calls_default_collate(make):
    def padded(samples):
        longest = max(map(len, samples))
        same = [torch.nn.functional.pad(s, (0, longest - len(s))) for s in samples]
        return default_collate(same), torch.tensor([len(s) for s in samples])

    texts = Items(5, lambda i: torch.arange(i + 1))
    return [list(make(texts, 2, collate_fn=padded, num_workers=n)) for n in (0, 1)]


@topic.same(over={"0 workers": 0, "1 worker": 1})
def of_a_type_that_the_user_has_registered_with_default_collate(make, value):
    known = torch.utils.data._utils.collate.default_collate_fn_map
    known[Record] = lambda batch, *, collate_fn_map=None: sum(one.number for one in batch)
    try:
        return list(make(Items(4, lambda i: (Record(i), i)), 2, num_workers=value))
    finally:
        del known[Record]


@topic.same()
def collate_fn_is_torch_s_own(make):
    return list(make(Items(4), 2, collate_fn=default_collate)), list(
        make(Items(4), None, collate_fn=default_convert)
    )


class Several(Items):
    """Gives the samples of a batch at once."""

    def __getitems__(self, indices):
        return [(type(indices).__name__, len(indices), index) for index in indices]


@topic.same()
def getitems_is_asked_for_a_batch_at_once(make):
    return list(make(Several(5), 2)), list(make(Several(5), 2, num_workers=1))


@topic.same()
def getitems_is_not_asked_for_single_samples(make):
    return list(make(Several(3), None))


@topic.same()
def getitems_that_is_None_is_not_asked(make):
    dataset = Several(3)
    dataset.__getitems__ = None
    return list(make(dataset, 2))


@topic.same()
def what_getitems_gives_goes_to_collate_fn_as_it_is(make):
    class Table(Items):
        def __getitems__(self, indices):
            return torch.tensor(indices) * 10

    return list(make(Table(5), 2, collate_fn=lambda rows: rows + 1))


@topic.same()
def batches_may_be_kept(make):
    return list(make(Items(6, lambda i: torch.full((3,), i)), 2, num_workers=1))


@topic.same()
def batches_may_be_written_to(make):
    given = []
    for workers in (0, 1):
        for batch in make(Items(4, lambda i: torch.full((3,), i)), 2, num_workers=workers):
            batch += 1
            given.append(batch)
    return given


@topic.same()
def batches_can_be_pickled_and_copied(make):
    samples = Items(4, lambda i: {"a": torch.full((2,), i), "b": Point(i, str(i))})
    batches = [batch for n in (0, 1) for batch in make(samples, 2, num_workers=n)]
    return pickle.loads(pickle.dumps(batches)), copy.deepcopy(batches)


@topic.same()
def tensors_of_a_worker_s_batch_are_contiguous_and_need_no_gradient(make):
    samples = Items(4, lambda i: torch.full((2, 3), float(i)))
    return [
        (batch.is_contiguous(), batch.requires_grad, batch.device.type)
        for batch in make(samples, 2, num_workers=1)
    ]


class Pinnable:
    """A batch of the user's own type."""

    def __init__(self, samples):
        self.samples = samples

    def pin_memory(self):
        raise AssertionError("there is nothing to pin for")


@topic.same("Without an accelerator nothing is pinned")
def pin_memory_with_a_batch_of_the_user_s_type(make):
    if torch.accelerator.is_available():
        return []
    loader = make(Items(4), 2, collate_fn=Pinnable, pin_memory=True)
    return [batch.samples for batch in loader]


@topic.same()
def samples_of_a_stream(make):
    loaders = (make(Stream(5, KINDS["deeply nested"]), size) for size in (2, None))
    return [list(loader) for loader in loaders]
