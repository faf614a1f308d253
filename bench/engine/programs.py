# SPDX-License-Identifier: Apache-2.0
"""Where benchmarks find the programs that they run, unless they are told."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def default_foreload() -> Path:
    """The program beside this Python, else the one that the shell would find."""
    beside = Path(sys.executable).parent / "foreload"
    return beside if beside.exists() else Path(shutil.which("foreload") or "foreload")


def built_program(name: str, *presets: str) -> Path | None:
    """One that the builds leave below bench/, from the first of the presets that has it."""
    for preset in presets or ("release",):
        built = ROOT / "build" / preset / "bench" / name
        if built.exists():
            return built
    return None
