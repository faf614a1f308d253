# SPDX-License-Identifier: Apache-2.0
"""foreload read under mpirun: ranks meet and talk over MPI and need nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from jobs import SEED, expected_digest, make_data, total

MPIRUN = ("mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader,tcp")

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data")


def read(program: str, data: Path, *options: str) -> list[str]:
    command = [program, "read", str(data), "--seed", str(SEED), "--batch-size", "4", "--json"]
    return [*command, "--memory", f"{2 * total(data)}B", *options]


@pytest.mark.parametrize("transport", ["auto", "ucx"])
def test_ranks_meet_over_mpi(program: str, data: Path, transport: str) -> None:
    done = subprocess.run(
        [*MPIRUN, "-n", "4", *read(program, data, "--epochs", "3", "--transport", transport)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if "not installed" in done.stderr:
        pytest.skip(f"foreload was built without a transport: {done.stderr}")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)  # one object, from rank 0
    if transport == "auto":
        assert report["transport"].startswith("mpi (Open MPI")
        assert report["transport_why"] == "auto: mpirun started this job"
    else:
        assert report["transport"].startswith("ucx")
    assert total(data) <= report["source_bytes"] <= 1.02 * total(data)
    for rank in range(4):
        digests = [epoch["digest"] for epoch in report["ranks"][rank]["epochs"]]
        assert digests == [expected_digest(data, 4, rank, epoch) for epoch in range(3)]
