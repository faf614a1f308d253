# SPDX-License-Identifier: Apache-2.0
"""foreload read under mpirun, Open MPI's and MPICH's: ranks meet and talk over MPI and need nothing
else. The program is linked to neither; whoever started it decides which of them it opens."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from jobs import LONGEST_WAIT_MS, SEED, Rank, expected_digest, total, wait_until

OPEN_MPI = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe")
OPEN_MPI += ("--mca", "btl", "self,vader,tcp")
MPICH = ("mpiexec.mpich",)


def read(program: str, data: Path, *options: str) -> list[str]:
    command = [program, "read", str(data), "--seed", str(SEED), "--batch-size", "4", "--json"]
    return [*command, "--memory", f"{2 * total(data)}B", *options]


@pytest.mark.parametrize(
    ("mpirun", "transport", "name"),
    [
        (OPEN_MPI, "auto", "mpi (Open MPI"),
        (MPICH, "auto", "mpi (MPICH"),
        (OPEN_MPI, "ucx", "ucx"),
        (MPICH, "ucx", "ucx"),
    ],
    ids=["Open MPI", "MPICH", "UCX beside Open MPI", "UCX beside MPICH"],
)
def test_ranks_meet_over_mpi(
    program: str, data: Path, mpirun: tuple[str, ...], transport: str, name: str
) -> None:
    done = subprocess.run(
        [*mpirun, "-n", "4", *read(program, data, "--epochs", "3", "--transport", transport)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)  # one object, from rank 0
    assert report["transport"].startswith(name)
    if transport == "auto":
        assert report["transport_why"] == "auto: mpirun started this job"
    assert total(data) <= report["source_bytes"] <= 1.02 * total(data)
    for rank in range(4):
        digests = [epoch["digest"] for epoch in report["ranks"][rank]["epochs"]]
        assert digests == [expected_digest(data, 4, rank, epoch) for epoch in range(3)]


def process_of(rank: int, below: int) -> int:
    """The process of a rank among the children of mpirun."""
    children = Path(f"/proc/{below}/task/{below}/children").read_text("utf-8").split()
    for child in children:
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment:
            return int(child)
    raise LookupError(rank)


def test_survivors_go_on_with_recovery(program: str, data: Path, tmp_path: Path) -> None:
    run_file = tmp_path / "run"
    steady = ("--epochs", "6", "--step-ms", "40", "--staging", "64KiB", "--peer-timeout", "2")
    # Each a host of its own: who reads another's memory in place owes it nothing and misses nobody.
    own_host = 'export FORELOAD_HOST=$OMPI_COMM_WORLD_RANK; exec "$@"'
    command = ["sh", "-c", own_host, "rank"]
    command += read(program, data, *steady, "--run-file", str(run_file))
    job = Rank(0, [*OPEN_MPI, "--enable-recovery", "-n", "3", *command], os.environ)
    try:
        # In the second epoch of rank 2: its record tells of the first.
        record = Path(f"{run_file}.2")
        wait_until(lambda: record.exists() and '"kind":"epoch"' in record.read_text("utf-8"))
        os.kill(process_of(2, job.process.pid), signal.SIGKILL)
        job.end()
    finally:
        job.kill()
    report = json.loads(job.output)
    assert report["ranks"][2] is None
    for rank in range(2):
        epochs = report["ranks"][rank]["epochs"]
        expected = [expected_digest(data, 3, rank, epoch) for epoch in range(6)]
        assert [epoch["digest"] for epoch in epochs] == expected
        assert max(epoch["batch_wait_ms"]["max"] for epoch in epochs) < LONGEST_WAIT_MS
