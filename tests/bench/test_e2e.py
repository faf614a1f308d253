# SPDX-License-Identifier: Apache-2.0
"""What could go wrong in silence when a training loop is measured: time blamed on the wrong part, a
goal that was not measured taken for met, a slow source that is not slow, a script that fails on the
one machine with a GPU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench" / "e2e"))

import loss_curves
import plot
import slow_source
import torch
import train_resnet50
from inputs import Work, foreload_loader, lower_decoders, opened_with, read_rate
from loss_curves import verdict_of
from pictures import Bucket
from slow_source import accuracy_of, compare
from steps import Counters, Epoch, Log, Step, figures_of, parts_of
from summary import goals_of

ROOT = Path(__file__).resolve().parents[2]


def step_of(asked=0.0, got=0.0, issued=0.0, begin=0.0, end=0.0, **counters) -> Step:
    return Step(asked, got, issued, begin, end, Counters(**counters))


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        # The loop is ahead: all of it is computing, however long it waited for the GPU.
        (step_of(1.0, 9.9, 9.95, 10.0, 11.0), {"compute": 1.0}),
        # The batch came when the GPU had nothing to do for two seconds.
        (step_of(9.0, 12.0, 12.1, 12.0, 13.0), {"decode": 2.0, "compute": 1.0}),
        # The loop itself was late, then waited.
        (step_of(11.0, 11.5, 11.6, 11.5, 12.5), {"loop": 1.0, "decode": 0.5, "compute": 1.0}),
        # The batch was there in time, but not on the GPU.
        (step_of(8.0, 9.0, 9.1, 10.5, 11.5), {"copy": 0.5, "compute": 1.0}),
    ],
)
def test_time_is_blamed_on_who_took_it(step, expected):
    found = parts_of(step, 10.0, decoding=True)
    assert {name: value for name, value in found.items() if value > 1e-9} == pytest.approx(expected)
    assert sum(found.values()) == pytest.approx(step.end - 10.0)


def test_waiting_without_busy_threads_is_for_the_source():
    found = parts_of(step_of(9.0, 12.0, 12.1, 12.0, 13.0), 10.0, decoding=False)
    assert found["source"] == 2.0
    assert found["decode"] == 0.0


def log_of(stalls: dict[int, float], slow: dict[int, tuple[float, float]]) -> Log:
    """Two epochs of 20 steps of a second. Before step i of the second the GPU waits for input as
    long as `stalls` says; in step i it computes as much longer as `slow` says first, and the loop
    has issued it so long before its end as that says second."""
    at, epochs = 0.0, []
    for epoch in range(2):
        steps = []
        for i in range(20):
            wait = stalls.get(i, 0.0) if epoch == 1 else 0.0
            more, before = slow.get(i, (0.0, 1.5)) if epoch == 1 else (0.0, 1.5)
            end = at + wait + 1 + more
            steps.append(
                step_of(at - 1 if wait == 0 else at, at + wait, end - before, at + wait, end)
            )
            at = end
        epochs.append(Epoch(steps, 8.0, 0.0, at))
    return Log(epochs, threads=15)


def test_long_steps_are_found_and_explained():
    figures = figures_of(log_of({5: 0.5}, {9: (0.3, 1.5), 12: (0.4, 0.001)}), batch=10)
    assert [(long["step"], long["cause"]) for long in figures["long_steps"]] == [
        (5, "source"),
        (9, "gpu"),
        (12, "loop"),
    ]
    assert figures["step_ms"]["longest_of_median"] == pytest.approx(1.5)
    assert figures["epochs"][0]["images_per_second"] == pytest.approx(10)
    assert figures["images_per_second"] == pytest.approx(200 / 21.2)
    assert figures["step_ms"]["from_epoch_to_epoch"] == pytest.approx(1000)


def test_who_reads_nothing_from_the_source_waits_for_decoding():
    log = log_of({5: 0.5}, {})
    log.epochs[1].from_source = 0
    assert [long["cause"] for long in figures_of(log, batch=10)["long_steps"]] == ["decode"]


def test_the_first_epoch_is_not_steady():
    figures = figures_of(log_of({}, {}), batch=10)
    assert figures["long_steps"] == []
    assert figures["step_ms"]["longest_of_median"] == pytest.approx(1)


def results_of(**rates: float) -> list[dict]:
    step = {"median": 36.0, "longest_of_median": 1.3, "p99": 37.0, "from_epoch_to_epoch": 36.0}
    return [
        {
            "input": kind,
            "images_per_second": rate,
            "cpus": 8.0,
            "step_ms": step,
            "first_batch_seconds": 0.2,
            "peak_device_bytes": 10,
        }
        for kind, rate in rates.items()
    ]


def test_goals_are_met_missed_or_not_measured():
    train = {
        "cpus": 16,
        "parts": {
            "eager": results_of(none=1000.0, cpu=980.0),
            "compiled": results_of(none=1000.0, cpu=900.0, gpu=960.0),
        },
    }
    goals = {what.strip(): met for what, met, _ in goals_of(train)}
    assert goals["eager, CPU decodes: 97% of no input"] is True
    assert goals["with at most 65% of the cores"] is True
    assert goals["compiled, best path: 97% of no input"] is False
    assert goals["3.6 x the DataLoader"] is None
    assert goals["eager, cpu: longest step 1.2 x the median"] is False
    assert goals["eager, cpu: no pause between epochs (1.2 x a step)"] is True
    assert goals["compiled, hybrid: longest step 1.2 x the median"] is None
    assert goals["compiled: first epoch at the source's limit (97%)"] is None


def test_losses_beyond_the_noise_are_seen():
    first, second = [1.0, 2.0], [1.1, 2.1]
    assert verdict_of(first, second, [1.05, 2.05])["within_noise"]
    assert verdict_of(first, first, first)["within_noise"]
    assert not verdict_of(first, second, [1.4, 2.4])["within_noise"]
    assert not verdict_of(first, first, [1.0, 2.001])["within_noise"]


def test_accuracy_is_compared_where_both_have_come():
    runs = {
        "torch": {"steps": [(10.0 * i, 10 * i, 100) for i in range(1, 9)], "epochs": [40.0, 80.0]},
        "foreload": {"steps": [(i, 9 * i, 100) for i in range(1, 9)], "epochs": [4.0, 8.0]},
    }
    found = compare(runs, bytes=200, rate=10.0)
    assert found["window"] == 2
    assert accuracy_of(runs["torch"], 2)[0] == (20.0, 0.15)
    assert found["accuracy"] == pytest.approx(0.675)
    assert found["seconds"] == {"torch": 80.0, "foreload": 8}
    assert found["first_epoch_of_rate"] == {"torch": 0.5, "foreload": 5.0}


def test_a_bucket_is_shared():
    bucket = Bucket(1e6, 0.0)
    begin = time.monotonic()
    threads = [threading.Thread(target=bucket.pay, args=(25_000,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begin >= 0.1


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("e2e") / "photos"
    program = Path(sys.executable).parent / "foreload"
    subprocess.run(
        [program, "make-images", folder, "--count", "32", "--classes", "2", "--mean-size", "8KB",
         "--pixels", "96x72"],
        check=True,
        capture_output=True,
    )  # fmt: skip
    return folder


def test_a_known_source_is_as_slow_as_it_says(photos):
    size = sum(file.stat().st_size for file in photos.rglob("*.jpg"))
    work = Work(str(photos), "cpu", 8, 32, 2, 4, memory="1MiB")
    with opened_with(source_bandwidth=4 * size, source_latency_ms=0.0):
        loader = foreload_loader(work)
    begin = time.monotonic()
    assert len(list(loader)) == 4
    assert time.monotonic() - begin >= 0.2  # of the 0.25 s that the last batch takes
    assert "shaped" in loader.stats()["source"]
    assert lower_decoders(1) >= loader.num_workers
    loader.close()
    assert "shaped" not in foreload_loader(work).stats()["source"]


def test_plain_reads_read_everything(photos):
    files = [str(file) for file in photos.rglob("*.jpg")]
    assert read_rate(files, 3) > 0


SMALL = ["--dry", "--batch", "8", "--size", "32", "--epochs", "2", "--workers", "2"]


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_everything_is_measured_where_there_is_no_gpu(photos, tmp_path, one_thread):
    train = tmp_path / "train.json"
    settings = ["--inputs", "none", "cpu", "--steps", "4", "--memory", "1MiB", "--source", "4e6"]
    for parts in (["eager", "tiny", "compiled"], ["steps", "first"]):  # a second call adds to it
        more = ["--touch", "4096", "--classes", "2", "--out", str(train), "--parts", *parts]
        train_resnet50.main([str(photos), *SMALL, *settings, *more])
    found = json.loads(train.read_text())
    assert set(found["parts"]) == {"eager", "tiny", "compiled", "steps", "first"}
    assert [r["input"] for r in found["parts"]["eager"]] == ["none", "cpu"]
    assert {r["name"] for r in found["parts"]["first"]} >= {
        "reading",
        "eager, cold: bound",
        "compiled, known source: bound",
    }
    figures = found["parts"]["compiled"][1]
    assert len(figures["epochs"]) == 2
    for epoch in figures["epochs"]:
        assert sum(epoch["stalls"].values()) == pytest.approx(epoch["seconds"], rel=0.01)
    assert json.dumps(figures)  # as the file has it
    slow = tmp_path / "slow.json"
    bucket = ["--source", "bucket", "--rate", "2e6", "--classes", "2", "--out", str(slow)]
    slow_source.main([str(photos), *SMALL, *bucket])
    learnt = json.loads(slow.read_text())
    assert [len(learnt["runs"][name]["steps"]) for name in ("torch", "foreload")] == [8, 8]
    assert all(share <= 1.1 for share in learnt["comparison"]["first_epoch_of_rate"].values())
    rights = [[step[1] for step in learnt["runs"][name]["steps"]] for name in ("torch", "foreload")]
    assert rights[0] == rights[1]  # they learn the same
    losses = tmp_path / "losses.json"
    loss_curves.main([str(photos), *SMALL, "--classes", "2", "--out", str(losses)])
    found = json.loads(losses.read_text())
    assert all(verdict["within_noise"] for verdict in found["verdicts"].values())
    assert found["differing"] == 0
    picture = tmp_path / "gpu.svg"
    plot.main(["--train", str(train), "--slow", str(slow), "--out", str(picture)])
    assert "foreload, CPU decodes" in picture.read_text()


def test_the_driver_runs_steps_and_tells_of_those_that_fail(tmp_path):
    for folder in ("bench/e2e", "bench/engine"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "bench/e2e/loss_curves.py").write_text("raise SystemExit(3)\n")
    out = tmp_path / "out"
    ran = subprocess.run(
        [tmp_path / "bench/e2e/run_all.sh", "prepare", "tiny", "losses", "summary"],
        env=os.environ | {"DRY": "1", "OUT": str(out), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert "failed: losses (status 3)\n" in ran.stdout, ran.stdout
    assert (out / "log.txt").read_text() == ran.stdout
    assert "tiny" in json.loads((out / "train.json").read_text())["parts"]
    assert "not measured: 3.6 x the DataLoader" in (out / "summary.md").read_text().replace(
        "  ", ""
    )
    assert (tmp_path / "build/e2e/kept/train.json").exists()  # for the next call
    unknown = subprocess.run([tmp_path / "bench/e2e/run_all.sh", "nothing"], capture_output=True)
    assert unknown.returncode == 2
