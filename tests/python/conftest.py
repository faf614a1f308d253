# SPDX-License-Identifier: Apache-2.0
"""What the tests share: how the program is found and run, and which tests run only when asked."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import real_torchvision  # noqa: F401 - lightning imports torchvision, which may need help
from jobs import make_data, need_transport

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


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 50 small images, JPEG and PNG, of different sizes, in three classes."""
    image = pytest.importorskip("PIL.Image")
    path = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for number in range(50):
        kind = "jpg" if number % 2 else "png"
        target = path / f"class{number % 3}" / f"{number:04}.{kind}"
        target.parent.mkdir(exist_ok=True)
        coarse = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        size = (24 + number % 7, 20 + number % 5)
        image.fromarray(coarse).resize(size, image.Resampling.BILINEAR).save(target)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The small data set of jobs of several ranks."""
    return make_data(tmp_path / "data")


@pytest.fixture(scope="module")
def with_ucx(program: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    need_transport(program, "ucx", tmp_path_factory.mktemp("probe"))
