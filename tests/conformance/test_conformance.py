# SPDX-License-Identifier: Apache-2.0
"""foreload.DataLoader beside torch's DataLoader and torchdata's StatefulDataLoader, case by case.

docs/pytorch.md has the table of the cases; conformance.py says what a case is.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import conformance
import pytest

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

import make_conformance_table

CASES = conformance.load_all()
LONGEST = 240  # seconds after which a case hangs


def _parameter(name: str, case: conformance.Case) -> Any:
    marks = [pytest.mark.xfail(reason=case.fault, strict=True)] if case.fault else []
    return pytest.param(case, id=name, marks=marks)


@pytest.fixture
def ends() -> Iterator[None]:
    """A case that hangs fails."""

    def hangs(*_: object) -> None:
        raise AssertionError(f"the case has not ended after {LONGEST} seconds")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(LONGEST)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("ends")
@pytest.mark.parametrize("case", [_parameter(name, case) for name, case in CASES.items()])
def test_case(case: conformance.Case) -> None:
    conformance.run(case)


def test_there_are_cases_of_every_topic() -> None:
    counts = Counter(case.topic for case in CASES.values())
    assert set(counts) == set(conformance.TOPICS)
    assert min(counts.values()) >= 5


def test_the_table_is_up_to_date() -> None:
    text = conformance.DOCUMENT.read_text("utf-8")
    assert make_conformance_table.document(text) == text, "run scripts/make_conformance_table.py"


def run_of(verdict: str, function: Any, **more: Any) -> None:
    conformance.run(conformance.Case("length", "made up", "", verdict, function, **more))


def test_what_differs_fails() -> None:
    with pytest.raises(AssertionError, match="True and torch's False"):
        run_of(conformance.SAME, lambda make: make.mine)


def test_what_is_not_refused_fails() -> None:
    with pytest.raises(AssertionError, match="not refused"):
        run_of(conformance.REFUSED, lambda make: 1, error=ValueError)


def test_a_reason_that_the_document_does_not_have_fails() -> None:
    with pytest.raises(AssertionError, match="does not say"):
        run_of(conformance.DIFFERS, lambda make: None, said="No page says this.")
