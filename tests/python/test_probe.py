# SPDX-License-Identifier: Apache-2.0
"""`foreload probe` measures and saves; readers begin with what it saved."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import foreload

Run = Callable[..., "subprocess.CompletedProcess[str]"]

LEVELS = [1, 2, 4, 8, 16, 32]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images" / "cat"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"{number}.jpg").write_bytes(os.urandom(5_000))
    return tmp_path / "images"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch"


def profile(*devices: tuple[str, Path, list[list[float]]]) -> str:
    return json.dumps(
        {
            "foreload_profile": 1,
            "devices": [
                {
                    "name": f"{kind} {path}",
                    "kind": kind,
                    "path": str(path),
                    "latency_seconds": 0,
                    "curve": curve,
                }
                for kind, path, curve in devices
            ],
        }
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2, done
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def test_probe_measures_memory_disk_and_source(
    run: Run, images: Path, scratch: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "profile.json"
    done = run("probe", scratch, images, "--seconds", 0.05, "--save", saved, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads(saved.read_text())
    memory, disk, source = json.loads(done.stdout)["devices"]
    assert [memory["kind"], disk["kind"], source["kind"]] == ["memory", "disk", "source"]
    assert [level for level, _ in memory["curve"]] == [1, 2, 4]
    for device, path in ((disk, scratch), (source, images)):
        assert device["path"] == str(path)
        assert [level for level, _ in device["curve"]] == LEVELS
        assert all(rate > 0 for _, rate in device["curve"])
        assert device["latency_seconds"] > 0
    assert disk["write_rate"] > 0
    assert memory["write_rate"] > 0
    assert memory["shared_write_rate"] > 0
    assert source["cpu_rate"] > 0
    assert list(scratch.iterdir()) == []


def test_probe_keeps_what_was_measured_before(run: Run, scratch: Path, tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    saved.write_text(profile(("disk", scratch, [[1, 5]]), ("disk", tmp_path / "x", [[1, 7]])))
    done = run("probe", "--disk", scratch, "--seconds", 0.05, "--save", saved)
    assert done.returncode == 0, done.stderr
    assert f"disk {scratch}" in done.stdout
    assert str(saved) in done.stdout
    again, other, memory = json.loads(saved.read_text())["devices"]
    assert len(again["curve"]) == len(LEVELS)
    assert other["curve"] == [[1, 7]]
    assert memory["kind"] == "memory"


def test_probe_saves_to_the_cache_folder(program: str, tmp_path: Path) -> None:
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [program, "probe", "--seconds", "0.05"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    saved = tmp_path / "cache" / "foreload" / "profile.json"
    assert [device["name"] for device in json.loads(saved.read_text())["devices"]] == ["memory"]


def test_source_and_disk_may_be_named(run: Run, images: Path, tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    options = ["--seconds", 0.05, "--save", saved, "--json"]
    listed = tmp_path / "list.txt"
    listed.write_text("images/cat/3.jpg\nimages/cat/1.jpg\n")
    done = run("probe", "--disk", images, "--source", listed, *options)
    assert done.returncode == 0, done.stderr
    _, disk, source = json.loads(done.stdout)["devices"]
    assert (disk["kind"], disk["path"]) == ("disk", str(images))
    assert (source["kind"], source["path"]) == ("source", str(tmp_path))


def has_a_file_without_a_name(process: int, folder: Path) -> bool:
    for entry in Path(f"/proc/{process}/fd").iterdir():
        try:
            name = os.readlink(entry)
        except FileNotFoundError:  # closed meanwhile
            continue
        if str(folder) in name and "(deleted)" in name:
            return True
    return False


def test_interrupted_probe_leaves_nothing(program: str, scratch: Path, tmp_path: Path) -> None:
    child = subprocess.Popen(
        [program, "probe", scratch, "--seconds", "1", "--save", tmp_path / "profile.json"],
        stdout=subprocess.PIPE,
        # Whoever started the tests in the background may have let us ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    # The space of the file without a name shows that the disk is being written to or read.
    deadline = time.monotonic() + 60
    while not has_a_file_without_a_name(child.pid, scratch):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert list(scratch.iterdir()) == []
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    assert child.returncode != 0
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "profile.json").exists()


def test_bad_input_is_refused_with_one_line(run: Run, scratch: Path, tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    save = ["--save", saved]
    assert "nowhere" in refused(run("probe", tmp_path / "nowhere", *save))
    assert "--seconds" in refused(run("probe", scratch, "--seconds", 0, *save))
    assert "scratch" in refused(run("probe", "--source", scratch, "--seconds", 0.05, *save))
    saved.write_text("{}")
    assert "--save" in refused(run("probe", scratch, "--seconds", 0.05, *save))
    assert saved.read_text() == "{}"


def test_read_begins_with_the_profile(run: Run, images: Path, tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    saved.write_text(profile(("source", images, [[1, 10], [7, 60], [32, 30]])))
    report = json.loads(run("read", images, "--profile", saved, "--json").stdout)
    assert report["source_first_concurrency"] == 7
    assert report["profile"] == str(saved)
    report = json.loads(run("read", images, "--profile", "none", "--json").stdout)
    assert report["source_first_concurrency"] == 8
    assert report["profile"] is None
    saved.write_text("{")
    assert "profile.json" in refused(run("read", images, "--profile", saved))


def test_reader_begins_with_the_profile(images: Path, tmp_path: Path) -> None:
    saved = tmp_path / "profile.json"
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    slow.mkdir()
    fast.mkdir()
    saved.write_text(
        profile(
            ("source", images, [[1, 10], [7, 60]]),
            ("disk", slow, [[1, 10]]),
            ("disk", fast, [[1, 10], [4, 90]]),
        )
    )
    disks = [f"{slow}:4MiB", (fast, "5MiB")]
    stats = foreload.Reader(images, epochs=1, profile=saved, disk=disks).stats()
    assert stats["source_first_concurrency"] == 7
    assert [tier["folder"] for tier in stats["tiers"]] == [None, str(fast), str(slow)]
    assert stats["tiers"][1]["first_concurrency"] == 4
    assert stats["tiers"][1]["speed_from"] == "profile"
    assert Path(stats["index_file"]).parent == slow / "foreload-1"
    assert foreload.Reader(images, epochs=1, profile="none").stats()["profile"] is None
    with pytest.raises(OSError, match="gone"):
        foreload.Reader(images, profile=tmp_path / "gone")


def test_broken_default_profile_is_a_warning(
    program: str, images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "foreload").mkdir()
    (tmp_path / "foreload" / "profile.json").write_text("{")
    with pytest.warns(RuntimeWarning, match="profile.json"):
        foreload.Reader(images, epochs=1)
    done = subprocess.run([program, "read", images], capture_output=True, text=True)
    assert done.returncode == 0
    assert len(done.stderr.splitlines()) == 1
    assert "profile.json" in done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        foreload.Reader(images, epochs=1, profile="none")
