# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes that talk over UCX, and everything that can go wrong with them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from jobs import FILES, Job, job_of, make_data, total, wait_until

EPOCHS = 6
# Slow enough to be met in the middle of an epoch, and nothing is there long before it is needed.
STEADY = ("--epochs", str(EPOCHS), "--step-ms", "40", "--staging", "64KiB")


pytestmark = pytest.mark.usefixtures("with_ucx")


def in_second_epoch(job: Job, rank: int) -> None:
    wait_until(lambda: len(job.epochs(rank)) >= 1)


def source_bytes(job: Job, ranks: list[int], since: int = 0) -> int:
    return sum(epoch["from"]["source"] for rank in ranks for epoch in job.epochs(rank)[since:])


@pytest.mark.parametrize("victim", [2, 0])
def test_a_killed_rank_costs_what_it_held(
    program: str, data: Path, tmp_path: Path, victim: int
) -> None:
    survivors = [rank for rank in range(3) if rank != victim]
    with job_of(tmp_path, 3) as job:
        for rank in range(3):
            job.read(rank, program, data, *STEADY, "--memory", f"{total(data)}B")
        in_second_epoch(job, victim)
        done = max(len(job.epochs(rank)) for rank in survivors)
        job.ranks[victim].process.kill()
        for rank in survivors:
            assert job.ranks[rank].end() == 0, job.ranks[rank].errors
            job.expect_all(rank, data, EPOCHS)
        # The dead rank held a third of the samples; survivors read two thirds of each epoch.
        read = source_bytes(job, survivors, done + 1)
        assert read <= (EPOCHS - done - 1) * 0.45 * total(data)
        if victim != 0:  # who dies as rank 0 prints nothing; the others' records are whole
            report = json.loads(job.ranks[0].output)
            assert report["ranks"][victim] is None
            assert len(report["ranks"][1]["epochs"]) == EPOCHS


def test_a_stopped_rank_that_goes_on_late(program: str, data: Path, tmp_path: Path) -> None:
    with job_of(tmp_path, 3) as job:
        for rank in range(3):
            options = (*STEADY, "--memory", f"{total(data)}B", "--peer-timeout", "2")
            job.read(rank, program, data, *options)
        in_second_epoch(job, 2)
        job.ranks[2].process.send_signal(signal.SIGSTOP)
        for rank in range(2):
            wait_until(lambda rank=rank: len(job.epochs(rank)) == EPOCHS)
        # Declared dead long ago, it goes on and gets its samples, from the source if need be.
        job.ranks[2].process.send_signal(signal.SIGCONT)
        for rank in range(3):
            assert job.ranks[rank].end() == 0, job.ranks[rank].errors
        for rank in range(2):
            job.expect_all(rank, data, EPOCHS)
        job.expect_digests(2, data, EPOCHS)  # its own stop is one of its waits


@contextmanager
def namespaces(count: int) -> Iterator[list[tuple[str, str]]]:
    """Network namespaces on one bridge, each with its own link: name and address."""
    bridge = f"flt{os.getpid() % 100000}"
    made = [(f"{bridge}n{i}", f"10.231.77.{i + 1}") for i in range(count)]

    def ip(*arguments: str, check: bool = True) -> None:
        subprocess.run(["ip", *arguments], check=check, capture_output=True, timeout=30)

    try:
        ip("netns", "add", bridge)
        ip("-n", bridge, "link", "add", "br0", "type", "bridge")
        ip("-n", bridge, "link", "set", "br0", "up")
        for i, (name, address) in enumerate(made):
            ip("netns", "add", name)
            ip(
                "-n",
                bridge,
                "link",
                "add",
                f"p{i}",
                "type",
                "veth",
                "peer",
                "name",
                "e0",
                "netns",
                name,
            )
            ip("-n", bridge, "link", "set", f"p{i}", "master", "br0", "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", "e0")
            ip("-n", name, "link", "set", "e0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in (bridge, *(name for name, _ in made)):
            ip("netns", "del", name, check=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for network namespaces")
def test_a_link_that_goes_down(program: str, data: Path, tmp_path: Path) -> None:
    with namespaces(3) as places, job_of(tmp_path, 3, places[0][1]) as job:
        for rank, (name, _) in enumerate(places):
            prefix = ("ip", "netns", "exec", name)
            options = (*STEADY, "--memory", f"{total(data) // 2}B", "--peer-timeout", "3")
            job.read(rank, program, data, *options, prefix=prefix)
        in_second_epoch(job, 2)
        subprocess.run(["ip", "-n", places[2][0], "link", "set", "e0", "down"], check=True)
        # The one that was cut off goes on by itself: the source is there for everybody.
        for rank in (2, 0, 1):
            assert job.ranks[rank].end() == 0, job.ranks[rank].errors
            job.expect_all(rank, data, EPOCHS)
        assert json.loads(job.ranks[0].output)["ranks"][2] is None


def test_a_rank_that_never_joins_is_named(program: str, data: Path, tmp_path: Path) -> None:
    with job_of(tmp_path, 4) as job:
        for rank in (0, 2):
            job.read(rank, program, data, "--join-timeout", "1.5")
        for rank in job.ranks.values():
            assert rank.end() != 0
            assert "1 and 3 are missing" in rank.errors
            assert rank.errors.count("\n") == 1


def test_rank_zero_that_never_comes(program: str, data: Path, tmp_path: Path) -> None:
    with job_of(tmp_path, 2) as job:
        rank = job.read(1, program, data, "--join-timeout", "0.5")
        assert rank.end() != 0
        assert f"127.0.0.1:{job.port}" in rank.errors


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--epochs", "3"), "rank {} computed another plan than rank {}"),
        (("--transport", "none"), "{} is missing"),
    ],
)
def test_a_rank_that_differs_is_named(
    program: str, data: Path, tmp_path: Path, options: tuple[str, ...], complaint: str
) -> None:
    with job_of(tmp_path, 2) as job:
        job.read(0, program, data, "--join-timeout", "3")
        job.read(1, program, data, *options, "--join-timeout", "3")
        assert job.ranks[0].end() != 0
        assert complaint.format(1, 0) in job.ranks[0].errors
        if options[0] == "--epochs":
            assert job.ranks[1].end() != 0
            assert complaint.format(0, 1) in job.ranks[1].errors


def test_another_data_set_is_named(program: str, data: Path, tmp_path: Path) -> None:
    other = make_data(tmp_path / "other", FILES - 1)
    with job_of(tmp_path, 2) as job:
        job.read(0, program, data)
        job.read(1, program, other)
        for rank in job.ranks.values():
            assert rank.end() != 0
            assert f"rank {1 - rank.number} sees another data set" in rank.errors


def test_another_version_is_named(program: str, data: Path, tmp_path: Path) -> None:
    """Rank 1 is this test: it leaves what a rank of another version would leave."""
    place = tmp_path / "meet"
    facts = json.dumps({"foreload": "99.1", "wire": 7, "something": "new"}) + "\n"
    (place / "first").mkdir(parents=True)
    (place / "first" / "0%2Efacts%2F1").write_text(f"{len(facts)}:{facts}", "utf-8")
    more = {"FORELOAD_RENDEZVOUS": str(place), "FORELOAD_JOB": "first"}
    with job_of(tmp_path, 2) as job:
        rank = job.read(0, program, data, more=more)
        assert rank.end() != 0
        assert "rank 1 runs foreload 99.1 (messages of version 7)" in rank.errors
