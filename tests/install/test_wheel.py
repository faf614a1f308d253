# SPDX-License-Identifier: Apache-2.0
"""The wheel in an environment that has nothing else: no compiler, no headers, numpy alone.

`make wheel-test` builds the wheel for this Python; `make wheel-old-root` does the same in an older
system.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

ROOT = Path(__file__).resolve().parents[2]
TAG = f"cp{sys.version_info.major}{sys.version_info.minor}"
VERSION = re.search(
    r"project\(foreload VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text()
).group(1)


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = list((ROOT / "dist").glob(f"foreload-{VERSION}-{TAG}-{TAG}-*.whl"))
    if len(found) != 1:
        pytest.fail(f"dist has {len(found)} wheels of {VERSION} for {TAG}; run `make wheel-test`")
    return found[0]


def new_environment(wheel: Path, folder: Path) -> Path:
    """An environment with the wheel and the numpy of this one; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    for name in ("numpy", "numpy.libs"):
        if (there := Path(numpy.__file__).parents[1] / name).exists():
            (packages / name).symlink_to(there)
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin/python"]
    subprocess.run(
        [*pip, "install", "-qq", "--no-index", "--no-deps", wheel],
        check=True,
        env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    return folder / "bin/python"


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_environment(wheel, tmp_path_factory.mktemp("wheel") / "env")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("photos") / "train"


def use(python: Path, *arguments: str | Path) -> dict:
    """Runs wheel_user.py with nothing on the path but the environment's own programs."""
    done = subprocess.run(
        [python, "-I", Path(__file__).parent / "wheel_user.py", *arguments],
        capture_output=True,
        text=True,
        env={"PATH": str(python.parent), "HOME": str(python.parents[1])},
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["version"] == VERSION
    assert Path(told["module"]).is_relative_to(python.parents[1])
    return told


def test_is_for_every_system_that_torch_is_for(wheel):
    assert wheel.stem.endswith("manylinux_2_28_x86_64")


def test_needs_the_c_library_alone(wheel):
    subprocess.run(
        [sys.executable, ROOT / "scripts/wheel/check.py", wheel, "2.28"],
        check=True,
        capture_output=True,
    )


def test_carries_the_licenses_of_what_is_inside(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for library in ("libjpeg-turbo", "zlib", "libdeflate", "libwebp", "liburing", "libfmt"):
        assert any(f"/licenses/{library}." in name for name in names), library


def test_reads_a_folder(python, photos):
    assert use(python, "read", photos)["samples"] == 60


# Everything but "host" opens a library of the system, which no wheel carries.
@pytest.mark.parametrize("transport", ["auto", "host", "ucx"])
def test_ranks_share(python, photos, transport):
    told = use(python, "share", photos, transport)
    assert told["shared"] > 0
    if transport != "auto":
        assert told["transport"].startswith(transport)


# On this host alone: it looks for ssh otherwise, which is not on the path here.
OPEN_MPI = ("mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated")


@pytest.mark.parametrize(
    ("mpirun", "name"),
    [
        (OPEN_MPI, "mpi (Open MPI"),
        (("mpiexec.mpich",), "mpi (MPICH"),
    ],
    ids=["Open MPI", "MPICH"],
)
def test_ranks_share_over_mpi(python, photos, mpirun, name):
    launcher = (shutil.which(mpirun[0]), *mpirun[1:], "-n", "2")
    assert use(python, "share", photos, "mpi", *launcher)["transport"].startswith(name)


def test_gives_torch_tensors(wheel, tmp_path):
    torch = pytest.importorskip("torch")
    python = new_environment(wheel, tmp_path / "env")
    packages = next((tmp_path / "env/lib").glob("python*/site-packages"))
    behind = Path(torch.__file__).parents[1]
    (packages / "torch.pth").write_text(f"{behind}\n")
    use(python, "read", tmp_path / "train")
    program = (
        "import foreload, torch\n"
        f"loader = foreload.DataLoader({str(tmp_path / 'train')!r}, batch_size=4,\n"
        "    transform=foreload.transforms.imagenet_train(32))\n"
        "images, labels = next(iter(loader))\n"
        "assert isinstance(images, torch.Tensor), type(images)\n"
    )
    subprocess.run([python, "-c", program], check=True)
