#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of tests/conformance into docs/pytorch.md. Run it with the Python of .venv."""

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


def document(text: str) -> str:
    """The same page with this table."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no place for the table: {BEGIN}")
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    target = conformance.DOCUMENT
    target.write_text(document(target.read_text("utf-8")), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
