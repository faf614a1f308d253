# SPDX-License-Identifier: Apache-2.0
"""What stands in front of the network: nothing, torch's DataLoader, or foreload."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import torch

import foreload
from foreload import _core, transforms

INPUTS = ["none", "torch", "cpu", "gpu", "hybrid"]


@dataclass
class Work:
    """What all inputs are to give."""

    folder: str
    device: str  # "cuda", or "cpu" in a dry run
    batch: int
    size: int  # of an image, in pixels
    classes: int
    steps: int  # of an epoch without input
    memory: str = "8GiB"
    workers: int = 16


@contextmanager
def opened_with(**settings: Any) -> Iterator[None]:
    """Loaders opened inside get settings that users have no names for."""
    plain = _core.open_loader
    _core.open_loader = functools.partial(plain, **settings)
    try:
        yield
    finally:
        _core.open_loader = plain


def one_batch(work: Work) -> Any:
    images = torch.randn(
        work.batch, 3, work.size, work.size, dtype=torch.bfloat16, device=work.device
    )
    labels = torch.randint(work.classes, (work.batch,), device=work.device)
    return images.contiguous(memory_format=torch.channels_last), labels


def foreload_loader(work: Work, decoder: str = "cpu", **given: Any) -> foreload.DataLoader:
    chain = transforms.Compose(
        [
            transforms.imagenet_train(work.size, dtype="bfloat16"),
            transforms.ToLayout("channels_last"),
        ]
    )
    on_device = {"device": "cuda", "decoder": decoder} if work.device == "cuda" else {}
    settings = {"memory": work.memory} | on_device | given
    return foreload.DataLoader(
        work.folder,
        batch_size=work.batch,
        shuffle=True,
        seed=0,
        drop_last=True,
        transform=chain,
        **settings,
    )


def torch_loader(work: Work) -> Any:
    """torchvision's usual transform, on Pillow images."""
    import torchvision

    v1 = torchvision.transforms
    chain = v1.Compose(
        [
            v1.RandomResizedCrop(work.size),
            v1.RandomHorizontalFlip(),
            v1.ToTensor(),
            v1.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
        ]
    )
    return torch.utils.data.DataLoader(
        torchvision.datasets.ImageFolder(work.folder, chain),
        batch_size=work.batch,
        shuffle=True,
        drop_last=True,
        num_workers=work.workers,
        pin_memory=work.device == "cuda",
        persistent_workers=True,
    )


def on_device(batches: Any, device: str) -> Iterator[Any]:
    """Batches of torch's DataLoader, as its users bring them to the GPU."""
    for images, labels in batches:
        yield (
            images.to(
                device,
                torch.bfloat16,
                non_blocking=True,
                memory_format=torch.channels_last,
            ),
            labels.to(device, non_blocking=True),
        )


def epochs_of(kind: str, loader: Any, work: Work, count: int) -> Iterator[Iterator[Any]]:
    same = one_batch(work) if kind == "none" else None
    for _ in range(count):
        if kind == "none":
            yield repeat(same, work.steps)
        elif kind == "torch":
            yield on_device(loader, work.device)
        else:
            yield iter(loader)


def files_of(folder: str) -> list[str]:
    return [
        os.path.join(path, name) for path, _, names in os.walk(folder) for name in sorted(names)
    ]


def forget_files(files: list[str]) -> None:
    """Leave nothing of them in the page cache; what is not written to disk yet may stay."""
    for file in files:
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def read_rate(files: list[str], threads: int) -> float:
    """Bytes per second that so many threads read whole files with."""
    memory = [bytearray(1 << 20) for _ in range(threads)]

    def read(number: int) -> int:
        total = 0
        for file in files[number::threads]:
            descriptor = os.open(file, os.O_RDONLY)
            while (count := os.readv(descriptor, [memory[number]])) > 0:
                total += count
            os.close(descriptor)
        return total

    begin = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        total = sum(pool.map(read, range(threads)))
    return total / (time.perf_counter() - begin)


def lower_decoders(nice: int) -> int:
    """Let threads that decode give way to the loop's; how many there are."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            if (task / "comm").read_text().startswith("foreload-hand"):
                os.setpriority(os.PRIO_PROCESS, int(task.name), nice)
                found += 1
    return found
