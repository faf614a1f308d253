# SPDX-License-Identifier: Apache-2.0
"""The processes of a benchmark: `foreload read`, the torch baseline and fio, run and measured.

Every run is a process group of its own, which is ended with its run whatever happens.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BATCH = 64
LAST_SAMPLES = 3

Json = dict[str, Any]


def pss_bytes(process: int) -> int:
    """Proportional memory of a process and all below it; what has ended meanwhile counts 0."""
    total = 0
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text("utf-8")
        total = sum(
            int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:")
        )
        for task in Path(f"/proc/{process}/task").iterdir():
            children = (task / "children").read_text("utf-8").split()
            total += sum(pss_bytes(int(child)) for child in children)
    except OSError:
        pass
    return total


@dataclass
class MemoryWatch:
    """Samples the memory of a process and its group from a thread until it is told to stop."""

    process: int
    group: MemoryGroup
    every: float  # seconds
    peak: int = 0
    _group_uses: deque[int] = field(default_factory=lambda: deque(maxlen=LAST_SAMPLES))
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            group_use = self.group.use()
            pss = pss_bytes(self.process)
            self.peak = max(self.peak, pss)
            if pss and group_use is not None:  # the process was there all the while
                self._group_uses.append(group_use)
            if self._stop.wait(self.every):
                return

    @property
    def group_end(self) -> float | None:
        """What the group had at the end: the median of the last samples, for page cache comes and
        goes with the reads in flight."""
        return statistics.median(self._group_uses) if self._group_uses else None

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class MemoryGroup:
    """A control group for one run, where the system lets us make one: it counts everything that
    the run is charged for, page cache included."""

    ROOTS = (
        (Path("/sys/fs/cgroup/memory"), "memory.max_usage_in_bytes", "memory.usage_in_bytes"),
        (Path("/sys/fs/cgroup"), "memory.peak", "memory.current"),
    )

    def __init__(self) -> None:
        self._folder: Path | None = None
        for root, peak, use in self.ROOTS:
            folder = root / f"foreload-bench-{os.getpid()}-{time.monotonic_ns()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            if (folder / peak).exists():
                self._folder, self._peak, self._use = folder, folder / peak, folder / use
                return
            folder.rmdir()

    def enter(self) -> None:
        """Called by the process that is to be counted, before it becomes the program."""
        if self._folder:
            (self._folder / "cgroup.procs").write_text(str(os.getpid()), "utf-8")

    def use(self) -> int | None:
        """Bytes at the moment; None if there is no group."""
        return int(self._use.read_text("utf-8")) if self._folder else None

    def close(self) -> int | None:
        """The peak in bytes; None if there was no group."""
        if not self._folder:
            return None
        peak = int(self._peak.read_text("utf-8"))
        for _ in range(100):  # it may be busy for a moment after its last process
            try:
                self._folder.rmdir()
                break
            except OSError:
                time.sleep(0.02)
        return peak


def run(command: list[str], timeout: float, watch_every: float = 0) -> tuple[str, Json]:
    """Output, and seconds and memory of the run. Raises RuntimeError if it fails or is too slow."""
    group = MemoryGroup() if watch_every else None
    begin = time.monotonic()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=group.enter if group else None,
    )
    watch = MemoryWatch(process.pid, group, watch_every) if group else None
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{' '.join(command)} took more than {timeout} s") from None
    finally:
        if watch:
            watch.stop()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    group_peak = group.close() if group else None
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: status {process.returncode}: {errors.strip()}")
    measured: Json = {"process_seconds": time.monotonic() - begin}
    if watch:
        measured["pss_peak_bytes"] = watch.peak
        measured["group_peak_bytes"] = group_peak
        measured["group_end_bytes"] = watch.group_end
    return output, measured


@dataclass(frozen=True)
class Foreload:
    """The program. All its options are named here and nowhere else."""

    program: Path
    timeout: float = 600

    def can_read(self) -> bool:
        try:
            run([str(self.program), "read", "--help"], 20)
        except (RuntimeError, OSError):
            return False
        return True

    def read(
        self,
        dataset: Path,
        *,
        epochs: int = 1,
        memory: int = 0,
        disk: tuple[Path, int] | None = None,
        step_ms: float = 0,
        seed: int = 0,
        index_cache: Path | None = None,
        digest: bool = True,
        watch_every: float = 0,
        more: Sequence[str] = (),
        wrap: Callable[[list[str]], list[str]] = list,
    ) -> Json:
        """`wrap` makes the command that runs the command."""
        command = [str(self.program), "read", str(dataset), "--json"]
        command += ["--epochs", str(epochs), "--batch-size", str(BATCH), "--seed", str(seed)]
        command += ["--memory", f"{memory}B", "--step-ms", str(step_ms)]
        if disk:
            command += ["--disk", f"{disk[0]}:{disk[1]}B"]
        if index_cache:
            command += ["--index", str(index_cache)]
        if not digest:
            command += ["--no-digest"]
        output, measured = run(wrap([*command, *more]), self.timeout, watch_every)
        return json.loads(output) | measured


@dataclass(frozen=True)
class Torch:
    python: Path = Path(sys.executable)
    timeout: float = 600

    def read(
        self,
        dataset: Path,
        *,
        workers: int,
        epochs: int = 1,
        step_ms: float = 0,
        seed: int = 0,
        watch_every: float = 0,
    ) -> Json:
        command = [str(self.python), str(HERE / "torch_baseline.py"), str(dataset)]
        command += ["--epochs", str(epochs), "--batch-size", str(BATCH), "--seed", str(seed)]
        command += ["--workers", str(workers), "--step-ms", str(step_ms)]
        output, measured = run(command, self.timeout, watch_every)
        *epoch_lines, summary = map(json.loads, output.splitlines())
        return {"epochs": epoch_lines} | summary | measured


def fio_random_read(file: Path, size: int, request: int, depth: int, seconds: float) -> Json:
    """Random reads of `request` bytes around the page cache; makes the file where it is missing."""
    command = ["fio", "--name=read", f"--filename={file}", f"--size={size}", "--rw=randread"]
    command += [f"--bs={request}", "--direct=1", f"--iodepth={depth}", "--output-format=json"]
    command += ["--ioengine=io_uring", "--time_based", f"--runtime={seconds}", "--randrepeat=1"]
    output, measured = run(command, seconds + 300)
    read = json.loads(output)["jobs"][0]["read"]
    return {"bytes_per_second": read["bw_bytes"], "reads_per_second": read["iops"]} | measured
