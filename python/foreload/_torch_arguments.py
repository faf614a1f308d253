# SPDX-License-Identifier: Apache-2.0
"""What the arguments of torch's DataLoader mean here, and what is said about those that mean
nothing."""

from __future__ import annotations

import warnings
from typing import Any, SupportsIndex

from foreload import _core
from foreload._arguments import seed_word, whole
from foreload._collate import HAVE_TORCH


def check_torch_arguments(
    worker_init_fn: Any,
    multiprocessing_context: Any,
    pin_memory_device: str,
    in_order: bool,
    timeout: float,
) -> None:
    """Refuse what cannot be meant here."""
    if worker_init_fn is not None:
        raise ValueError(
            "worker_init_fn is refused, because there are no worker processes: leave it out; a "
            "function as transform is given a generator seeded for each sample"
        )
    if multiprocessing_context is not None:
        raise ValueError(
            "multiprocessing_context is refused, because there are no worker processes: leave it "
            "out"
        )
    if pin_memory_device:
        raise ValueError(
            "pin_memory_device is refused: leave it out, pin_memory pins for the current device"
        )
    if not in_order:
        raise ValueError("in_order=False is refused: leave it out, batches always come in order")
    if timeout < 0:
        raise ValueError(f"timeout is {timeout}: give seconds, or 0 for no limit")


def refuse_together(
    batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Refuse what contradicts itself, as torch does."""
    if sampler is not None and shuffle:
        raise ValueError("sampler= and shuffle=True exclude each other: give one of them")
    if batch_sampler is not None and (
        batch_size not in (1, None) or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler= excludes batch_size, shuffle, sampler and drop_last: leave them out"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "batch_size=None makes no batches, so drop_last has no meaning: leave drop_last out"
        )


def seed_of(seed: SupportsIndex | None, generator: Any) -> int:
    """The seed given; or one drawn from a torch generator, as torch's DataLoader draws one for its
    workers."""
    if generator is None:
        return seed_word(seed or 0)
    if seed is not None:
        raise ValueError("seed= and generator= exclude each other: give one of them")
    import torch

    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def threads_of(num_workers: SupportsIndex | None, local_ranks: int, feeds_device: bool) -> int:
    """Threads that decode: as given, or this rank's share of the CPUs that the container has, less
    one for a loop that feeds a device."""
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
    warnings.warn(
        "pin_memory=True is ignored: there is no accelerator to pin memory for", stacklevel=4
    )
    return False
