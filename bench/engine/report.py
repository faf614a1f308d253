# SPDX-License-Identifier: Apache-2.0
"""Results of an experiment: a table for people, everything else as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def number(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return "–" if value is None else str(value)


@dataclass
class Report:
    """`rows` are medians over the rounds, the ratio in the first column after the name."""

    experiment: str
    about: str  # one sentence: what was measured, what the ratio means
    columns: list[str]
    rows: list[list[object]] = field(default_factory=list)
    runs: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, *row: object) -> None:
        if len(row) != len(self.columns):
            raise ValueError(f"{len(row)} values for {len(self.columns)} columns")
        self.rows.append(list(row))

    def markdown(self) -> str:
        lines = [f"## {self.experiment}", "", self.about, ""]
        lines += ["| " + " | ".join(self.columns) + " |"]
        lines += ["|---|" + "---:|" * (len(self.columns) - 1)]
        lines += ["| " + " | ".join(map(number, row)) + " |" for row in self.rows]
        lines += ["", *self.notes] if self.notes else []
        return "\n".join(lines) + "\n"

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.experiment}.md").write_text(self.markdown(), "utf-8")
        content = {
            "experiment": self.experiment,
            "about": self.about,
            "machine": machine(),
            "columns": self.columns,
            "rows": self.rows,
            "notes": self.notes,
            "runs": self.runs,
        }
        text = json.dumps(content, indent=1, default=str) + "\n"
        (folder / f"{self.experiment}.json").write_text(text, "utf-8")


def machine() -> dict[str, object]:
    return {
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load": os.getloadavg(),
    }
