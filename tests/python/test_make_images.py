# SPDX-License-Identifier: Apache-2.0
"""`foreload make-images`: what it says, and what it leaves behind when it cannot."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_pillow_reads_what_was_made(run: Run, tmp_path: Path) -> None:
    options = ["--count", 12, "--classes", 3, "--mean-size", "6KiB", "--pixels", "160x120"]
    done = run("make-images", tmp_path / "set", *options, "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    files = sorted((tmp_path / "set").glob("class*/*.jpg"))
    assert len(files) == report["files"] == 12
    assert sum(file.stat().st_size for file in files) == report["bytes"]
    for file in files:
        with Image.open(file) as image:
            image.load()
            assert (image.format, image.mode) == ("JPEG", "RGB")


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--count", "0"], "--count is '0'"),
        (["--count", "many"], "--count is 'many'"),
        (["--count", 5, "--classes", 6], "cannot fill 6 classes"),
        (["--mean-size", "100"], "--mean-size"),
        (["--mean-size", "1GiB"], "on average cannot be made"),
        (["--pixels", "500"], "--pixels is '500'"),
        (["--count", 10**14], "it has room for"),
    ],
)
def test_refuses_numbers(run: Run, tmp_path: Path, options: list[object], complaint: str) -> None:
    done = run("make-images", tmp_path / "set", *options)
    assert done.returncode == 2
    assert done.stdout == ""
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "set").exists()


def test_a_failed_write_leaves_nothing(program: str, tmp_path: Path) -> None:
    def allow_small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048))

    done = subprocess.run(
        [program, "make-images", tmp_path / "set", "--count", "20", "--mean-size", "8KiB"],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=allow_small_files_only,
        restore_signals=False,  # so that the write fails instead of ending the process
    )
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert not (tmp_path / "set").exists()
