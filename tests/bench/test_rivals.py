# SPDX-License-Identifier: Apache-2.0
"""What could go wrong in silence when loaders are compared: ratios upside down, a rival left out,
easier work taken for the same, a goal that was not measured taken for met."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "engine"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "rivals"))

import contest
import install
from results import (
    BARE,
    FORELOAD,
    TORCH,
    Goals,
    decode_goals,
    decode_report,
    memory_report,
    picture,
    resume_report,
    section,
    slow_report,
    with_section,
)

RIVALS = Path(contest.__file__).parent


def run_of(rate: float, first: float = 0.2, **more: object) -> dict:
    epochs = [
        {"seconds": 9e9, "images": 100, "first_wait": 5.0},  # the first epoch must not count
        {"seconds": 100 / rate, "images": 100, "first_wait": 0.01},
    ]
    result = {"first_batch_seconds": first, "shape": [64, 3, 224, 224], "type": "float32"}
    return result | {"mean": 0.1, "epochs": epochs} | more


def row_of(report, name: str) -> dict:
    (row,) = (row for row in report.rows if row[0] == name)
    return dict(zip(report.columns, row, strict=True))


def test_the_ratio_is_of_medians_and_the_right_way_up():
    runs = {FORELOAD: [run_of(rate) for rate in (1000, 900, 5000)], TORCH: [run_of(250)]}
    report = decode_report(runs, {}, {}, images=100)
    assert row_of(report, TORCH)["foreload is x times"] == pytest.approx(4)
    assert row_of(report, FORELOAD)["images/s"] == 1000
    assert row_of(report, FORELOAD)["slowest and fastest round"] == "900 – 5,000"


def test_a_rival_that_did_not_run_is_in_the_table():
    report = decode_report({FORELOAD: [run_of(10)]}, {"FFCV": "no such library"}, {}, images=100)
    assert row_of(report, "FFCV")["remarks"] == "did not run: no such library"
    assert "no such library" in report.markdown()


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"type": "uint8"}, "not normalised"),
        ({"mean": 117.0}, "not normalised"),
        ({"shape": [64, 224, 224, 3]}, "batches of"),
        ({"epochs": [{"seconds": 1, "images": 99, "first_wait": 0}]}, "gave 99 images of 100"),
    ],
)
def test_other_work_is_remarked(change, remark):
    report = decode_report({"DALI": [run_of(10, **change)]}, {}, {}, images=100)
    assert remark in row_of(report, "DALI")["remarks"]


def test_goals_are_met_missed_or_not_measured():
    goals = Goals()
    decode_goals({FORELOAD: [run_of(1000)], TORCH: [run_of(300)], BARE: [run_of(1100)]}, goals)
    met = {goal.name: goal.met for goal in goals.goals}
    assert met[f"images/s over those of {TORCH}"] is True
    assert met[f"images/s over those of {BARE}"] is False
    assert met["images/s over those of FFCV"] is None
    assert met["first batch after construction, s"] is True
    assert "not measured" in goals.report().markdown()


def test_memory_slow_storage_and_resume():
    goals = Goals()
    peaks = {FORELOAD: [{"pss_peak_bytes": 1 << 20}], TORCH: [{"pss_peak_bytes": 4 << 20}]}
    assert row_of(memory_report(peaks, goals), TORCH)["x foreload's"] == 4
    epochs = [{"seconds": 10.0, "images": 100}, *[{"seconds": 1.0, "images": 100}] * 4]
    slow = {
        FORELOAD: [{"epochs": epochs, "first_batch_seconds": 0.1}],
        "torch": [{"epochs": [epochs[0]] * 5, "first_batch_seconds": 1.0}],
    }
    row = row_of(slow_report(slow, 600, 60.0, 100.0, goals), "torch")
    assert row["x foreload's time"] == pytest.approx(50 / 14)
    resumed = {FORELOAD: [{"resume_seconds": 0.4, "build_seconds": 0.1, "state_bytes": 200}]}
    report = resume_report(resumed, 1000, {"torchdata": "not installed"}, goals)
    assert "torchdata did not run: not installed" in report.notes
    assert [goal.met for goal in goals.goals] == [True] * 5
    assert goals.goals[1].measured == pytest.approx(1.0)  # 600 bytes in 10 s from 60 bytes a second


def test_the_section_takes_the_place_of_the_old_one():
    report = decode_report({FORELOAD: [run_of(10)]}, {}, {}, images=100)
    text = section([report], "2 cores.")
    once = with_section("# Performance\n\n## Planning\n\nfast\n", text)
    assert once == "# Performance\n\n## Planning\n\nfast\n\n" + text
    between = f"# Performance\n\n{text}\n## Planning\n\nfast\n"
    assert with_section(between, text) == between
    assert with_section(between.replace("2 cores", "3 cores"), text) == between


def test_the_picture_is_drawn(tmp_path):
    slow = {FORELOAD: [run_of(10)], "torch DataLoader, 8 workers": [run_of(5)]}
    picture({FORELOAD: [run_of(10)], BARE: [run_of(11)]}, slow, tmp_path / "rivals.svg")
    assert "</svg>" in (tmp_path / "rivals.svg").read_text("utf-8")


def test_crops_lie_inside_and_have_the_wanted_shape():
    uniform = random.Random(1).uniform
    for _ in range(500):
        left, top, width, height = contest.random_crop(61, 40, uniform)
        assert 0 <= left <= 61 - width
        assert 0 <= top <= 40 - height
        assert width * height >= 0.05 * 61 * 40
    left, top, width, height = contest.random_crop(500, 2, uniform)
    assert (width, height) == (3, 2)


def test_the_loop_times_what_it_says(tmp_path):
    script = tmp_path / "contestant.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(RIVALS)!r})\n"
        "import contest, numpy\n"
        "contest.compete(lambda options: lambda epoch: (\n"
        "    numpy.zeros((2, 3, 224, 224), numpy.float32) for _ in range(3)))\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, script, "nowhere"], capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout)
    assert result["shape"] == [2, 3, 224, 224]
    assert result["type"] == "float32"
    assert [epoch["images"] for epoch in result["epochs"]] == [6, 6]
    assert result["first_batch_seconds"] >= result["epochs"][0]["first_wait"]


def test_an_environment_that_cannot_be_made_is_noted(tmp_path, monkeypatch):
    nothing = install.Environment((), "import no_such_module_at_all")
    monkeypatch.setattr(install, "ENVIRONMENTS", {"nothing": nothing})
    monkeypatch.setattr(install, "call", lambda command, log: None)
    (tmp_path / "nothing" / "bin").mkdir(parents=True)

    def keep(folder: Path, ignore_errors: bool) -> None:
        (folder / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(install.shutil, "rmtree", keep)
    monkeypatch.setattr(sys, "argv", ["install.py", "--folder", str(tmp_path)])
    assert install.main() == 0
    assert "no_such_module_at_all" in (install.failure_of("nothing", tmp_path) or "")
