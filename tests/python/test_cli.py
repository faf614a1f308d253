# SPDX-License-Identifier: Apache-2.0
"""The program: says the same as the Python package, and answers bad input with one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from folders import remove_unseen
from program_answers import JOB, refused

import foreload

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def options(**values: object) -> list[object]:
    """Keyword arguments of the package as options of the program."""
    return [
        part for name, value in values.items() for part in (f"--{name}".replace("_", "-"), value)
    ]


def job(**changes: object) -> list[object]:
    return options(**(JOB | changes))


KEYS = {
    "samples",
    "ranks",
    "epochs",
    "epochs_known",
    "batch_size",
    "order",
    "seed",
    "pad",
    "placement",
    "dataset_bytes",
    "cache_bytes",
    "source_bytes",
    "source_bytes_lower_bound",
    "coverage",
    "reads",
    "local_read_fraction",
    "peer_read_fraction",
    "source_read_fraction",
    "tiers",
    "access_histogram",
    "plan_seconds",
    "peak_rss_bytes",
    "digest",
}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    for i in range(20):
        path = folder / f"class{i % 3}" / f"{i}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (100 + i))
    return folder


def test_version(run: Run) -> None:
    assert run("--version").stdout.split() == ["foreload", foreload.__version__]


@pytest.mark.parametrize(
    "arguments",
    [
        {"samples": 1_000, "ranks": 4, "rank": 3, "epoch": 2, "seed": 7},
        {"samples": 1_000, "ranks": 7, "rank": 6, "pad": "truncate", "order": "sequential"},
        {"samples": 1_000, "ranks": 3, "rank": 1, "start": 500, "limit": 11, "order": "feistel"},
        {"samples": 3, "ranks": 8, "rank": 7, "seed": 2**64 - 1},
        {"samples": 100, "limit": 0},
    ],
)
def test_order_is_that_of_the_package(run: Run, arguments: dict[str, object]) -> None:
    expected = foreload.order(**arguments).tolist()
    assert [int(line) for line in run("order", *options(**arguments)).stdout.split()] == expected
    assert json.loads(run("order", *options(**arguments), "--json").stdout) == expected


@pytest.mark.parametrize("placement", ["cover", "independent", "computed"])
def test_plan_is_that_of_the_package(run: Run, placement: str) -> None:
    done = run("plan", *job(placement=placement, seed=5), "--json")
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    mine = foreload.plan(**JOB, placement=placement, seed=5).to_dict()
    assert theirs.keys() >= KEYS
    for measured in ("plan_seconds", "peak_rss_bytes"):
        assert theirs.pop(measured) >= 0
        mine.pop(measured)
    assert theirs == mine


def test_plan_prints_the_table_of_the_package(run: Run) -> None:
    theirs = run("plan", *job()).stdout.splitlines()
    mine = str(foreload.plan(**JOB)).splitlines()
    # The last line has times.
    assert theirs[:-1] == mine[:-1]


def test_plan_of_a_folder_saves_its_index(run: Run, images: Path, tmp_path: Path) -> None:
    file = tmp_path / "images.index"
    common = ["--ranks", 2, "--epochs", 3, "--memory", "500B", "--json"]
    listed = json.loads(run("plan", "--dataset", images, *common, "--save-index", file).stdout)
    loaded = json.loads(run("plan", "--dataset", file, *common).stdout)
    assert listed["samples"] == 20
    assert listed["digest"] == loaded["digest"]
    assert listed["digest"] == foreload.plan(file, ranks=2, epochs=3, memory="500B").digest
    assert foreload.read_index(file).names == foreload.list_folder(images).names


def test_plan_chooses_files_by_extension(run: Run, images: Path) -> None:
    (images / "class0" / "notes.txt").write_bytes(b"x")
    for extensions, samples in ((".txt,.jpg", 21), ("any", 21), (".jpg", 20)):
        done = run("plan", "--dataset", images, "--extensions", extensions, "--json")
        assert json.loads(done.stdout)["samples"] == samples


def test_plan_with_a_rate_says_what_is_needed(run: Run) -> None:
    figures = json.loads(run("plan", *job(rate=100), "--json").stdout)
    assert figures["rate"]["samples_per_second_per_rank"] == 100
    assert "samples/s" in run("plan", *job(rate=100)).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["order"],
        ["order", "--samples", 0],
        ["order", "--samples", -5],
        ["order", "--samples", "many"],
        ["order", "--samples", 10, "--ranks", 0],
        ["order", "--samples", 10, "--ranks", 2, "--rank", 2],
        ["order", "--samples", 10, "--ranks", 2, "--rank", -1],
        ["order", "--samples", 10, "--epoch", -1],
        ["order", "--samples", 10, "--limit", -1],
        ["order", "--samples", 10, "--order", "random"],
        ["order", "--samples", 10, "--pad", "zero"],
        ["order", "--samples", 2**64],
        ["order", "--samples", 10, "--colour", "red"],
        ["plan"],
        ["plan", "--samples", 10],
        ["plan", "--samples", 10, "--mean-size", "10"],
        ["plan", "--samples", 10, "--mean-size", "10XiB"],
        ["plan", "--samples", 10, "--mean-size", "-10KiB"],
        ["plan", *job(memory="5")],
        ["plan", *job(memory="5 parsecs")],
        ["plan", *job(disk="-1GiB")],
        ["plan", *job(ranks=-4)],
        ["plan", *job(epochs=0)],
        ["plan", *job(epochs=2**62)],
        ["plan", "--samples", 2**40, "--mean-size", "1B", "--epochs", 2**40],
        ["plan", *job(batch_size=0)],
        ["plan", *job(placement="best")],
        ["plan", *job(rate="fast")],
        ["plan", *job(rate=-1)],
        ["plan", *job(dataset=".")],
        ["plan", "--dataset", "nowhere"],
        ["guess"],
        ["--colour"],
        [],
    ],
    ids=lambda arguments: " ".join(map(str, arguments[:1] + arguments[-2:])) or "nothing",
)
def test_bad_input_is_refused_with_one_line(
    run: Run, tmp_path: Path, arguments: list[object]
) -> None:
    refused(run(*arguments, cwd=tmp_path))


def test_empty_folder_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "empty" in refused(run("plan", "--dataset", tmp_path / "empty"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_forbidden_folder_is_refused(run: Run, images: Path) -> None:
    (images / "class1").chmod(0)
    assert "class1" in refused(run("plan", "--dataset", images))
    (images / "class1").chmod(0o700)


def test_corrupt_index_is_refused(run: Run, images: Path, tmp_path: Path) -> None:
    file = tmp_path / "images.index"
    foreload.list_folder(images).save(file)
    good = file.read_bytes()
    for bad in (b"", b"junk", good[:-1], good[:50], good[:60] + b"\xff" + good[61:]):
        file.write_bytes(bad)
        assert "images.index" in refused(run("plan", "--dataset", file))


@pytest.fixture
def plans(run: Run, tmp_path: Path) -> list[Path]:
    files = []
    for placement in ("cover", "independent", "computed"):
        file = tmp_path / f"{placement}.json"
        file.write_text(run("plan", *job(placement=placement), "--json").stdout)
        files.append(file)
    return files


def is_picture(file: Path) -> bool:
    start = file.read_bytes()[:8]
    return start == b"\x89PNG\r\n\x1a\n" if file.suffix == ".png" else start.startswith(b"<?xml")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_plot_draws_plans(run: Run, plans: list[Path], tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    for count in (1, 3):
        output = tmp_path / f"picture{count}{suffix}"
        done = run("plot", *plans[:count], "-o", output)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        assert is_picture(output)


def test_plan_draws_itself(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    done = run("plan", *job(), "--json", "--plot", tmp_path / "plan.png")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["samples"] == 1_000
    assert is_picture(tmp_path / "plan.png")


def test_plan_that_cannot_be_drawn_is_still_printed(run: Run, tmp_path: Path) -> None:
    done = run("plan", *job(), "--json", "--plot", tmp_path / "plan.pdf")
    assert json.loads(done.stdout)["samples"] == 1_000
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_plot_draws_different_jobs(run: Run, plans: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    other = tmp_path / "other.json"
    other.write_text(json.dumps(foreload.plan(samples=50, mean_size=1, ranks=1).to_dict()))
    assert run("plot", *plans, other, "-o", tmp_path / "all.png").returncode == 0
    assert is_picture(tmp_path / "all.png")


def test_plot_refuses_what_is_no_plan(run: Run, plans: list[Path], tmp_path: Path) -> None:
    output = tmp_path / "picture.png"
    bad = tmp_path / "bad.json"
    assert "nowhere.json" in refused(run("plot", tmp_path / "nowhere.json", "-o", output))
    whole = json.loads(plans[0].read_text())
    for text, reason in [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "not a plan"),
        ("3", "not a plan"),
        ("{}", "not a plan"),
        (json.dumps(whole | {"coverage": "much"}), "not a plan"),
        (json.dumps(whole | {"coverage": float("nan")}), "not a plan"),
        (json.dumps(whole | {"tiers": [1]}), "not a plan"),
    ]:
        bad.write_text(text)
        line = refused(run("plot", plans[0], bad, "-o", output))
        assert reason in line
        assert "bad.json" in line
    bad.write_bytes(b"\xff\xfe\x00")
    assert "not JSON" in refused(run("plot", bad, "-o", output))
    assert not output.exists()


def test_plot_refuses_bad_outputs_and_options(run: Run, plans: list[Path], tmp_path: Path) -> None:
    assert ".svg" in refused(run("plot", plans[0], "-o", tmp_path / "picture.gif"))
    assert "no-folder" in refused(run("plot", plans[0], "-o", tmp_path / "no-folder" / "p.png"))
    refused(run("plot", plans[0]))
    refused(run("plot", "-o", tmp_path / "picture.png"))
    refused(run("plot", plans[0], "--colour", "red"))


def test_plot_says_what_to_install(plans: list[Path], tmp_path: Path) -> None:
    without = "import sys; sys.modules['matplotlib'] = None; from foreload.plot import main; "
    done = subprocess.run(
        [sys.executable, "-c", f"{without} sys.exit(main())", plans[0], "-o", tmp_path / "p.png"],
        capture_output=True,
        text=True,
    )
    assert "pip install 'foreload[plot]'" in refused(done)


def test_python_and_program_agree_on_large_lists(run: Run) -> None:
    theirs = np.fromstring(
        run("order", "--samples", 100_000, "--ranks", 3, "--rank", 1, "--seed", 4).stdout,
        dtype=np.int64,
        sep="\n",
    )
    np.testing.assert_array_equal(theirs, foreload.order(100_000, ranks=3, rank=1, seed=4))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A hundred files of 50 kB."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number in range(100):
        (folder / f"{number:03}.jpg").write_bytes(bytes([number]) * 50_000)
    return folder


def test_read_says_what_limits(run: Run, files: Path) -> None:
    slow = ("--source-bandwidth", "5MB", "--staging", "2MB")
    result = run("read", files, "--batch-size", 10, *slow)
    assert result.returncode == 0, result.stderr
    assert " for the source (" in result.stdout.splitlines()[1]
    assert "; memory=" in result.stdout.splitlines()[1]
    assert result.stderr == ""
    report = json.loads(run("read", files, "--batch-size", 10, "--json", *slow).stdout)
    for verdict in (report["verdict"], report["epochs"][0]["verdict"]):
        assert verdict["limit"] == "source"
        assert set(verdict) == {"limit", "waited", "seconds", "text", "helps", "losses"}
    epoch = report["epochs"][0]
    assert epoch["verdict"]["waited"] == pytest.approx(epoch["wait_fraction"])


def test_read_says_how_many_samples_it_skipped(run: Run, files: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    assert run("read", files, "--index", index).returncode == 0
    remove_unseen(*(files / f"{number:03}.jpg" for number in range(0, 100, 5)))
    skip = ("read", files, "--index", index, "--epochs", 2, "--on-error", "skip")
    result = run(*skip)
    assert result.returncode == 0, result.stderr
    _, first, second, last = result.stdout.splitlines()
    for number, line in enumerate((first, second)):
        assert "; lost: 20 samples skipped (" in line
        assert f"warning: epoch {number}: 20 samples skipped (" in result.stderr
    assert "; 40 samples were skipped: " in last
    assert last.count(".jpg") == 5
    assert len(result.stderr.splitlines()) == 2
    report = run(*skip, "--json")
    assert report.stderr == ""
    verdicts = [epoch["verdict"] for epoch in json.loads(report.stdout)["epochs"]]
    assert all(verdict["losses"][0].startswith("20 samples skipped") for verdict in verdicts)


def test_read_says_that_a_disk_cache_filled_up(program: str, files: Path, tmp_path: Path) -> None:
    """A small file system, mounted where only this process and its children see it. Somebody else
    takes the room as soon as the cache has its first segment; reading everything takes 2.5 s."""
    small = tmp_path / "small"
    small.mkdir()
    script = f"""
        set -e
        mount -t tmpfs -o size=8m tmpfs {small}
        {program} read {files} --epochs 2 --disk {small}/cache:6MiB --profile none \
            --source-bandwidth 2MB --staging 1MB --batch-size 10 &
        until [ -n "$(find {small}/cache -size +100k 2>/dev/null)" ]; do sleep 0.01; done
        head -c 8M /dev/zero > {small}/other 2>/dev/null || true
        wait $!
    """
    own = ["unshare", "--mount"] + ([] if os.geteuid() == 0 else ["--map-root-user"])
    result = subprocess.run([*own, "sh", "-c", script], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    off = f"the disk cache {small}/cache is off: "
    assert result.stderr.count(off) == 1
    assert "No space left on device" in result.stderr
    assert result.stderr.startswith("foreload: warning: epoch ")
    assert f"; lost: {off}" in result.stdout.splitlines()[1]
