# SPDX-License-Identifier: Apache-2.0
"""Several ranks as processes of this machine that talk over UCX: what they read and lose."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
import xxhash

import foreload

FILES = 120


def in_one_of_two(index: int) -> str:
    return f"{'ab'[index % 2]}/{index:04}.jpg"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for index in range(FILES):
        file = root / in_one_of_two(index)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes([index]) * (1000 + 97 * index))
    return root


def total(data: Path) -> int:
    return sum(file.stat().st_size for file in data.rglob("*.jpg"))


def expected_digest(data: Path, ranks: int, rank: int, epoch: int) -> str:
    """XXH3 over (index, bytes) of what a rank must get, from files and torch's order alone."""
    files = sorted(data.rglob("*.jpg"))
    digest = xxhash.xxh3_64()
    for index in foreload.order(FILES, ranks=ranks, rank=rank, epoch=epoch, seed=3):
        digest.update(int(index).to_bytes(8, "little"))
        digest.update(files[index].read_bytes())
    return digest.hexdigest()


def command(program: str, data: Path, ranks: int, *more: str) -> list[str]:
    read = [program, "read", str(data), "--seed", "3", "--batch-size", "4", "--json", *more]
    return [program, "launch", "-n", str(ranks), "--", *read]


@pytest.fixture(autouse=True)
def with_ucx(program: str, data: Path) -> None:
    """Skips where foreload was built without UCX."""
    result = subprocess.run(
        command(program, data, 2), capture_output=True, text=True, timeout=120, check=False
    )
    if "transport is not installed" in result.stderr:
        pytest.skip("foreload was built without UCX")


def test_ranks_read_the_source_once(program: str, data: Path) -> None:
    result = subprocess.run(
        command(program, data, 3, "--epochs", "3", "--memory", f"{2 * total(data)}B"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    for rank in range(3):
        digests = [epoch["digest"] for epoch in report["ranks"][rank]["epochs"]]
        assert digests == [expected_digest(data, 3, rank, epoch) for epoch in range(3)]
    # Each sample once, and at most a few that were hedged.
    assert total(data) <= report["source_bytes"] <= 1.02 * total(data)
    later = [epoch["from"] for epoch in report["epochs"][1:]]
    assert sum(sources["peer"] + sources["same_host"] for sources in later) > 0
    assert sum(epoch["samples"] for epoch in report["epochs"]) == 3 * FILES


def children_of(process: int) -> list[int]:
    listed = Path(f"/proc/{process}/task/{process}/children").read_text("utf-8")
    return [int(child) for child in listed.split()]


def rank_of(process: int) -> str:
    environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    return next(e.split(b"=")[1].decode() for e in environment if e.startswith(b"RANK="))


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGSTOP, marks=pytest.mark.soak)]
)
def test_survivors_of_a_dead_rank_get_their_samples(
    program: str, data: Path, tmp_path: Path, how: signal.Signals
) -> None:
    epochs = 8
    launch = subprocess.Popen(
        command(
            program,
            data,
            3,
            *("--epochs", str(epochs), "--memory", f"{2 * total(data)}B", "--step-ms", "60"),
            *("--staging", "64KiB"),  # so that ranks do not have everything before they need it
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 30
        while len(children_of(launch.pid)) < 3 and time.monotonic() < deadline:
            time.sleep(0.02)
        victim = next(child for child in children_of(launch.pid) if rank_of(child) == "2")
        time.sleep(1.5)  # somewhere in the first epochs; any moment will do
        os.kill(victim, how)
        if how == signal.SIGSTOP:
            time.sleep(20)  # longer than the time-out of peers
            os.kill(victim, signal.SIGKILL)
        output, errors = launch.communicate(timeout=120)
    finally:
        if launch.poll() is None:
            os.killpg(launch.pid, signal.SIGKILL)
            launch.communicate()
    report = json.loads(output)
    for rank in range(2):
        of_rank = report["ranks"][rank]
        digests = [epoch["digest"] for epoch in of_rank["epochs"]]
        assert digests == [expected_digest(data, 3, rank, epoch) for epoch in range(epochs)], errors
        assert max(epoch["batch_wait_ms"]["max"] for epoch in of_rank["epochs"]) < 12_000
    assert report["ranks"][2] is None


def test_a_command_that_is_not_there(program: str) -> None:
    result = subprocess.run(
        [program, "launch", "-n", "2", "--", "/no/such/program"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "/no/such/program" in result.stderr
