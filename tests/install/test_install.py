# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` gives, used as a stranger would: CMake package, library, program.

Installs build/dev into a temporary prefix; `make build` makes it.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import foreload

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/dev"


def run(*command) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.fail(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory) -> Path:
    if not (BUILD / "build.ninja").exists():
        pytest.fail(f"{BUILD} is not there; run `make build` first")
    path = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", path)
    return path


@pytest.fixture(scope="module")
def consumer(prefix, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("consumer")
    source = Path(__file__).parent / "consumer"
    run("cmake", "-S", source, "-B", path, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", path)
    return path / "consumer"


def test_consumer_calls_the_library(consumer):
    version, size = run(consumer, "2GiB").split()
    assert version == foreload.__version__
    assert int(size) == 2 * 1024**3


def test_consumer_sees_errors_as_values(consumer):
    done = subprocess.run([consumer, "2 parsecs"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "parsecs" in done.stderr


def test_cpp_example_delivers_what_the_program_delivers(prefix, tmp_path):
    for number in range(40):
        path = tmp_path / "data" / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes([number]) * (1000 + 37 * number))
    build = tmp_path / "build"
    run(
        "cmake",
        "-S",
        ROOT / "examples/cpp",
        "-B",
        build,
        "-G",
        "Ninja",
        f"-DCMAKE_PREFIX_PATH={prefix}",
    )
    run("cmake", "--build", build)
    example = run(build / "read", tmp_path / "data", "2", "1MiB").split()
    report = json.loads(
        run(prefix / "bin/foreload", "read", tmp_path / "data", "--epochs", "2", "--json")
    )
    assert [word for word in example if len(word) == 16] == [
        epoch["digest"] for epoch in report["epochs"]
    ]


def test_programs_agree_on_the_version(prefix):
    installed_by_cmake = run(prefix / "bin/foreload", "--version").split()[-1]
    installed_by_pip = run(Path(sys.executable).parent / "foreload", "--version").split()[-1]
    assert installed_by_cmake == installed_by_pip == foreload.__version__


def test_only_what_belongs_there_is_installed(prefix):
    """No source file, and no header of the libraries foreload is built with."""
    assert list(prefix.rglob("*.cc")) == []
    assert {path.name for path in (prefix / "include").iterdir()} == {"foreload"}
