# SPDX-License-Identifier: Apache-2.0
"""foreload launch: several ranks of this machine as one cache, reported as one job."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import FILES, SEED, expected_digest, job_of, total

pytestmark = pytest.mark.usefixtures("with_ucx")


def launch(program: str, data: Path, ranks: int, *more: str) -> str:
    read = [program, "read", str(data), "--seed", str(SEED), "--batch-size", "4", *more]
    done = subprocess.run(
        [program, "launch", "-n", str(ranks), "--", *read],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ranks_read_the_source_once(program: str, data: Path) -> None:
    memory = f"{2 * total(data)}B"
    report = json.loads(
        launch(program, data, 3, "--epochs", "3", "--memory", memory, "--json")
    )  # one object, of all
    for rank in range(3):
        digests = [epoch["digest"] for epoch in report["ranks"][rank]["epochs"]]
        assert digests == [expected_digest(data, 3, rank, epoch) for epoch in range(3)]
    # Each sample once, and at most a few that were hedged.
    assert total(data) <= report["source_bytes"] <= 1.02 * total(data)
    later = [epoch["from"] for epoch in report["epochs"][1:]]
    assert sum(places["peer"] for places in later) > 0
    assert [epoch["samples"] for epoch in report["epochs"]] == 3 * [FILES]
    for key in ("source_bytes", "source_samples", "hedged_bytes"):
        assert report[key] == sum(one[key] for one in report["ranks"])
    assert report["transport"].startswith("ucx (lo")
    # --memory is the node's: its ranks share it.
    assert [one["tiers"][0]["bytes"] for one in report["ranks"]] == 3 * [2 * total(data) // 3]


def test_one_table_for_all_ranks(program: str, data: Path, tmp_path: Path) -> None:
    disk = f"{tmp_path / 'cache'}:{4 * total(data) + (64 << 20)}B"
    first, *lines = launch(program, data, 2, "--epochs", "2", "--disk", disk).splitlines()
    assert first.startswith(f"{data}: {FILES} samples")
    assert lines[0].split()[:3] == ["epoch", "rank", "seconds"]
    assert [line.split()[:2] for line in lines[1:5]] == [
        ["0", "0"],
        ["0", "1"],
        ["1", "0"],
        ["1", "1"],
    ]
    assert lines[3].endswith(expected_digest(data, 2, 0, 1))
    for epoch, line in enumerate(lines[5:7]):
        assert re.match(rf"epoch {epoch}: rank [01], the slowest, (waited|did not wait)", line)
    assert "peers over ucx (lo, UCX 1." in lines[7]
    assert "(auto: this job was not started by mpirun)" in lines[7]
    assert len(lines) == 8
    # Each rank has half of the budget in the folder of the node.
    used = sum(file.stat().st_size for file in (tmp_path / "cache").rglob("*") if file.is_file())
    assert total(data) <= used <= 4 * total(data) + (64 << 20)


def test_ranks_in_step_wait_for_the_slowest(program: str, data: Path) -> None:
    read = (
        f"exec {program} read {data} --batch-size 4 --json --in-step --step-ms $((1 + 19 * RANK))"
    )
    done = subprocess.run(
        [program, "launch", "-n", "2", "--", "sh", "-c", read],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    fast = json.loads(done.stdout)["ranks"][0]["epochs"][0]
    assert fast["samples"] == FILES // 2
    # It had computed for 15 ms, and waited for the other's steps but the last.
    assert fast["seconds"] > 0.9 * 0.02 * (FILES // 2 // 4 - 1)


def test_tasks_of_a_slurm_step(program: str, data: Path, tmp_path: Path) -> None:
    """There is no SLURM here, but its variables: ranks meet on the first node of the step."""
    command = [program, "read", str(data), "--seed", str(SEED), "--batch-size", "4", "--json"]
    options = ["--memory", f"{4 * total(data)}B", "--disk", f"{tmp_path / 'cache'}:64MiB"]
    with job_of(tmp_path, 2) as job:
        for rank in range(2):
            step = {
                "SLURM_PROCID": str(rank),
                "SLURM_LOCALID": str(rank),
                "SLURM_NODEID": "0",
                "SLURM_JOB_ID": str(os.getpid()),
                "SLURM_STEP_ID": "0",
                "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_STEP_TASKS_PER_NODE": "2",
                "SLURM_STEP_NODELIST": "localhost",
                "XDG_RUNTIME_DIR": str(tmp_path),
            }
            unset = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "FORELOAD_RENDEZVOUS")
            unset += ("FORELOAD_SECRET",)
            job.start(rank, [*command, *options], step | dict.fromkeys(unset, ""))
        for rank in job.ranks.values():
            assert rank.end() == 0, rank.errors
        report = json.loads(job.ranks[0].output)
    assert [epoch["samples"] for epoch in report["epochs"]] == [FILES]
    # Budgets are the node's.
    for one in report["ranks"]:
        assert [tier["bytes"] for tier in one["tiers"]] == [2 * total(data), 32 << 20]


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


def test_memory_of_a_rank_is_its_own(program: str, data: Path) -> None:
    """The peak that getrusage() knows of a new program begins with that of the one it came from."""
    large = 400 << 20
    with mmap.mmap(-1, large) as memory:
        memory[:: mmap.PAGESIZE] = bytes(large // mmap.PAGESIZE)
        report = json.loads(launch(program, data, 2, "--memory", "1MiB", "--json"))
        alone = subprocess.run(
            [program, "read", str(data), "--json"], capture_output=True, timeout=60, check=True
        )
    peaks = [rank["peak_rss_bytes"] for rank in (*report["ranks"], json.loads(alone.stdout))]
    assert all(1 << 20 < peak < large for peak in peaks)


def hear_signals() -> None:
    """What a shell runs in the background ignores Ctrl-C, and what nohup runs the end of a line."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture
def endless(program: str, data: Path) -> Iterator[subprocess.Popen[str]]:
    """Two ranks that read for minutes, and have begun."""
    read = [program, "read", str(data), "--epochs", "9", "--source-bandwidth", "1kB"]
    # In a group of its own, as the job of a terminal.
    with subprocess.Popen(
        [program, "launch", "-n", "2", "--", *read],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=hear_signals,
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline()
        yield job
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)


def members(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(stat.parent.name)
    return found


@pytest.mark.parametrize("to_all", [True, False], ids=["typed", "sent"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_ranks(
    endless: subprocess.Popen[str], number: signal.Signals, to_all: bool
) -> None:
    """Ranks were deaf to Ctrl-C, and outlived a launcher that was told to end."""
    (os.killpg if to_all else os.kill)(endless.pid, number)
    assert endless.wait(30) != 0
    assert not members(endless.pid)
