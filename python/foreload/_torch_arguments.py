# SPDX-License-Identifier: Apache-2.0
"""Arguments of torch's DataLoader that mean little or nothing here: what is said about them."""

from __future__ import annotations

from typing import Any


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
            "worker_init_fn is refused: there are no worker processes; a function as transform is "
            "given a generator seeded for each sample"
        )
    if multiprocessing_context is not None:
        raise ValueError("multiprocessing_context is refused: there are no worker processes")
    if pin_memory_device:
        raise ValueError("pin_memory_device is refused: pin_memory pins for the current device")
    if not in_order:
        raise ValueError("in_order=False is refused: batches always come in order")
    if timeout < 0:
        raise ValueError(f"timeout is {timeout}: it must not be below 0")


def refuse_together(
    batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Refuse what contradicts itself, as torch does."""
    if sampler is not None and shuffle:
        raise ValueError("sampler and shuffle=True exclude each other: the sampler says the order")
    if batch_sampler is not None and (
        batch_size not in (1, None) or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "batch_sampler excludes batch_size, shuffle, sampler and drop_last: it says all that"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None excludes drop_last: there are no batches")


def seed_from(generator: Any) -> int:
    """One seed drawn from a torch generator, as torch's DataLoader draws one for its workers."""
    import torch

    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())
