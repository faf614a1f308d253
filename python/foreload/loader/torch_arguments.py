# SPDX-License-Identifier: Apache-2.0
"""What the arguments of torch's DataLoader mean here, and what is said about those that mean
nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, SupportsIndex

from foreload import _core
from foreload._arguments import one_of, seed_word, whole
from foreload._collate import HAVE_TORCH
from foreload._warn import warn_caller
from foreload.data.samples import Samples
from foreload.planning.weighted_order import WeightedOrder


def check_choices(given: Mapping[str, Any]) -> None:
    """Refuse what cannot be meant, whatever the data set is."""
    one_of("pad", given["pad"], "repeat", "truncate", "none")
    if not isinstance(given["order"], WeightedOrder):
        one_of("order", given["order"], "torch", "feistel")
    one_of("workers", given["workers"], "thread", "process")
    if given["pin_memory_device"]:
        raise ValueError(
            "pin_memory_device is refused: leave it out, pin_memory pins for the current device"
        )
    if not given["in_order"]:
        raise ValueError("in_order=False is refused: leave it out, batches always come in order")
    if given["timeout"] < 0:
        raise ValueError(f"timeout is {given['timeout']}: give seconds, or 0 to wait for ever")


# Arguments for data that foreload reads itself, and why others cannot have them.
_FOR_FILES = {
    "memory": "keep samples in memory",
    "disk": "keep samples on disk",
    "cache": "keep samples in a cache",
    "index": "list files",
    "extensions": "list files",
    "transform": "open images for a transform",
    "target_transform": "know classes",
    "image_type": "open images",
}
_FOR_SAMPLERS = ("sampler", "batch_sampler")


def check_kind(samples: Samples, given: Mapping[str, Any]) -> None:
    """Refuse what does not fit the kind of data set."""
    name = type(samples.dataset).__name__
    if not samples.makes_itself:
        for argument in ("worker_init_fn", "multiprocessing_context"):
            if given[argument] is not None:
                raise ValueError(
                    f"{argument} is refused: foreload reads this data set itself, in threads; "
                    "worker processes are for data sets with a __getitem__ of their own"
                )
        return
    for argument, what in _FOR_FILES.items():
        if given[argument] not in (None, 0):
            raise ValueError(
                f"{argument} is refused: {name} makes its samples itself, so foreload cannot "
                f"{what}; leave it out, or give foreload a data set whose samples are files: a "
                "folder, or a class with locate(index) and decode(bytes, index)"
            )
    if given["on_error"] == "skip":
        raise ValueError(
            f"on_error='skip' is refused: {name} makes its samples itself, and an error in your "
            "own code is never skipped; catch it there"
        )
    for argument, usual in (("decoder", "cpu"), ("form", "encoded")):
        if given[argument] != usual:
            raise ValueError(f"{argument} is refused: {name} makes its samples itself")
    if samples.stream:
        _check_stream(name, given)
    elif given["sampler"] is None and given["batch_sampler"] is None:
        _check_count(name, samples.count, given["shuffle"])


def _check_count(name: str, count: int | None, shuffle: bool | None) -> None:
    """As torch does: an order needs samples that can be counted."""
    if count is None:
        raise TypeError(f"{name} has no __len__: give it one, or give sampler= or batch_sampler=")
    if count == 0 and shuffle:
        raise ValueError(f"shuffle is refused: {name} has no samples")


def _check_stream(name: str, given: Mapping[str, Any]) -> None:
    """As torch does: a stream has an order of its own."""
    for argument in _FOR_SAMPLERS:
        if given[argument] is not None:
            raise ValueError(f"{argument} is refused: {name} is a stream, its order is its own")
    if given["shuffle"] not in (None, False):
        raise ValueError(f"shuffle is refused: {name} is a stream, its order is its own")
    if given["return_index"]:
        raise ValueError(f"return_index is refused: samples of {name}, a stream, have no numbers")


def refuse_together(
    batch_size: Any,
    shuffle: Any,
    sampler: Any,
    batch_sampler: Any,
    drop_last: bool,
    order: str | WeightedOrder,
) -> None:
    """Refuse what contradicts itself, as torch does."""
    for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if given is not None and not _can_be_iterated(given):
            entries = "indices" if name == "sampler" else "lists of indices"
            raise TypeError(f"{name} is {given!r}: give a sampler, or a list of {entries}")
    if order != "torch" and not shuffle:
        text = f"order={order!r} is a way to shuffle"
        if sampler is None and batch_sampler is None:
            raise ValueError(f"{text}: give shuffle=True, or leave order out")
        # Trainers give a sampler to a loader that they make again, beside all other arguments.
        warn_caller(f"{text}, and is ignored: the order is that of the sampler")
    if sampler is not None and shuffle:
        raise ValueError("sampler= and shuffle=True exclude each other: give one of them")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler= excludes batch_size, shuffle, sampler and drop_last: leave them out"
        )
    if not isinstance(drop_last, bool):
        raise ValueError(f"drop_last is {drop_last!r}: give True or False")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None makes no batches, so drop_last has no meaning: leave drop_last out"
        )


def _can_be_iterated(value: Any) -> bool:
    return any(hasattr(type(value), name) for name in ("__iter__", "__getitem__"))


def batch_size_of(given: Any) -> int:
    """Samples in a batch; what is no number is a ValueError, as in torch."""
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise ValueError(f"batch_size is {given!r}: give a whole number from 1 on, or None")
    return whole("batch_size", given, 1)


def check_workers(samples: Samples, workers: int, given: Mapping[str, Any]) -> None:
    """Refuse what only worker processes can do, where there are none, as torch does."""
    if not samples.makes_itself or workers > 0:
        return
    for argument in ("prefetch_factor", "multiprocessing_context", "persistent_workers"):
        if given[argument] not in (None, False):
            raise ValueError(f"{argument} is for worker processes: give num_workers from 1 on")


class DrawnSeed(int):
    """One that a loader has drawn from its generator. A loader that is made again from arguments
    of another one gets both."""


def seed_of(seed: SupportsIndex | None, generator: Any) -> int:
    """The seed given; or one drawn from a torch generator, as torch's DataLoader draws one for its
    workers."""
    if generator is None or isinstance(seed, DrawnSeed):
        return seed_word(seed or 0)
    if seed is not None:
        raise ValueError("seed= and generator= exclude each other: give one of them")
    import torch

    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def workers_of(
    num_workers: SupportsIndex | None, local_ranks: int, feeds_device: bool, samples: Samples
) -> int:
    """Threads that decode, or processes that call the data set: as given, or this rank's share of
    the CPUs that the container has, less one for a loop that feeds a device. Calls may be made in
    the loop's own process, by 0 of them; a stream is, because each worker would give all of it."""
    if samples.stream and num_workers is None:
        return 0
    if samples.makes_itself and num_workers is not None:
        return whole("num_workers", num_workers)
    given = whole("num_workers", num_workers or 0)
    cpus = _core.available_cpus() // local_ranks
    if feeds_device and cpus > 4:
        cpus -= 1
    return given or max(1, cpus)


def can_pin() -> bool:
    """Whether there is anything to pin memory for; warns as torch does."""
    if HAVE_TORCH:
        import torch

        if torch.cuda.is_available():
            return True
    warn_caller("pin_memory=True is ignored: there is no accelerator to pin memory for")
    return False
