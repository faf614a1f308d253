#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every program and library in a wheel, those included that auditwheel does not look at.

    check.py WHEEL GLIBC

Each needs libraries of the C library alone, no newer symbol of it than GLIBC has, shows no symbols
but its entry points, and there are the program and all transports besides the extension module.
"""

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

OF_THE_C_LIBRARY = {
    "ld-linux-x86-64.so.2",
    "libc.so.6",
    "libdl.so.2",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
}
PARTS = (
    r"\.data/scripts/foreload$",
    r"foreload/_core\..*\.so$",
    r"/lib/foreload/libforeload_ucx\.so$",
    r"/lib/foreload/libforeload_mpi_openmpi\.so$",
    r"/lib/foreload/libforeload_mpi_mpich\.so$",
)
ENTRY_POINTS = re.compile(r"PyInit_|foreload_transport_")


def output(*command: str | Path) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def faults(file: Path, glibc: str) -> list[str]:
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", file)))
    found = [f"needs {library}" for library in sorted(needed - OF_THE_C_LIBRARY)]
    symbols = output("objdump", "-T", file)
    versions = set(re.findall(r"\bGLIBC_([0-9.]+)", symbols))
    newest = max(versions, key=version)
    if version(newest) > version(glibc):
        found.append(f"needs glibc {newest}")
    if file.suffix == ".so":
        shown = output("nm", "-D", "--defined-only", file).split()[2::3]
        found += [f"shows {name}" for name in shown if not ENTRY_POINTS.match(name)]
    return found


def main(wheel: str, glibc: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        files = [
            file
            for file in Path(folder).rglob("*")
            if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"
        ]
        names = [str(file.relative_to(folder)) for file in files]
        bad = [
            f"{name}: {fault}"
            for file, name in zip(files, names, strict=True)
            for fault in faults(file, glibc)
        ]
        bad += [
            f"no file {part}" for part in PARTS if not any(re.search(part, name) for name in names)
        ]
    if bad:
        sys.exit("[wheel] " + Path(wheel).name + "\n  " + "\n  ".join(bad))
    print(f"[wheel] {Path(wheel).name}: glibc {glibc} is enough for " + ", ".join(sorted(names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
