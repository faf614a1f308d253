# SPDX-License-Identifier: Apache-2.0
"""UCX of the package libucx-cu12 (`pip install foreload[ucx]`), the newest there is, beside the
system's, which all other tests use."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest
from jobs import job_of, total, wait_until

from foreload.cluster.joining import _ucx_package

EPOCHS = 4


@pytest.mark.parametrize("killed", [False, True], ids=["", "one is killed"])
def test_ranks_talk_over_it(program: str, data: Path, tmp_path: Path, killed: bool) -> None:
    version = ".".join(importlib.metadata.version("libucx-cu12").split(".")[:2])
    options = ["--epochs", str(EPOCHS), "--memory", f"{6 * total(data)}B"]
    options += ["--step-ms", "40", "--staging", "64KiB"] if killed else []
    with job_of(tmp_path, 3) as job:
        for rank in range(3):
            more = {"FORELOAD_UCX_LIBRARY": _ucx_package()}
            job.read(rank, program, data, *options, more=more)
        if killed:
            wait_until(lambda: len(job.epochs(2)) > 0)
            job.ranks[2].kill()
        for rank in range(2 if killed else 3):
            assert job.ranks[rank].end() == 0, job.ranks[rank].errors
            job.expect_all(rank, data, EPOCHS)
        report = json.loads(job.ranks[0].output)
    assert report["transport"] == f"ucx (lo, UCX {version})"
