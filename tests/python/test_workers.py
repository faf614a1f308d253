# SPDX-License-Identifier: Apache-2.0
"""Batches made in worker processes."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections import OrderedDict, namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from beside_torch import check_same
from test_calls import KINDS, Made, core_of, draw, epoch_of, wanted
from torch.utils.data import DataLoader, DistributedSampler, default_collate, get_worker_info

import foreload
from foreload.data.call_workers import WorkerMaker
from foreload.data.calls import CallMaker
from foreload.workers import shared_batches

fork = multiprocessing.get_context("fork")


@pytest.fixture
def make():
    """Makes makers that are closed in the end."""
    made = []

    def maker(dataset, collate_fn=None, single=False, seed=0, workers=1, **more) -> WorkerMaker:
        more.setdefault("multiprocessing_context", "fork")
        made.append(WorkerMaker(dataset, collate_fn, single, seed, workers, **more))
        return made[-1]

    yield maker
    for one in made:
        one.close()


def take(maker, indices, epoch=0, seconds=300.0):
    return maker.take(maker.submit(wanted(indices, epoch)), seconds)


def wait_for_the_end_of(processes) -> None:
    until = time.monotonic() + 300
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < until, "processes are left"
        time.sleep(0.02)


def mappings() -> int:
    """Pieces of memory that this process shares with workers."""
    return Path("/proc/self/maps").read_text("utf-8").count("memfd:foreload")


# The same batches.


@pytest.mark.parametrize("kind", KINDS)
def test_batches_are_those_of_torch(make, kind):
    dataset = Made(KINDS[kind])
    mine = epoch_of(core_of(make(dataset, workers=2), 10))
    check_same(mine, list(DataLoader(dataset, batch_size=4)))


@pytest.mark.parametrize("kind", ["arrays", "dicts", "named", "strings"])
def test_single_samples_are_those_of_torch(make, kind):
    dataset = Made(KINDS[kind])
    mine = epoch_of(core_of(make(dataset, single=True), 10, batch_size=1))
    check_same(mine, list(DataLoader(dataset, batch_size=None)))


def test_order_and_random_numbers_do_not_depend_on_workers(make):
    dataset = Made(lambda i: (i, draw(i), torch.rand(2)), 37)
    expected = core_of(CallMaker(dataset, None, False, 3), 37, epochs=2, shuffle=True)
    runs = [
        core_of(make(dataset, seed=3, workers=n), 37, epochs=2, shuffle=True) for n in (1, 2, 5)
    ]
    for _ in range(2):
        batches = epoch_of(expected)
        for run in runs:
            check_same(epoch_of(run), batches)


Sample = namedtuple("Sample", ["image", "label"])


class Plain:
    """For processes that begin with nothing: it can be imported."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        info = get_worker_info()
        assert info.dataset is self
        image = np.full((64, 64), index, dtype=np.float32)
        return OrderedDict(
            image=Sample(image, index),
            who=(info.id, info.num_workers),
            begun=self.begun,
            drawn=draw(index),
            threads=torch.get_num_threads(),
        )


def begin(worker):
    get_worker_info().dataset.begun = worker


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_begin_with_nothing(make, method):
    """As a name and as a context; everything a worker knows has to be sent to it."""
    given = method if method == "spawn" else multiprocessing.get_context(method)
    maker = make(Plain(), seed=7, worker_init_fn=begin, multiprocessing_context=given)
    batch = take(maker, range(12))
    assert isinstance(batch, OrderedDict)
    assert isinstance(batch["image"], Sample)
    assert torch.equal(batch["image"].image[:, 5, 5], torch.arange(12.0))
    assert torch.equal(batch["image"].label, torch.arange(12))
    assert [column.tolist() for column in batch["who"]] == [[0] * 12, [1] * 12]
    assert batch["begun"].tolist() == [0] * 12
    assert batch["threads"].tolist() == [1] * 12
    here = CallMaker(Made(draw), None, False, 7)
    check_same(batch["drawn"], take(here, range(12)))


def test_what_cannot_be_sent_is_named(make):
    maker = make(Made(lambda i: i), multiprocessing_context="spawn")
    with pytest.raises(TypeError, match="cannot send the data set to worker processes"):
        maker.submit(wanted([0]))
    with pytest.raises(RuntimeError, match="could not be started: cannot send the data set"):
        take(maker, [0])


@pytest.mark.parametrize(("given", "error"), [("spoon", ValueError), (3, TypeError)])
def test_start_methods_are_checked(given, error):
    with pytest.raises(error, match="multiprocessing_context"):
        WorkerMaker(Made(len), None, False, 0, 1, multiprocessing_context=given)


# What a worker sees.


def info_of(index):
    info = get_worker_info()
    return type(info), info.id, info.num_workers, type(info.dataset), info.worker_method


def test_worker_info_is_that_of_torch(make):
    dataset = Made(info_of, 8)
    mine = epoch_of(
        core_of(make(dataset, list, workers=2, worker_init_fn=id), 8, batch_size=2, epochs=1)
    )
    assert mine == list(DataLoader(dataset, 2, num_workers=2, collate_fn=list))


def test_seeds_of_workers_follow_each_other(make):
    seen = {}
    for workers in (1, 2):
        made = Made(lambda i: get_worker_info().seed - get_worker_info().id, 8)
        maker = make(made, list, workers=workers, seed=5, worker_init_fn=id)
        seen[workers] = {seed for batch in epoch_of(core_of(maker, 8, epochs=1)) for seed in batch}
    assert seen == {1: {5}, 2: {5}}


calls: list[tuple[str, int]] = []


def record(worker):
    calls.append(("init", worker))


def test_worker_init_fn_is_called_once_before_everything(make):
    def seen(index):
        calls.append(("item", index))
        return list(calls)

    maker = make(Made(seen), list, worker_init_fn=record)
    assert take(maker, [4])[0] == [("init", 0), ("item", 4)]
    assert take(maker, [5])[0] == [("init", 0), ("item", 4), ("item", 5)]


def seed_as_torch_says(worker):
    """The recipe of torch's documentation."""
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    calls.append(("seeded", seed))


def test_the_recipe_for_seeds_works(make):
    maker = make(Made(lambda i: list(calls)), list, seed=11, worker_init_fn=seed_as_torch_says)
    assert take(maker, [0])[0] == [("seeded", 11)]


def test_several_samples_are_asked_for_at_once(make):
    class Several(Made):
        def __getitems__(self, indices):
            return [index * 100 for index in indices]

    assert take(make(Several(len)), [3, 1]).tolist() == [300, 100]


# Tensors and arrays on their way.


class Own(torch.Tensor):
    pass


def with_attribute() -> torch.Tensor:
    tensor = torch.arange(3)
    tensor.note = "kept"
    return tensor


def rows(size: int) -> torch.Tensor:
    return torch.arange(size * 6, dtype=torch.float32).view(size, 6)


TENSORS = {
    "small": lambda: rows(2),
    "large": lambda: rows(20_000),
    "empty": lambda: torch.zeros(3, 0),
    "number": lambda: torch.tensor(5),
    "bool": lambda: rows(2000) > 17,
    "bfloat16": lambda: rows(9000).bfloat16(),
    "float8": lambda: rows(2).to(torch.float8_e4m3fn).view(torch.uint8),
    "uint16": lambda: rows(2).to(torch.uint16),
    "complex": lambda: torch.complex(rows(9000), rows(9000)),
    "conjugate": lambda: torch.complex(rows(2), rows(2)).conj(),
    "negative view": lambda: torch.complex(rows(2), rows(2)).conj().imag,
    "transposed": lambda: rows(9000).t(),
    "transposed small": lambda: rows(2).t(),
    "every second": lambda: rows(9000)[::2, 1:3],
    "expanded": lambda: torch.arange(3).expand(5, 3),
    "overlapping": lambda: torch.arange(10).unfold(0, 4, 1),
    "channels last": lambda: rows(4).view(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "leaf": lambda: rows(2).requires_grad_(),
    "parameter": lambda: torch.nn.Parameter(rows(2)),
    "subclass": lambda: rows(2).as_subclass(Own),
    "attribute": with_attribute,
    "quantised": lambda: torch.quantize_per_tensor(rows(2), 0.5, 3, torch.qint8),
}


@pytest.mark.parametrize("kind", TENSORS)
@pytest.mark.filterwarnings("ignore:.*quantize", "ignore:TypedStorage is deprecated")
def test_tensors_arrive_as_they_were(make, kind):
    expected = TENSORS[kind]()
    (mine,) = take(make(Made(lambda i: TENSORS[kind]()), list), [0])
    assert type(mine) is type(expected)
    assert mine.dtype == expected.dtype
    assert mine.layout == expected.layout
    assert mine.shape == expected.shape
    assert mine.requires_grad == expected.requires_grad
    assert mine.__dict__ == expected.__dict__
    if expected.is_quantized:
        mine, expected = mine.dequantize(), expected.dequantize()
    assert torch.equal(mine.to_dense(), expected.to_dense())


def test_strides_of_dense_tensors_are_kept(make):
    for kind in ("transposed", "channels last"):
        (mine,) = take(make(Made(lambda i, kind=kind: TENSORS[kind]()), list), [0])
        assert mine.stride() == TENSORS[kind]().stride()


def test_one_tensor_twice_is_one_tensor(make):
    def twice(index):
        tensor = rows(9000)
        return tensor, tensor

    ((one, other),) = take(make(Made(twice), list), [0])
    assert one is other


ARRAYS = {
    "small": lambda: np.arange(6).reshape(2, 3),
    "large": lambda: np.arange(60_000.0).reshape(200, 300),
    "empty": lambda: np.zeros((0, 3)),
    "columns": lambda: np.asfortranarray(np.arange(60_000.0).reshape(200, 300)),
    "every second": lambda: np.arange(60_000.0)[::2],
    "records": lambda: np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    "objects": lambda: np.array([{"a": 1}, None], dtype=object),
    "strings": lambda: np.array(["a", "bcd"]),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_arrive_as_they_were(make, kind):
    expected = ARRAYS[kind]()
    (mine,) = take(make(Made(lambda i: ARRAYS[kind]()), list), [0])
    assert mine.dtype == expected.dtype
    assert mine.flags.writeable
    assert np.array_equal(mine, expected)


@pytest.mark.parametrize(
    "value", [b"x" * 3_000_000, "y" * 3_000_000, [rows(3)] * 5000, list(range(100_000))], ids=len
)
def test_anything_large_arrives(make, value):
    (mine,) = take(make(Made(lambda i: value), list), [0])
    assert len(mine) == len(value)
    assert mine[-1] == value[-1] if not isinstance(value[-1], torch.Tensor) else True


def test_ten_thousand_tensors_arrive(make):
    made = take(make(Made(lambda i: torch.full((i % 7,), i)), list), range(10_000))
    assert [len(tensor) for tensor in made] == [i % 7 for i in range(10_000)]
    assert all(bool((tensor == i).all()) for i, tensor in enumerate(made))


def test_more_large_tensors_than_blocks_arrive(make):
    """Each of them is collated into shared memory on its own."""
    maker = make(Made(lambda i: {str(k): torch.full((5000 + k,), i + k) for k in range(70)}))
    for _ in range(2):
        batch = take(maker, [1, 2])
        for key, value in batch.items():
            assert value.tolist() == [
                [1 + int(key)] * (5000 + int(key)),
                [2 + int(key)] * (5000 + int(key)),
            ]


# Memory.


def large(index):
    return torch.full((20_000,), index, dtype=torch.float32)


def test_batches_can_be_kept_and_written_to(make):
    core = core_of(make(Made(large, 64), workers=2), 64, batch_size=2)
    kept = []
    for batch in epoch_of(core):
        batch.add_(0.5)
        kept.append(batch)
    for number, batch in enumerate(kept):
        assert batch[:, 0].tolist() == [2 * number + 0.5, 2 * number + 1.5]
        assert batch[:, -1].tolist() == [2 * number + 0.5, 2 * number + 1.5]


def test_a_view_keeps_the_memory(make):
    maker = make(Made(large))
    corner = take(maker, [7])[0, 5:6]
    array = take(maker, [8]).numpy()[0, 5:6]
    for _ in range(10):
        take(maker, [9])
    assert corner.tolist() == [7.0]
    assert array.tolist() == [8.0]


def test_memory_is_used_again(make):
    gc.collect()
    before = mappings()
    core = core_of(make(Made(large, 200), workers=2), 200, batch_size=2, epochs=1)
    most = 0
    while core.next() is not None:
        most = max(most, mappings() - before)
    # What is on its way, in use and being made, and spare, all of it of either worker, and the page
    # of the crew; there were 100 batches.
    assert most <= 2 * (5 + 2 + 3) + 1


def test_memory_is_given_back_when_batches_get_smaller(make):
    def shrinking(index):
        return torch.zeros(1_000_000 if index < 20 else 10_000)

    gc.collect()
    before = mappings()
    maker = make(Made(shrinking))
    held = [take(maker, [i]) for i in range(20)]
    assert mappings() - before >= 20
    del held
    for index in range(20, 40):
        take(maker, [index])
    assert mappings() - before <= 8


def test_any_number_of_batches_can_be_kept(make, monkeypatch):
    """A process may not have any number of mappings: from some number on, batches are copied."""
    monkeypatch.setattr(shared_batches, "_MOST_MAPPED", 5)
    gc.collect()
    before = mappings()
    maker = make(Made(large))
    kept = [take(maker, [index]) for index in range(30)]
    assert mappings() - before <= 8
    assert [batch[0, -1].item() for batch in kept] == list(range(30))


def test_nothing_is_left_when_batches_and_maker_are_gone():
    gc.collect()
    before = mappings()
    maker = WorkerMaker(Made(large), None, False, 0, 1, multiprocessing_context="fork")
    batch = take(maker, [3])
    maker.close()
    del maker
    assert batch[0, 0] == 3
    assert mappings() == before + 1
    del batch
    assert mappings() == before


def test_a_batch_that_a_forked_process_drops_stays(make):
    maker = make(Made(large))
    batch = take(maker, [7])
    child = os.fork()
    if child == 0:
        del batch
        os._exit(0)
    os.waitpid(child, 0)
    for _ in range(8):
        take(maker, [9])
    assert batch[0].tolist() == [7.0] * 20_000


def test_what_a_worker_keeps_of_a_batch_stays(make):
    kept = []

    def keeps(samples):
        batch = default_collate(samples)
        kept.append(batch)
        return [float(batch[0, 0]), batch, [float(old[0, 0]) for old in kept]]

    maker = make(Made(large), keeps)
    for index in range(9):
        first, batch, before = take(maker, [index])
        assert first == batch[0, 0] == index
        assert before == list(range(index + 1))


def test_a_batch_that_is_given_twice_is_right_twice(make):
    kept = []

    def keeps(samples):
        kept.append(default_collate(samples))
        return kept[0]

    maker = make(Made(large), keeps)
    for index in range(9):
        assert take(maker, [index + 5])[0, 0] == 5


def test_a_collate_fn_may_throw_away_what_it_made(make):
    maker = make(Made(large), lambda samples: default_collate(samples).mean().item())
    assert [take(maker, [index]) for index in range(9)] == list(range(9))


def test_default_collate_needs_no_dev_shm(make):
    """Torch's own takes a piece of /dev/shm for each tensor, of which containers have 64 MB."""

    def seen(samples):
        batch = default_collate(samples)
        return batch.is_shared()

    assert take(make(Made(large), seen), [0, 1]) is False


def test_samples_of_different_sizes_are_refused_as_torch_does(make):
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        take(make(Made(lambda i: torch.zeros(20_000 + i))), [0, 1])


# Errors.


class TwoArgumentsError(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def fails(index):
    if index == 1:
        raise KeyError("no such key")
    if index == 2:
        raise TwoArgumentsError(1, 2)
    if index == 3:
        raise StopIteration
    if index == 4:
        raise FileNotFoundError(2, "not there", "file.jpg")
    raise ValueError("a bad sample")


@pytest.mark.parametrize("index", range(5))
def test_errors_are_those_of_torch(make, index):
    dataset = Made(fails)

    theirs = iter(DataLoader(dataset, sampler=[index], num_workers=1))
    with pytest.raises(BaseException) as expected:  # noqa: PT011 - its type is the question
        next(theirs)
    theirs._shutdown_workers()  # left to the collector, it takes seconds
    with pytest.raises(BaseException) as mine:  # noqa: PT011
        take(make(dataset), [index])
    assert type(mine.value) is type(expected.value)

    def told(error):  # without the lines of the loaders
        text = str(error.value)
        return text.splitlines()[0], text[text.rindex("test_workers.py") :]

    assert told(mine) == told(expected)


def test_the_next_batch_comes_after_an_error(make):
    maker = make(Made(lambda i: 1 // i))
    with pytest.raises(ZeroDivisionError, match="in DataLoader worker process 0"):
        take(maker, [0])
    assert take(maker, [1]).tolist() == [1]


def test_a_type_of_error_that_cannot_be_sent(make):
    class LocalError(Exception):
        pass

    def raises(index):
        raise LocalError("what happened")

    with pytest.raises(RuntimeError, match=r"(?s)Caught LocalError.*what happened"):
        take(make(Made(raises)), [0])


def test_a_batch_that_cannot_be_sent(make):
    maker = make(Made(lambda i: (lambda: i) if i == 0 else i), list)
    with pytest.raises(Exception, match=r"(?i)pickle"):
        take(maker, [0])
    assert take(maker, [1]) == [1]


def test_a_data_set_that_times_out_is_no_batch_that_is_late(make):
    def raises(index):
        raise TimeoutError("no answer from the database")

    with pytest.raises(RuntimeError, match="no answer from the database"):
        take(make(Made(raises)), [0])


def test_a_worker_init_fn_that_fails(make):
    def cannot(worker):
        raise OSError("no such database")

    maker = make(Made(len), worker_init_fn=cannot)
    for _ in range(2):
        with pytest.raises(OSError, match="no such database"):
            take(maker, [0])


# Endings.


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_is_killed(make, signum):
    def dies(index):
        if index == 5:
            os.kill(os.getpid(), signum)
        return os.getpid()

    maker = make(Made(dies), workers=2, worker_init_fn=id)
    pids = [int(take(maker, [0])), int(take(maker, [1]))]
    words = f"worker process 1 \\({pids[1]}\\) was killed by signal {int(signum)}"
    words += r" \(is there enough memory\?\)$" if signum == signal.SIGKILL else "$"
    waiting = maker.submit(wanted([1]))  # for the other one
    for index in (5, 1):  # and it stays an error
        with pytest.raises(RuntimeError, match=words):
            take(maker, [index])
    with pytest.raises(RuntimeError, match=words):
        maker.take(waiting, None)
    wait_for_the_end_of(pids)


def test_a_worker_that_leaves(make):
    def leaves(index):
        sys.exit(3)

    with pytest.raises(RuntimeError, match=r"worker process 0 \(\d+\) ended with exit code 3"):
        take(make(Made(leaves)), [0])


def test_an_idle_worker_that_is_killed_is_noticed_with_the_next_batch(make):
    maker = make(Made(lambda i: os.getpid()))
    pid = int(take(maker, [0]))
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with pytest.raises(RuntimeError, match="was killed by signal 9"):
        take(maker, [1])


def test_interrupts_are_for_the_loop(make):
    maker = make(Made(lambda i: os.getpid()))
    pid = int(take(maker, [0]))
    os.kill(pid, signal.SIGINT)
    assert int(take(maker, [1])) == pid


def test_workers_end_with_the_maker(make):
    closed = make(Made(lambda i: os.getpid()))
    dropped = WorkerMaker(
        Made(lambda i: os.getpid()), None, False, 0, 1, multiprocessing_context="fork"
    )
    pids = [int(take(closed, [0])), int(take(dropped, [0]))]
    closed.close()
    del dropped
    wait_for_the_end_of(pids)
    with pytest.raises(RuntimeError, match="closed"):
        take(closed, [1])


def test_a_worker_that_waits_for_ever_ends_with_the_maker(make):
    here, there = os.pipe()
    maker = make(Made(lambda i: os.getpid() if i else os.read(here, 1)))
    pid = int(take(maker, [1]))
    maker.submit(wanted([0]))
    maker.close()
    assert not Path(f"/proc/{pid}").exists()
    os.close(here)
    os.close(there)


def test_nothing_is_started_before_the_first_batch(make):
    values = [1]
    maker = make(Made(lambda i: values[0]))
    values[0] = 2
    assert take(maker, [0]).tolist() == [2]


# Who makes what.


class Gates:
    """Samples 0 to 9 wait until they are let through; all say which process made them."""

    def __init__(self):
        self.pipes = [os.pipe() for _ in range(10)]
        self.made = [os.pipe() for _ in range(10)]

    def __call__(self, index):
        if index < 10:
            os.write(self.made[index][1], b"x")
            os.read(self.pipes[index][0], 1)
        return os.getpid()

    def open(self, index):
        os.write(self.pipes[index][1], b"x")

    def wait(self, index):
        os.read(self.made[index][0], 1)

    def close(self):
        for file in itertools.chain.from_iterable(self.pipes + self.made):
            os.close(file)


@pytest.fixture
def gates():
    made = Gates()
    yield made
    made.close()


def test_whoever_is_free_makes_the_next_batch(make, gates):
    maker = make(Made(gates, 100), workers=2)
    tickets = [maker.submit(wanted([index])) for index in (0, 20, 21, 22, 23)]
    others = {int(maker.take(ticket, 300)) for ticket in tickets[1:]}
    gates.open(0)
    assert len(others) == 1
    assert int(maker.take(tickets[0], 300)) not in others


def test_workers_that_were_made_different_take_turns(make):
    maker = make(Made(lambda i: get_worker_info().id, 100), workers=3, worker_init_fn=id)
    assert [batch.tolist() for batch in epoch_of(core_of(maker, 9, 1, epochs=1))] == [
        [0], [1], [2], [0], [1], [2], [0], [1], [2],
    ]  # fmt: skip


def test_a_late_batch_can_be_taken_later(make, gates):
    maker = make(Made(gates, 100))
    ticket = maker.submit(wanted([0]))
    with pytest.raises(TimeoutError):
        maker.take(ticket, 0.01)
    gates.open(0)
    maker.take(ticket, 300)


def interrupted(seconds):
    raise KeyboardInterrupt


def test_after_an_interrupt_the_batch_can_still_be_had(make, monkeypatch):
    maker = make(Made(large))
    take(maker, [0])
    ticket = maker.submit(wanted([1]))
    with monkeypatch.context() as patch:
        patch.setattr(maker._crew, "_receive", interrupted)
        with pytest.raises(KeyboardInterrupt):
            maker.take(ticket, 300)
    assert maker.take(ticket, 300)[0, 0] == 1
    assert maker._crew._expected == {}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_loses_nothing_by_an_interrupt(monkeypatch, workers):
    def number(index):
        return index

    loader = foreload.DataLoader(
        Made(number, 20),
        2,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    iterator = iter(loader)
    seen = next(iterator).tolist()
    with monkeypatch.context() as patch:
        patch.setattr(loader._core.maker, "take", lambda ticket, seconds: interrupted(seconds))
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    assert loader.state_dict()["consumed"] == 2
    for batch in iterator:
        seen += batch.tolist()
    assert seen == list(range(20))
    loader.close()


def test_a_column_of_one_row_arrives():
    rows = torch.arange(12.0).view(3, 4)

    def columns(batch):
        stacked = torch.stack(batch)
        return stacked[:, :3], stacked[:, 3]

    loader = foreload.DataLoader(
        Made(rows.__getitem__, 3),
        2,
        num_workers=1,
        collate_fn=columns,
        multiprocessing_context="fork",
    )
    assert [last.tolist() for _, last in loader] == [[3.0, 7.0], [11.0]]
    loader.close()


def test_batches_that_nobody_wants_are_not_made(make, gates):
    calls = fork.Value("i", 0)

    def counted(index):
        with calls.get_lock():
            calls.value += 1
        return gates(index)

    maker = make(Made(counted, 100))
    tickets = [maker.submit(wanted([index])) for index in (0, 20, 21, 22)]
    gates.wait(0)  # it has begun
    for ticket in tickets:
        maker.drop(ticket)
    gates.open(0)
    take(maker, [30])
    assert calls.value == 2


def test_more_tasks_than_a_channel_holds(make):
    maker = make(Made(lambda i: i, 10_000), len, workers=2)
    tickets = [maker.submit(wanted(range(1000 + k))) for k in range(60)]
    assert [maker.take(ticket, 300) for ticket in tickets] == [1000 + k for k in range(60)]


def test_a_batch_of_very_many_samples(make):
    maker = make(Made(lambda i: i, 100_000))
    assert torch.equal(take(maker, range(100_000)), torch.arange(100_000))


def test_time_is_counted(make):
    maker = make(Made(lambda i: sum(range(20_000))))
    take(maker, range(10))
    assert maker.seconds > 0
    assert maker.cpu_seconds > 0


# Through the loader.


def test_a_loader_gives_what_torch_gives_and_goes_on_anywhere():
    dataset = Made(lambda i: (np.full(3, i), i, draw(i)), 50)
    sampler = DistributedSampler(dataset, 1, 0, shuffle=True, seed=3)
    expected = [batch[:2] for batch in DataLoader(dataset, 8, sampler=sampler)]
    loaders = [
        foreload.DataLoader(
            dataset, 8, shuffle=True, seed=3, num_workers=n, multiprocessing_context="fork"
        )
        for n in (2, 1)
    ]
    batches = list(loaders[0])
    check_same([batch[:2] for batch in batches], expected)
    iterator = iter(loaders[0])
    expected = [next(iterator) for _ in range(3)]
    loaders[1].load_state_dict(loaders[0].state_dict())
    check_same(list(loaders[1]), list(iterator))
    for loader in loaders:
        loader.close()


def test_a_loader_whose_worker_is_killed():
    def dies(index):
        if index == 20:
            os.kill(os.getpid(), signal.SIGKILL)
        return index

    loader = foreload.DataLoader(Made(dies, 50), 8, num_workers=2, multiprocessing_context="fork")
    killed = r"worker process \d \(\d+\) was killed by signal 9"
    iterator, received, errors = iter(loader), 0, []
    while len(errors) < 9:  # more often than there are batches
        try:
            received += len(next(iterator))
        except RuntimeError as error:
            errors.append(str(error))
    assert all(re.match(killed, error) for error in errors)
    assert loader.state_dict()["consumed"] == received <= 16
    with pytest.raises(RuntimeError, match=killed):
        list(loader)
    loader.close()


# A program that ends. It does not import torch, because that takes long.

PROGRAM = """
    import atexit, os, signal, sys, time
    from collections import namedtuple
    import numpy as np
    from foreload.data.call_workers import WorkerMaker
    Wanted = namedtuple("Wanted", ["epoch", "indices", "places"])

    class Dataset:
        def __len__(self):
            return 100
        def __getitem__(self, index):
            if index == 50:
                time.sleep(10_000)
            return np.full(100_000, os.getpid())

    def ask(maker, index):
        numbers = np.asarray([index])
        return maker.submit(Wanted(0, numbers, numbers))

    def main():
        # Whoever runs the tests in the background may have had it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        atexit.register(lambda: print("end of", os.getpid(), flush=True))
        makers = [
            WorkerMaker(Dataset(), list, False, 0, 2, 2, id, sys.argv[1]) for _ in range(2)
        ]
        held = [maker.take(ask(maker, 0), None) for _ in range(2) for maker in makers]
        print(os.getpid(), *sorted({int(batch[0][0]) for batch in held}), flush=True)
        if sys.argv[2] == "busy":
            for maker in makers:
                ask(maker, 50)
        assert "torch" not in sys.modules
        if sys.argv[2] != "ends":
            sys.stdin.read()

    if __name__ == "__main__":
        main()
"""


def started(tmp_path, method, what):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM), "utf-8")
    program = subprocess.Popen(
        [sys.executable, script, method, what],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    line = program.stdout.readline()
    assert re.fullmatch(r"\d+( \d+){4}\n", line), program.stderr.read()
    return program, [int(word) for word in line.split()]


@pytest.mark.parametrize(
    ("method", "what"),
    [("fork", "idle"), ("fork", "busy"), ("spawn", "busy"), ("forkserver", "idle")],
)
def test_workers_end_with_a_program_that_is_killed(tmp_path, method, what):
    shared = set(os.listdir("/dev/shm"))
    program, pids = started(tmp_path, method, what)
    program.kill()
    program.communicate()
    wait_for_the_end_of(pids)
    assert not [name for name in set(os.listdir("/dev/shm")) - shared if "foreload" in name]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_end_with_a_program_that_ends(tmp_path, method):
    """And they do not run what it has prepared for its own end."""
    program, pids = started(tmp_path, method, "ends")
    output, errors = program.communicate(timeout=300)
    assert (output, errors, program.returncode) == (f"end of {pids[0]}\n", "", 0)
    wait_for_the_end_of(pids)


def test_workers_end_with_a_program_that_is_interrupted(tmp_path):
    program, pids = started(tmp_path, "fork", "busy")
    for pid in pids:
        os.kill(pid, signal.SIGINT)
    _, errors = program.communicate(timeout=300)
    assert errors.count("Traceback") == 1
    wait_for_the_end_of(pids)


KEPT = """
import os, resource, numpy as np, foreload

class Data:
    def __len__(self): return 200
    def __getitem__(self, index): return np.full(20_000, index, dtype=np.float32)

def files(): return len(os.listdir("/proc/self/fd"))

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    before = files()
    loader = foreload.DataLoader(Data(), batch_size=1, num_workers=2)
    kept = list(loader)
    loader.close()
    assert files() == before, (before, files())
    assert [int(batch[0, -1]) for batch in kept] == list(range(200))
"""


def test_kept_batches_hold_no_open_files(tmp_path):
    """Each held one, and at the limit of open files there were no more batches."""
    script = tmp_path / "kept.py"
    script.write_text(KEPT)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


FULL = """
import os, resource, numpy as np, foreload

class Data:
    def __len__(self): return 1
    def __getitem__(self, index):
        os.read(go, 1)
        return np.zeros(20_000, dtype=np.float32)

if __name__ == "__main__":
    go, gone = os.pipe()
    loader = foreload.DataLoader(
        Data(), batch_size=1, num_workers=1, multiprocessing_context="fork", timeout=0.01
    )
    iterator = iter(loader)
    try:
        next(iterator)
    except RuntimeError as error:
        assert "timeout" in str(error)
    loader.timeout = 60
    taken = [os.dup(0)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, 1024))
    os.write(gone, b"x")
    next(iterator)
"""


def test_a_full_table_of_files_is_told(tmp_path):
    script = tmp_path / "full.py"
    script.write_text(FULL)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, timeout=120
    )
    assert "cannot get a batch from a worker process: this process has all" in done.stderr
    assert "ulimit -n" in done.stderr.splitlines()[-1]
