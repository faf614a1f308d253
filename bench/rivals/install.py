# SPDX-License-Identifier: Apache-2.0
"""Environments of the rivals, one each, below build/rivals.

    python bench/rivals/install.py [NAME ...] [--folder build/rivals]

An environment that is there and has what is wanted is left alone. One that cannot be made is
reported, with the reason, and noted in NAME.failed for the tables; the others go on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "rivals"


@dataclass(frozen=True)
class Environment:
    packages: tuple[str, ...]
    probe: str  # Python that must run, and prints versions
    system: tuple[str, ...] = ()  # Debian packages
    first: tuple[str, ...] = ()  # packages that others need to be built, installed before
    unbuilt: tuple[str, ...] = ()  # installed last, without build isolation and dependencies


ENVIRONMENTS = {
    "torch": Environment(
        ("torch==2.13.0", "torchdata", "numpy", "pillow"),
        "import torch, PIL; print('torch', torch.__version__, 'Pillow', PIL.__version__)",
    ),
    "dali": Environment(
        ("nvidia-dali-cuda120", "numpy"),
        "import nvidia.dali as d; print('DALI', d.__version__)",
    ),
    "tensorflow": Environment(
        ("tensorflow-cpu", "numpy"),
        "import tensorflow as tf; print('TensorFlow', tf.__version__)",
    ),
    "spdl": Environment(
        ("spdl", "numpy"),
        "import spdl.io, importlib.metadata as m; print('SPDL', m.version('spdl'))",
        ("libavdevice59", "libavfilter8"),
    ),
    "ffcv": Environment(
        ("torch==2.13.0", "numba", "opencv-python-headless", "pillow", "tqdm", "terminaltables",
         "psutil", "pytorch_pfn_extras", "fastargs", "imgcat", "pandas", "assertpy"),
        "import ffcv.loader, importlib.metadata as m; print('FFCV', m.version('ffcv'))",
        ("libopencv-dev", "libturbojpeg0-dev", "pkg-config", "g++", "python3-dev"),
        ("setuptools<81", "wheel", "numpy"),
        ("ffcv",),
    ),
}  # fmt: skip


def python_of(name: str, folder: Path = FOLDER) -> Path:
    return folder / name / "bin" / "python"


def stamp_of(name: str, folder: Path) -> Path:
    return folder / name / "installed.json"


def failure_of(name: str, folder: Path = FOLDER) -> str | None:
    """Why there is no such environment; None if there is one."""
    if stamp_of(name, folder).exists():
        return None
    note = folder / f"{name}.failed"
    return note.read_text("utf-8").strip() if note.exists() else "not installed"


def versions_of(name: str, folder: Path = FOLDER) -> str:
    return str(json.loads(stamp_of(name, folder).read_text("utf-8"))["versions"])


def call(command: list[str], log: Path) -> None:
    with log.open("a", encoding="utf-8") as out:
        out.write(f"\n$ {' '.join(command)}\n")
        out.flush()
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
        raise RuntimeError(f"{' '.join(command[:6])} ...: {lines[-1].strip()[:200]}")


def install_system(packages: tuple[str, ...], log: Path) -> None:
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *packages]
    known = subprocess.run(query, capture_output=True, text=True, check=False).stdout.splitlines()
    missing = [package for package in packages if f"{package} installed" not in known]
    if missing:
        apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
        if os.geteuid() != 0:
            apt = ["sudo", "-n", *apt]
        call([*apt, "update"], log)
        call([*apt, "install", "-y", "--no-install-recommends", *missing], log)


def install(name: str, folder: Path) -> None:
    """Makes an environment. Raises RuntimeError where that fails."""
    environment = ENVIRONMENTS[name]
    wanted = json.loads(json.dumps([environment.packages, environment.first, environment.unbuilt]))
    stamp = stamp_of(name, folder)
    if stamp.exists() and json.loads(stamp.read_text("utf-8"))["wanted"] == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"{name}.log"
    log.unlink(missing_ok=True)
    print(f"[rivals] installing {name} (log: {log})", flush=True)
    shutil.rmtree(folder / name, ignore_errors=True)
    if environment.system:
        install_system(environment.system, log)
    call([sys.executable, "-m", "venv", str(folder / name)], log)
    pip = [str(python_of(name, folder)), "-m", "pip", "install", "-q"]
    pip += ["--disable-pip-version-check", "--no-input"]
    if environment.first:
        call([*pip, *environment.first], log)
    call([*pip, *environment.packages], log)
    if environment.unbuilt:
        call([*pip, "--no-build-isolation", "--no-deps", *environment.unbuilt], log)
    done = subprocess.run(
        [str(python_of(name, folder)), "-c", environment.probe],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError(f"does not start: {lines[-1][:200]}")
    versions = done.stdout.strip().splitlines()[-1]
    stamp.write_text(json.dumps({"wanted": wanted, "versions": versions}) + "\n", "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Install the rivals' environments.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(ENVIRONMENTS))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - ENVIRONMENTS.keys()):
        parser.error(f"no such rivals: {', '.join(unknown)}")
    for name in options.names or ENVIRONMENTS:
        note = options.folder / f"{name}.failed"
        try:
            install(name, options.folder)
            note.unlink(missing_ok=True)
        except (RuntimeError, OSError) as error:
            note.write_text(f"{error}\n", "utf-8")
            print(f"[rivals] {name} cannot be installed: {error}", file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
