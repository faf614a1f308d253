# SPDX-License-Identifier: Apache-2.0
"""What could go wrong in silence: a ratio upside down, the epoch that starts processes counted."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "bench" / "python_datasets"


@pytest.fixture
def bench(monkeypatch):
    """The program as a module; others are called run too."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("python_datasets_run", FOLDER / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("samples", None)


def test_the_ratio_is_ours_over_theirs(bench, monkeypatch):
    seconds = {"foreload": iter([9.0, 1.0, 1.0, 5.0]), "torch": iter([1.0, 2.0, 2.0, 7.0])}

    def epoch(who):
        return {"seconds": next(seconds[who]), "cpu": 1.0 if who == "foreload" else 3.0}

    monkeypatch.setattr(bench, "epoch", epoch)
    monkeypatch.setattr(bench, "foreloads", lambda dataset, workers: "foreload")
    monkeypatch.setattr(bench, "torchs", lambda dataset, workers: "torch")
    firsts = {"foreload": 0.1, "torch": 0.3}
    monkeypatch.setattr(bench, "first_batch", lambda make, *_: firsts[make(None, 0)])
    report = bench.Report("x", "x", list("abcdefg"))
    bench.measure(report, "light", 2, rounds=3)
    samples = bench.samples.Light.samples
    assert report.rows == [
        ["light, 2 workers", 2.0, samples / 1.0, samples / 2.0, 3.0, 100.0, 300.0]
    ]


def test_a_round_of_the_real_thing(bench, monkeypatch):
    monkeypatch.setattr(bench.samples.Light, "samples", 64)
    report = bench.Report("x", "x", list("abcdefg"))
    bench.measure(report, "light", 1, rounds=1)
    assert all(value > 0 for value in report.rows[0][1:4])
