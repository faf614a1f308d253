#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of tests/conformance into docs/pytorch.md; with --check only says whether it is
up to date. Run it with the Python of .venv."""

from __future__ import annotations

import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "conformance"))

import conformance  # noqa: E402

BEGIN = (
    "<!-- begin of the table of tests/conformance, made by scripts/make_conformance_table.py -->"
)
END = "<!-- end of the table of tests/conformance -->"


def table() -> str:
    """A sentence with the counts, and a row for each case, or for cases that differ in a value."""
    cases = conformance.load_all().values()
    counts = Counter(case.verdict for case in cases)
    lines = [
        f"{len(cases)} cases: {counts[conformance.SAME]} are the same, "
        f"{counts[conformance.REFUSED]} are refused, {counts[conformance.DIFFERS]} differ.",
        "",
        "| topic | case | verdict | remark |",
        "|---|---|---|---|",
    ]
    for (topic, name), together in groupby(cases, lambda case: (case.topic, case.name)):
        first, *more = together
        labels = "; ".join(case.label for case in (first, *more))
        verdict = "not yet" if first.fault else first.verdict
        beside = "" if first.beside == "torch" else f"As {first.beside}"
        remark = ". ".join(part.rstrip(".") for part in (beside, first.remark, first.fault) if part)
        cells = [topic, f"{name}{labels and ': '}{labels}", verdict, remark]
        lines.append(" ".join(("|", " | ".join(cells).rstrip(), "|")))
    return "\n".join(lines)


def main() -> int:
    target = conformance.DOCUMENT
    text = target.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    if not rest or END not in rest:
        print(f"docs/{target.name} has no place for the table: {BEGIN}")
        return 1
    new = f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
    if sys.argv[1:] == ["--check"]:
        if text == new:
            return 0
        print(f"docs/{target.name} is out of date: run scripts/make_conformance_table.py")
        return 1
    target.write_text(new, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
