# SPDX-License-Identifier: Apache-2.0
"""What tests of the program and of plans share."""

from __future__ import annotations

import subprocess

# A job with too little cache for everything.
JOB: dict[str, object] = {
    "samples": 1_000,
    "mean_size": "10KiB",
    "size_sigma": "2KiB",
    "ranks": 4,
    "epochs": 6,
    "memory": "500KiB",
    "disk": "1000KiB",
}


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """The one line with which the program refused its input."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("foreload")
    assert "Traceback" not in lines[0]
    return lines[0]
