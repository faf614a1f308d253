# SPDX-License-Identifier: Apache-2.0
"""Jobs of several ranks for the tests: a small data set, processes, and what each must get."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import xxhash

import foreload

FILES = 120
SEED = 3
# A sample waits for a rank that has gone at most for the peer timeout of 10 s, and little more.
LONGEST_WAIT_MS = 12_000


def make_data(root: Path, files: int = FILES) -> Path:
    for index in range(files):
        file = root / "ab"[index % 2] / f"{index:04}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(index.to_bytes(4, "little") * (250 + 24 * (index % 120)))
    return root


def total(data: Path) -> int:
    return sum(file.stat().st_size for file in data.rglob("*.jpg"))


def expected_digest(data: Path, ranks: int, rank: int, epoch: int) -> str:
    """XXH3 over (index, bytes) of what a rank must get, from files and torch's order alone."""
    files = sorted(data.rglob("*.jpg"))
    digest = xxhash.xxh3_64()
    for index in foreload.order(len(files), ranks=ranks, rank=rank, epoch=epoch, seed=SEED):
        digest.update(int(index).to_bytes(8, "little"))
        digest.update(files[index].read_bytes())
    return digest.hexdigest()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def wait_until(what: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Rank:
    """A process of a job. Its output is collected at the end."""

    def __init__(self, number: int, command: list[str], environment: Mapping[str, str]) -> None:
        self.number = number
        self.process = subprocess.Popen(
            command,
            env=dict(environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.output = ""
        self.errors = ""

    def end(self, seconds: float = 100) -> int:
        self.output, self.errors = self.process.communicate(timeout=seconds)
        return self.process.returncode

    def kill(self) -> None:
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


class Job:
    """Ranks that meet at a port of this machine, or where `address` and `prefix` say.

    With `read`, each rank runs `foreload read` and leaves a record of its epochs in a file, so that
    what a rank got is known whatever becomes of the others.
    """

    def __init__(self, folder: Path, ranks: int, address: str = "127.0.0.1") -> None:
        self.folder = folder
        self.ranks: dict[int, Rank] = {}
        self.count = ranks
        self.address = address
        self.local = ranks if address == "127.0.0.1" else 1
        self.port = free_port()
        self.secret = secrets.token_hex(32)

    def environment(self, rank: int) -> dict[str, str]:
        return {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(self.count),
            "LOCAL_RANK": str(rank if self.local > 1 else 0),
            "LOCAL_WORLD_SIZE": str(self.local),
            "FORELOAD_RENDEZVOUS": f"{self.address}:{self.port}",
            "FORELOAD_SECRET": self.secret,
            "FORELOAD_HOST": f"host{rank}",  # so that they talk over the network
        }

    def start(self, rank: int, command: list[str], more: Mapping[str, str] | None = None) -> Rank:
        self.ranks[rank] = Rank(rank, command, {**self.environment(rank), **(more or {})})
        return self.ranks[rank]

    def read(
        self,
        rank: int,
        program: str,
        data: Path,
        *options: str,
        prefix: tuple[str, ...] = (),
        more: Mapping[str, str] | None = None,
    ) -> Rank:
        run_file = str(self.folder / "run")
        command = [*prefix, program, "read", str(data), "--seed", str(SEED), "--batch-size", "4"]
        return self.start(rank, [*command, "--json", "--run-file", run_file, *options], more)

    def python(self, rank: int, script: Path, *options: str) -> Rank:
        return self.start(rank, [sys.executable, str(script), *options])

    def epochs(self, rank: int) -> list[dict[str, Any]]:
        """What a rank's record says of the epochs it has ended."""
        file = self.folder / f"run.{rank}"
        if not file.exists():
            return []
        lines = map(json.loads, file.read_text("utf-8").splitlines())
        return [line for line in lines if line.get("kind") == "epoch"]

    def expect_digests(self, rank: int, data: Path, epochs: int) -> None:
        expected = [expected_digest(data, self.count, rank, epoch) for epoch in range(epochs)]
        assert [epoch["digest"] for epoch in self.epochs(rank)] == expected, self.ranks[rank].errors

    def expect_all(self, rank: int, data: Path, epochs: int) -> None:
        """It got its samples and never waited longer than a lost rank may cost."""
        self.expect_digests(rank, data, epochs)
        waits = [epoch["batch_wait_ms"]["max"] for epoch in self.epochs(rank)]
        assert max(waits) < LONGEST_WAIT_MS


@contextlib.contextmanager
def job_of(folder: Path, ranks: int, address: str = "127.0.0.1") -> Iterator[Job]:
    job = Job(folder, ranks, address)
    try:
        yield job
    finally:
        for rank in job.ranks.values():
            rank.kill()


def need_transport(program: str, kind: str, folder: Path) -> None:
    """Fails where a transport is missing: every build has all of them."""
    data = make_data(folder / "probe", 2)
    with job_of(folder, 2) as job:
        for rank in range(2):
            job.start(rank, [program, "read", str(data), "--transport", kind])
        for rank in job.ranks.values():
            assert rank.end() == 0, rank.errors
