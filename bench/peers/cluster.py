# SPDX-License-Identifier: Apache-2.0
"""Jobs of `foreload read` with several ranks, and what they must deliver."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xxhash
from data import DataSet
from network import Network

import foreload

Json = dict[str, Any]
BATCH = 8


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@dataclass
class Result:
    report: Json  # of rank 0
    epochs: list[list[Json]]  # by rank, from its own record: complete also for those that died
    seconds: float


class Cluster:
    """Starts ranks with `foreload read`, in the namespaces of a network or else on loopback."""

    def __init__(self, program: Path, timeout: float = 300) -> None:
        self.program = program
        self.timeout = timeout

    def read(
        self,
        dataset: Path,
        ranks: int,
        options: list[str],
        network: Network | None = None,
        meanwhile: Callable[[list[subprocess.Popen[str]], Callable[[int], int]], None]
        | None = None,
    ) -> Result:
        """`meanwhile` gets the processes, and a function that tells how many epochs a rank has
        ended. Raises RuntimeError if a rank fails that `meanwhile` did not kill."""
        with tempfile.TemporaryDirectory(prefix="foreload-run-") as folder:
            run_file = Path(folder) / "run"
            begin = time.monotonic()
            running = [
                self._start(dataset, ranks, rank, [*options, "--run-file", str(run_file)], network)
                for rank in self._with_environments(ranks, network)
            ]
            killed = set()
            try:
                if meanwhile:
                    meanwhile(running, lambda rank: len(_epochs(run_file, rank)))
                    killed = {i for i, process in enumerate(running) if process.poll() is not None}
                outputs = [process.communicate(timeout=self.timeout) for process in running]
            finally:
                for process in running:
                    if process.poll() is None:
                        with contextlib.suppress(ProcessLookupError):
                            os.killpg(process.pid, signal.SIGKILL)
                        process.communicate()
            for rank, process in enumerate(running):
                if process.returncode != 0 and rank not in killed:
                    raise RuntimeError(f"rank {rank} failed: {outputs[rank][1].strip()}")
            epochs = [_epochs(run_file, rank) for rank in range(ranks)]
            return Result(json.loads(outputs[0][0]), epochs, time.monotonic() - begin)

    def _with_environments(self, ranks: int, network: Network | None) -> list[Json]:
        host = network.addresses[0] if network else "127.0.0.1"
        common = {
            **os.environ,
            "WORLD_SIZE": str(ranks),
            "FORELOAD_RENDEZVOUS": f"{host}:{free_port()}",
            "FORELOAD_SECRET": secrets.token_hex(32),
        }
        # In namespaces every rank is a node; on loopback all share this one, but have budgets of
        # their own nevertheless.
        return [
            {
                "number": rank,
                "environment": common
                | {"RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
                | {"FORELOAD_INTERFACE": "e0" if network else "lo"}
                | ({"FORELOAD_HOST": f"node{rank}"} if network else {}),
            }
            for rank in range(ranks)
        ]

    def _start(
        self, dataset: Path, ranks: int, rank: Json, options: list[str], network: Network | None
    ) -> subprocess.Popen[str]:
        command = [str(self.program), "read", str(dataset), "--batch-size", str(BATCH), "--json"]
        prefix = network.prefix(rank["number"]) if network else []
        return subprocess.Popen(
            [*prefix, *command, *options],
            env=rank["environment"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def independent(self, dataset: Path, ranks: int, epochs: int, memory: int) -> int:
        """Source bytes of the published placement, as the plan computes them."""
        command = [str(self.program), "plan", "--dataset", str(dataset), "--ranks", str(ranks)]
        command += ["--epochs", str(epochs), "--memory", f"{memory}B", "--batch-size", str(BATCH)]
        done = subprocess.run(
            [*command, "--placement", "independent", "--json"],
            capture_output=True,
            text=True,
            timeout=self.timeout,
            check=True,
        )
        return int(json.loads(done.stdout)["source_bytes"])


def _epochs(run_file: Path, rank: int) -> list[Json]:
    file = run_file.with_name(f"{run_file.name}.{rank}")
    if not file.exists():
        return []
    lines = map(json.loads, file.read_text("utf-8").splitlines())
    return [line for line in lines if line.get("kind") == "epoch"]


def right_digests(result: Result, data: DataSet, ranks: int, seed: int = 0) -> bool:
    """Whether every rank that was not lost got exactly its samples, in order."""
    contents = [data.recipe.contents(sample) for sample in range(data.files)]
    for rank, epochs in enumerate(result.epochs):
        for epoch in epochs:
            digest = xxhash.xxh3_64()
            order = foreload.order(
                data.files, ranks=ranks, rank=rank, epoch=epoch["epoch"], seed=seed
            )
            for index in order:
                digest.update(int(index).to_bytes(8, "little"))
                digest.update(contents[index])
            if digest.hexdigest() != epoch["digest"]:
                return False
    return True
