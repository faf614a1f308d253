# SPDX-License-Identifier: Apache-2.0
"""The same images in the same order from torch's DataLoader and from foreload.

Order: DistributedSampler's. Transform: resized by Pillow, normalised. Nothing is random, so a
network should learn the same from both. foreload is given the very function that torch's DataLoader
calls, or the same steps as a chain of its own, which C++ runs.
"""

from __future__ import annotations

import io
import multiprocessing
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from inputs import on_device
from PIL import Image

import foreload
from foreload import transforms


class Bucket:
    """A source's bytes per second, shared by all processes that read from it.

    Reads are served one after another, each at the full rate, and take `latency` seconds longer.
    """

    def __init__(self, rate: float, latency: float) -> None:
        self._rate, self._latency = rate, latency
        self._free = multiprocessing.Value("d", 0.0)  # when the last read so far will end

    def pay(self, bytes: int) -> None:
        """Wait as long as the source would take for so many bytes."""
        with self._free.get_lock():
            end = max(time.monotonic(), self._free.value) + bytes / self._rate
            self._free.value = end
        time.sleep(max(0.0, end + self._latency - time.monotonic()))


def prepared(image: Any, size: int) -> Any:
    """What a network is shown of an image."""
    image = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).float().div_(255)
    mean, std = (torch.tensor(v) for v in (transforms.IMAGENET_MEAN, transforms.IMAGENET_STD))
    return pixels.sub_(mean[:, None, None]).div_(std[:, None, None])


@dataclass
class Pictures:
    """A folder with one sub-folder per class, as a data set for torch's DataLoader."""

    folder: str
    size: int
    bucket: Bucket | None = None
    files: list[tuple[Path, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        classes = sorted(path for path in Path(self.folder).iterdir() if path.is_dir())
        self.files = [
            (file, label) for label, path in enumerate(classes) for file in sorted(path.iterdir())
        ]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        file, label = self.files[index]
        data = file.read_bytes()
        if self.bucket is not None:
            self.bucket.pay(len(data))
        return prepared(Image.open(io.BytesIO(data)), self.size), label


@dataclass
class Course:
    """What a network is taught, by either loader."""

    folder: str
    device: str
    size: int
    batch: int
    epochs: int
    workers: int

    def from_torch(self, bucket: Bucket | None = None) -> Iterator[Iterator[Any]]:
        data: Any = Pictures(self.folder, self.size, bucket)
        order = torch.utils.data.DistributedSampler(data, 1, 0, shuffle=True, seed=0)
        loader: Any = torch.utils.data.DataLoader(
            data,
            batch_size=self.batch,
            sampler=order,
            drop_last=True,
            num_workers=self.workers,
            pin_memory=self.device == "cuda",
            persistent_workers=True,
        )
        for epoch in range(self.epochs):
            order.set_epoch(epoch)
            yield on_device(loader, self.device)

    def _foreload(self, transform: Any) -> foreload.DataLoader:
        return foreload.DataLoader(
            self.folder,
            batch_size=self.batch,
            shuffle=True,
            seed=0,
            drop_last=True,
            transform=transform,
            memory="4GiB" if self.device == "cuda" else "64MiB",
            device="cuda" if self.device == "cuda" else None,
        )

    def from_foreload(self) -> Iterator[Iterator[Any]]:
        chain = transforms.Compose(
            [
                transforms.Resize((self.size, self.size)),
                transforms.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
                transforms.ToDtype("bfloat16", scale=True),
                transforms.ToLayout("channels_last"),
            ]
        )
        with closing(self._foreload(chain)) as loader:
            for _ in range(self.epochs):
                yield iter(loader)

    def from_foreload_shared(self) -> Iterator[Iterator[Any]]:
        """With the function that torch's DataLoader calls."""
        with closing(self._foreload(partial(prepared, size=self.size))) as loader:
            for _ in range(self.epochs):
                yield on_device(loader, self.device)
