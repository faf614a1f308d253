# SPDX-License-Identifier: Apache-2.0
"""What the tests share: how the program is found and run, and which tests run only when asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="takes minutes or gigabytes: run -m soak"))


@pytest.fixture(scope="session")
def program() -> str:
    """The foreload program that belongs to this Python."""
    beside = Path(sys.executable).parent / "foreload"
    found = str(beside) if beside.exists() else shutil.which("foreload")
    if found is None:
        pytest.fail("the foreload program is neither beside Python nor on PATH: install foreload")
    return found


@pytest.fixture
def run(program: str) -> Run:
    """Runs the program with the given arguments."""

    def call(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *map(str, arguments)], capture_output=True, text=True, timeout=300, cwd=cwd
        )

    return call
