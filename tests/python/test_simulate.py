# SPDX-License-Identifier: Apache-2.0
"""The verbs simulate and advise: what they print, draw and refuse."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from program_answers import refused

from foreload.reports.simulation_pictures import POLICY_COLOURS, draw_simulation

Run = Callable[..., "subprocess.CompletedProcess[str]"]

SCENARIOS = Path(__file__).resolve().parents[2] / "bench/scenarios"
POLICIES = [
    "lower_bound",
    "naive",
    "staging_pool",
    "deepio_ordered",
    "deepio_opportunistic",
    "parallel_staging",
    "lbann_dynamic",
    "lbann_preloading",
    "locality_aware",
    "nopfs",
    "foreload",
]


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """A job of a tenth of a second."""
    job = json.loads((SCENARIOS / "thesis_1.json").read_text())
    job["dataset"]["samples"] = 1_000
    job["training"]["epochs"] = 2
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    return file


def results(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["results"]
    return found


def test_json_has_every_policy(run: Run, scenario: Path) -> None:
    found = results(run("simulate", scenario, "--json"))
    assert [result["policy"] for result in found] == POLICIES
    bound = found[0]["seconds"]
    for result in found:
        assert {"seconds", "stall_fraction", "source_bytes", "source_bytes_lower_bound"} <= set(
            result
        )
        if not result["supported"]:
            assert result["reason"]
            continue
        assert result["seconds"] > 0.9 * bound
        assert 0 <= result["stall_fraction"] <= 1
        assert set(result["hits"]) == {"memory", "disk", "peer", "source"}


def test_scenario_1_is_simulated_in_a_second(run: Run) -> None:
    found = results(run("simulate", SCENARIOS / "thesis_1.json", "--json"))
    assert found[0]["seconds"] == pytest.approx(7.30, rel=0.01)


def test_policies_sets_and_sweeps(run: Run, scenario: Path) -> None:
    found = results(
        run(
            "simulate",
            scenario,
            *("--policy", "naive,lower_bound"),
            *("--set", "training.epochs=1"),
            *("--sweep", "cluster.tiers.memory.capacity=1MB,1GB"),
            "--json",
        )
    )
    assert [(r["policy"], r["set"]["cluster.tiers.memory.capacity"]) for r in found] == [
        ("naive", "1MB"),
        ("lower_bound", "1MB"),
        ("naive", "1GB"),
        ("lower_bound", "1GB"),
    ]
    assert all(len(result["epoch_seconds"]) == 1 for result in found)


def test_foreload_runs_alone(run: Run, scenario: Path) -> None:
    ours, theirs = results(
        run(
            "simulate",
            scenario,
            *("--policy", "foreload,nopfs", "--set", "cluster.ranks=1", "--json"),
        )
    )
    assert ours["supported"]
    assert ours["seconds"] <= 1.001 * theirs["seconds"]
    assert ours["source_bytes"] <= theirs["source_bytes"]


def test_table_for_people(run: Run, scenario: Path) -> None:
    lines = run("simulate", scenario).stdout.splitlines()
    assert lines[0] == "thesis, scenario 1"
    assert [line.split()[0] for line in lines[2:]] == POLICIES


def test_same_again(run: Run, scenario: Path) -> None:
    assert run("simulate", scenario, "--json").stdout == run("simulate", scenario, "--json").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--policy", "nopf"], "--policy is 'nopf': use lower_bound, naive"),
        (["--set", "cluster.rank=3"], "cluster.rank: unknown key; did you mean ranks?"),
        (["--set", "cluster.ranks"], "--set is 'cluster.ranks': write it like"),
        (["--sweep", "training.epochs=1,x"], 'training.epochs: is "x": give a whole number'),
        (["--set", "training.compute=fast"], "give a rate like"),
        (["--set", "training.batch_size=100000"], "less than one batch"),
    ],
)
def test_bad_input_is_one_line(run: Run, scenario: Path, arguments: list[str], words: str) -> None:
    assert words in refused(run("simulate", scenario, *arguments))


def test_missing_scenario_is_named(run: Run, tmp_path: Path) -> None:
    assert "none.json" in refused(run("simulate", tmp_path / "none.json"))
    (tmp_path / "bad.json").write_text("{")
    assert "bad.json" in refused(run("simulate", tmp_path / "bad.json"))


@pytest.mark.parametrize("extra", [[], ["--sweep", "cluster.ranks=1,2,4"]])
def test_plot(run: Run, scenario: Path, tmp_path: Path, extra: list[str]) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "times.png"
    done = run("simulate", scenario, "--policy", "naive,nopfs", *extra, "--plot", picture)
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_plot_reads_what_json_printed(run: Run, scenario: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "run.json").write_text(run("simulate", scenario, "--json").stdout)
    done = run("plot", tmp_path / "run.json", "-o", tmp_path / "run.svg")
    assert done.returncode == 0, done.stderr
    assert "<svg" in (tmp_path / "run.svg").read_text()
    (tmp_path / "bad.json").write_text('{"scenario": "x", "results": [{}]}')
    assert "not a simulation" in refused(
        run("plot", tmp_path / "bad.json", "-o", tmp_path / "bad.svg")
    )


def test_every_policy_has_a_colour_of_its_own() -> None:
    assert list(POLICY_COLOURS) == POLICIES
    assert len(set(POLICY_COLOURS.values())) == len(POLICIES)


@pytest.mark.parametrize("swept", [False, True])
def test_a_policy_keeps_its_colour_and_legends_lie_beside_the_data(swept: bool) -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.colors import to_hex

    results = [
        {"policy": policy, "supported": True, "seconds": 9.0, "stall_fraction": 0.5}
        | {"stalls": [[4, 0.9], [9, 0.1]], "set": {"ranks": ranks, "size": size} if swept else {}}
        for policy in ("foreload", "naive")
        for ranks in (1, 2)
        for size in (3, 4)
    ]
    figure = draw_simulation("a file", {"scenario": "x", "results": results})
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    for line in lines:
        assert to_hex(line.get_color()) == POLICY_COLOURS[str(line.get_label()).split(",")[0]]
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
    assert lines
    assert legends
    for legend in legends:
        data = legend.axes.get_window_extent()
        assert not data.overlaps(legend.get_window_extent(canvas.get_renderer()))


def test_advise_says_what_limits(run: Run, scenario: Path) -> None:
    done = run("advise", scenario, "--policy", "staging_pool")
    assert done.returncode == 0, done.stderr
    assert "what limits the job is the source" in done.stdout
    advice = json.loads(run("advise", scenario, "--policy", "staging_pool", "--json").stdout)
    assert advice["limit"] == "source"
    assert {trial["part"] for trial in advice["trials"]} >= {"memory", "disk", "network", "source"}
