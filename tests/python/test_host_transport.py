# SPDX-License-Identifier: Apache-2.0
"""Ranks of one host without UCX and without MPI: they still are one cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jobs import job_of, total, wait_until

EPOCHS = 4


@pytest.fixture
def no_ucx(tmp_path: Path) -> dict[str, str]:
    """A folder that has no UCX is the only one looked into."""
    (tmp_path / "empty").mkdir()
    return {"FORELOAD_UCX_LIBRARY": str(tmp_path / "empty")}


def options(data: Path, *more: str) -> tuple[str, ...]:
    return ("--epochs", str(EPOCHS), "--memory", f"{6 * total(data)}B", *more)


@pytest.mark.parametrize("hosts", [1, 3], ids=["in place", "over sockets"])
def test_ranks_read_the_source_once(
    program: str, data: Path, tmp_path: Path, no_ucx: dict[str, str], hosts: int
) -> None:
    """Memory is read in place where ranks count as on one host, and sent otherwise."""
    with job_of(tmp_path, 3) as job:
        for rank in range(3):
            more = no_ucx | {"FORELOAD_HOST": f"host{rank % hosts}"}
            job.read(rank, program, data, *options(data), more=more)
        for one in job.ranks.values():
            assert (one.end(), one.errors) == (0, "")
        report = json.loads(job.ranks[0].output)
        for rank in range(3):
            job.expect_digests(rank, data, EPOCHS)
    assert report["transport"] == "host (Unix sockets)"
    expected = "auto: no UCX library was found, and all ranks are on one host"
    assert report["transport_why"] == expected
    assert total(data) <= report["source_bytes"] <= 1.02 * total(data)
    assert sum(epoch["from"]["peer"] for epoch in report["epochs"]) > 0
    in_place = sum(epoch["same_host_bytes"] for epoch in report["epochs"])
    assert (in_place > 0) == (hosts == 1)


def test_survivors_of_a_killed_rank_go_on(
    program: str, data: Path, tmp_path: Path, no_ucx: dict[str, str]
) -> None:
    steady = options(data, "--step-ms", "40", "--staging", "64KiB")
    with job_of(tmp_path, 3) as job:
        for rank in range(3):
            job.read(rank, program, data, *steady, more=no_ucx)
        wait_until(lambda: len(job.epochs(2)) > 0)
        job.ranks[2].kill()
        for rank in range(2):
            assert job.ranks[rank].end() == 0, job.ranks[rank].errors
            job.expect_all(rank, data, EPOCHS)
        report = json.loads(job.ranks[0].output)
    assert report["ranks"][2] is None
    assert [report["ranks"][rank]["dead_peers"] for rank in range(2)] == [[2], [2]]
