# SPDX-License-Identifier: Apache-2.0
"""The GPU that is measured, or with --dry the CPU in its place, so that scripts can be tried."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import Any

import torch

TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds() -> tuple[float, float]:
    """Seconds that all CPUs of the machine have worked, and that its host took away from it."""
    line = Path("/proc/stat").read_text().split("\n", 1)[0]
    user, nice, system, _, _, interrupt, soft, steal = map(int, line.split()[1:9])
    return (user + nice + system + interrupt + soft) / TICKS, steal / TICKS


def seconds_ready() -> float:
    """Seconds that this thread was ready to run, but had no CPU."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class CollectorWatch:
    """How long Python's garbage collector has stopped this thread. One for a process."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begin = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _: dict[str, int]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._begin = now
        else:
            self.seconds += now - self._begin


class Gpu:
    """Moments on the loop's stream, and what torch's allocators had to ask the driver for."""

    device = "cuda"

    def __init__(self) -> None:
        self.name = torch.cuda.get_device_name()

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self, begin: Any, end: Any) -> float:
        return float(begin.elapsed_time(end))

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> int:
        return int(torch.cuda.max_memory_allocated())

    def allocations(self) -> tuple[int, int]:
        """Calls of cudaMalloc and of cudaHostAlloc so far."""
        memory: Any = torch.cuda.memory
        return (
            memory.memory_stats_as_nested_dict().get("num_device_alloc", 0),
            memory.host_memory_stats_as_nested_dict().get("num_host_alloc", 0),
        )

    def copy_bytes_per_second(self) -> float:
        """Of a batch in pinned memory to the GPU."""
        host = torch.empty(256 * 224 * 224 * 3, dtype=torch.uint8, pin_memory=True)
        host.to(self.device, non_blocking=True)
        begin = self.mark()
        for _ in range(8):
            host.to(self.device, non_blocking=True)
        end = self.mark()
        self.synchronize()
        return 8e3 * host.numel() / self.milliseconds(begin, end)


class NoGpu(Gpu):
    """Everything happens at once, on the host's clock. What it measures means nothing."""

    device = "cpu"

    def __init__(self) -> None:
        self.name = "none: a dry run"

    def mark(self) -> Any:
        return time.perf_counter()

    def milliseconds(self, begin: Any, end: Any) -> float:
        return 1e3 * (end - begin)

    def synchronize(self) -> None:
        pass

    def reset_peak(self) -> None:
        pass

    def peak_bytes(self) -> int:
        return 0

    def allocations(self) -> tuple[int, int]:
        return 0, 0

    def copy_bytes_per_second(self) -> float:
        return 0.0
