# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes of one host: memory that is read in place, also while its owner is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

FILES = 96
EPOCHS = 6


@pytest.fixture
def data(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    for index in range(FILES):
        file = root / "ab"[index % 2] / f"{index:04}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes([index]) * (3000 + 97 * index))
    return root


def total(data: Path) -> int:
    return sum(file.stat().st_size for file in data.rglob("*.jpg"))


def talk(program: str, data: Path) -> subprocess.CompletedProcess[str]:
    """Two ranks that count as on hosts of their own."""
    read = f"exec {program} read {data} --epochs 3 --batch-size 4 --memory {total(data)}B --json"
    return subprocess.run(
        [program, "launch", "-n", "2", "--", "sh", "-c", f"export FORELOAD_HOST=$RANK; {read}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(autouse=True)
def with_ucx(program: str, data: Path) -> None:
    """Fails where UCX is missing: ranks of one host would share without it, and test less."""
    result = talk(program, data)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["transport"].startswith("ucx")


@contextmanager
def launch(
    program: str, data: Path, folder: Path, ranks: int, host: str, *more: str
) -> Iterator[subprocess.Popen[str]]:
    """Ranks that write down every epoch they finish in files of their own; none is left behind."""
    read = f"exec {program} read {data} --epochs {EPOCHS} --batch-size 4 --step-ms 25 --json"
    few_ahead = "--staging 64KiB"  # so that ranks do not have everything before they need it
    script = (
        f"export FORELOAD_HOST={host}; {read} {few_ahead} {' '.join(more)} --run-file {folder}/run"
    )
    launched = subprocess.Popen(
        [program, "launch", "-n", str(ranks), "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield launched
    finally:
        if launched.poll() is None:
            os.killpg(launched.pid, signal.SIGKILL)
            launched.communicate()


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def epochs_of(folder: Path, rank: int) -> int:
    file = folder / f"run.{rank}"
    return file.read_text("utf-8").count('"batch_wait_ms"') if file.exists() else 0


def process_of(launched: subprocess.Popen[str], rank: int) -> int:
    children = Path(f"/proc/{launched.pid}/task/{launched.pid}/children").read_text("utf-8")
    for child in children.split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(children)


def test_memory_of_a_stopped_rank_is_read(program: str, data: Path, tmp_path: Path) -> None:
    memory = f"{int(1.1 * total(data))}B"
    with launch(program, data, tmp_path, 2, "", "--memory", memory) as launched:
        wait_until(lambda: min(epochs_of(tmp_path, rank) for rank in (0, 1)) >= 2, launched)
        stopped = process_of(launched, 1)
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: epochs_of(tmp_path, 0) == EPOCHS, launched)
        state = Path(f"/proc/{stopped}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
        assert state == "T"
        os.kill(stopped, signal.SIGCONT)
        output, errors = launched.communicate(timeout=120)
    report = json.loads(output)
    of_rank = report["ranks"][0]
    assert of_rank["dead_peers"] == [], errors
    assert report["source_bytes"] <= 1.02 * total(data)
    assert sum(epoch["same_host_bytes"] for epoch in of_rank["epochs"][2:]) > 0
    (peer,) = of_rank["peers"]
    assert (peer["rank"], peer["same_host"], peer["lost"]) == (1, True, False)
    assert max(epoch["batch_wait_ms"]["max"] for epoch in of_rank["epochs"][3:]) < 5000


@pytest.mark.parametrize("host", ["", "$RANK"], ids=["one host", "a host each"])
def test_what_a_killed_rank_held_is_read_once_more(
    program: str, data: Path, tmp_path: Path, host: str
) -> None:
    """At 150 % of the data set survivors have room for all of it."""
    memory = f"{int(1.5 * total(data))}B"
    with launch(program, data, tmp_path, 4, host, "--memory", memory) as launched:
        wait_until(lambda: min(epochs_of(tmp_path, rank) for rank in range(4)) >= 1, launched)
        os.kill(process_of(launched, 2), signal.SIGKILL)
        output, errors = launched.communicate(timeout=120)
    report = json.loads(output)
    assert report["ranks"][2] is None, errors
    survivors = [report["ranks"][rank] for rank in (0, 1, 3)]
    assert sum(rank["adopted_samples"] for rank in survivors) > 0
    # Three quarters in the first epoch, then a quarter of the whole once, not in four epochs; and
    # a batch or so of slack for each of them.
    largest = max(file.stat().st_size for file in data.rglob("*.jpg"))
    assert sum(rank["source_bytes"] for rank in survivors) <= 1.05 * total(data) + 3 * 4 * largest
    for rank in survivors:
        assert max(epoch["batch_wait_ms"]["max"] for epoch in rank["epochs"]) < 12_000


def test_a_rank_that_nobody_asks_is_missed_when_it_is_killed(
    program: str, data: Path, tmp_path: Path
) -> None:
    """In file order every rank reads its own samples again: nothing passes between them."""
    memory = f"{int(1.1 * total(data))}B"
    with launch(
        program, data, tmp_path, 2, "", "--memory", memory, "--order", "sequential"
    ) as launched:
        wait_until(lambda: min(epochs_of(tmp_path, rank) for rank in (0, 1)) >= 1, launched)
        os.kill(process_of(launched, 1), signal.SIGKILL)
        # Whoever does not miss it waits a minute and more for its report.
        output, errors = launched.communicate(timeout=50)
    report = json.loads(output)
    assert report["ranks"][1] is None, errors
    assert report["ranks"][0]["dead_peers"] == [1]


def test_another_host_name_makes_them_talk(program: str, data: Path) -> None:
    result = talk(program, data)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert sum(epoch["same_host_bytes"] for epoch in report["epochs"]) == 0
    assert sum(epoch["from"]["peer"] for epoch in report["epochs"]) > 0
