# SPDX-License-Identifier: Apache-2.0
"""JPEG files decoded by the GPU: all of a batch, or a share that is measured once and then fixed.

A GPU's pixels differ from the CPU's by a few levels, so which sample goes where must not depend on
who happens to be faster: it follows from the sample's position in the epoch and the share, and the
share is part of the loader's state.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

from foreload import _core

ALL = 256  # a share counts samples of so many
JPEG = b"\xff\xd8"  # what such a file begins with
# What the share is measured with: files, images in a batch, seconds for each side.
FILES = 64
BATCH = 128
SECONDS = 0.25


def parse_decoder(decoder: str) -> int | None:
    """The share of the GPU that `decoder=` asks for; None: measure it. 0: none."""
    kind, _, share = decoder.partition(":")
    if kind == "hybrid" and share:
        try:
            number = float(share)
        except ValueError:
            number = -1.0
        if 0 <= number <= 1:
            return round(number * ALL)
    if decoder not in ("cpu", "gpu", "hybrid"):
        raise ValueError(
            f"decoder is {decoder!r}: use 'cpu', 'gpu', 'hybrid', or 'hybrid:0.4' for 40 % by GPU"
        )
    return {"cpu": 0, "gpu": ALL, "hybrid": None}[decoder]


def find_library(name: str, major: str) -> str:
    """The file of one of CUDA's libraries, where torch or the toolkit put it, or its bare name."""
    folders = [Path("/usr/local/cuda/lib64"), *sorted(Path("/usr/local").glob("cuda-*/lib64"))]
    for entry in map(Path, sys.path):
        folders += sorted(entry.glob("nvidia/*/lib"))
        folders += [entry / "torch" / "lib", entry / "torchvision.libs"]
    for pattern in (f"lib{name}.so.{major}", f"lib{name}.so.{major}.*", f"lib{name}*.so*"):
        for folder in folders:
            for file in sorted(folder.glob(pattern)):
                if "builtins" not in file.name:
                    return str(file)
    return f"lib{name}.so.{major}"


def some_files(core: _core.LoaderCore, count: int) -> list[bytes]:
    """JPEG files among so many samples of a data set, which are spread evenly over all of it. The
    engine reads them, so they may be wherever it reads from."""
    numbers = np.unique(np.linspace(0, core.samples - 1, min(count, core.samples), dtype=np.int64))
    batch, bad = core.fetch(numbers, as_bytes=True).take()
    files = [bytes(data) for place, data in enumerate(batch.data) if place not in bad]
    return [file for file in files if file.startswith(JPEG)]


class GpuDecoding:
    """The GPU's side of decoding for one loader. For the loop's thread."""

    def __init__(self, device: Any, form: _core.CompiledTransform) -> None:
        import torch

        major = (torch.version.cuda or "").partition(".")[0]
        self._rule = _core.PackingRule(ALL)
        self.form = _core.with_packing(form, self._rule)
        self._device = device
        self._decoder = _core.open_gpu_decoder(
            device.index, find_library("nvjpeg", major), find_library("nvrtc", major), self._rule
        )
        self.measured: dict[str, float] = {}  # images per second, of "cpu" and "gpu"

    @property
    def share(self) -> int:
        """Of 256 samples, how many the GPU decodes if it can."""
        return self._rule.share

    @share.setter
    def share(self, share: int) -> None:
        self._rule.share = share

    def measure(self, core: _core.LoaderCore, threads: int) -> int:
        """The share with which the CPU's threads and the GPU end at the same time."""
        files = some_files(core, FILES)
        if not files:
            return 0
        self.measured["cpu"] = _core.decode_rate(files, self.form, threads, SECONDS)
        self.measured["gpu"] = self._gpu_rate(files)
        both = self.measured["cpu"] + self.measured["gpu"]
        return round(ALL * self.measured["gpu"] / both)

    def _gpu_rate(self, files: list[bytes]) -> float:
        import torch

        cuda: Any = torch.cuda
        host = torch.empty((BATCH, *self.form.shape), dtype=torch.uint8, pin_memory=True)
        parcels = _core.pack(files, self.form, self._rule, host)
        if parcels < BATCH // 2:
            return 0.0
        stream = cuda.Stream(self._device)
        with cuda.stream(stream):
            batch = torch.empty_like(host, device=self._device)
        jobs: deque[_core.GpuJob] = deque()
        done, begin = -2, time.perf_counter()
        while time.perf_counter() - begin < SECONDS or done < 2:
            jobs.append(self.submit(host, batch, stream))
            if len(jobs) > 2:
                if jobs[0].hand_over(stream.cuda_stream) is not None:
                    return 0.0
                jobs.popleft()  # waits for the GPU
                done += 1
                if done == 0:  # the first ones prepare everything
                    begin = time.perf_counter()
        return done * parcels / (time.perf_counter() - begin)

    def submit(self, host: Any, device: Any, copies: Any) -> _core.GpuJob:
        """Start on a batch whose copy to the device is on the stream `copies`."""
        return self._decoder.submit(host, device, self.form, copies.cuda_stream)

    def unpack(self, host: Any) -> list[tuple[int, str]]:
        """Decode a batch on the CPU after all; what is wrong with which place."""
        return _core.unpack(host, self.form, self._rule)

    def stats(self) -> dict[str, Any]:
        """What the GPU decoded, and with what."""
        decoder = self._decoder
        return {
            "share": self.share / ALL,
            "images": decoder.images,
            "seconds": decoder.seconds,
            "device_bytes": decoder.device_bytes,
            "hardware": decoder.in_hardware,
            "measured": self.measured,
        }


def agree_on(share: int, device: Any) -> int:
    """The share of all ranks, where torch.distributed knows them: the first rank's."""
    import torch

    dist: Any = torch.distributed
    if not (dist.is_available() and dist.is_initialized()):
        return share
    shares = torch.tensor([share], device=device if dist.get_backend() == "nccl" else "cpu")
    dist.broadcast(shares, 0)
    return int(shares.item())
