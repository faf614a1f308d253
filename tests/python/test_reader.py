# SPDX-License-Identifier: Apache-2.0
"""foreload.Reader and `foreload read`: the right bytes in the right order from the right place."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import foreload

PROGRAM = Path(sys.executable).parent / "foreload"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for number in range(150):
        target = path / f"class{number % 3}" / f"{number:04}.jpg"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(random.bytes(int(random.integers(1, 30_000))))
    return path


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jpg"))


def read(folder: Path, *options: str) -> dict:
    done = subprocess.run(
        [PROGRAM, "read", folder, "--json", *options], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_reader_gives_bytes_indices_and_labels_in_order(folder):
    paths = files(folder)
    total = sum(path.stat().st_size for path in paths)
    reader = foreload.Reader(folder, epochs=3, batch_size=16, seed=5, memory=total)
    for epoch in range(3):
        seen = []
        for batch in reader:
            assert len(batch) == len(batch.data) == len(batch.indices)
            for index, label, view in zip(batch.indices, batch.labels, batch.data, strict=True):
                assert view.readonly
                assert bytes(view) == paths[index].read_bytes()
                assert f"class{label}" == paths[index].parent.name
            seen.extend(batch.indices)
        np.testing.assert_array_equal(seen, foreload.order(150, epoch=epoch, seed=5))
        stats = reader.epoch_stats()
        assert stats["from"]["source" if epoch == 0 else "memory"] == total
    assert reader.stats()["source_bytes"] == total


def test_views_outlive_reader_and_batch(folder):
    paths = files(folder)
    reader = foreload.Reader(folder, epochs=1, batch_size=150)
    batch = next(iter(reader))
    indices, views = batch.indices, batch.data
    del batch, reader
    assert all(
        bytes(view) == paths[index].read_bytes() for index, view in zip(indices, views, strict=True)
    )


def test_seek_resumes_in_the_middle(folder):
    reader = foreload.Reader(folder, epochs=4, batch_size=10)
    next(iter(reader))
    reader.seek(2, 50)
    seen = np.concatenate([batch.indices for batch in reader])
    np.testing.assert_array_equal(seen, foreload.order(150, epoch=2)[50:])


def test_program_and_python_agree_on_what_was_delivered(folder, tmp_path):
    xxhash = pytest.importorskip("xxhash")
    report = read(folder, "--epochs", "2", "--batch-size", "16", "--memory", "10MiB")
    reader = foreload.Reader(folder, epochs=2, batch_size=16, disk=(tmp_path / "cache", "50MiB"))
    for epoch in range(2):
        digest = xxhash.xxh3_64()
        for batch in reader:
            for index, view in zip(batch.indices, batch.data, strict=True):
                digest.update(int(index).to_bytes(8, "little"))
                digest.update(view)
        assert report["epochs"][epoch]["digest"] == digest.hexdigest()


def test_read_reports_the_agreed_keys(folder):
    report = read(folder, "--epochs", "2", "--batch-size", "16")
    for key in ("listing_seconds", "first_batch_seconds", "peak_rss_bytes"):
        assert key in report
    total = sum(path.stat().st_size for path in files(folder))
    for epoch in report["epochs"]:
        assert set(epoch["from"]) == {"memory", "disk", "peer", "source", "staging"}
        assert set(epoch["batch_wait_ms"]) == {"p50", "p99", "max"}
        assert epoch["bytes"] == total == sum(epoch["from"].values())
        assert epoch["samples"] == 150
        assert len(epoch["digest"]) == 16
        assert 0 <= epoch["wait_fraction"] <= 1


def test_second_run_on_a_full_disk_cache_reads_nothing(folder, tmp_path):
    cache = f"{tmp_path}/cache:50MiB"
    index = f"{tmp_path}/index"
    first = read(folder, "--epochs", "1", "--disk", cache, "--index", index)
    second = read(folder, "--epochs", "2", "--disk", cache, "--index", index, "--seed", "9")
    assert first["listed"]
    assert not second["listed"]
    assert first["source_samples"] == 150
    assert second["source_bytes"] == 0
    assert second["epochs"][1]["digest"] != first["epochs"][0]["digest"]


def test_trace_and_run_file(folder, tmp_path):
    read(folder, "--epochs", "2", "--trace", f"{tmp_path}/t.json", "--run-file", f"{tmp_path}/r")
    trace = json.loads((tmp_path / "t.json").read_text())
    assert any(event.get("name") == "read" for event in trace["traceEvents"])
    lines = [json.loads(line) for line in (tmp_path / "r").read_text().splitlines()]
    assert lines[0]["foreload_run"] == 2
    assert [line["epoch"] for line in lines if line.get("kind") == "epoch"] == [0, 1]


@pytest.mark.parametrize(
    "options",
    [
        ["--disk", "nocolon"],
        ["--disk", "/tmp/x:5XB"],
        ["--memory", "12"],
        ["--on-error", "ignore"],
        ["--io", "magic"],
        ["--epochs", "0"],
        ["--step-ms", "-1"],
    ],
)
def test_bad_options_get_one_line_and_status_2(folder, options):
    done = subprocess.run([PROGRAM, "read", folder, *options], capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_missing_folder(tmp_path):
    done = subprocess.run([PROGRAM, "read", tmp_path / "no"], capture_output=True, text=True)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    with pytest.raises(OSError, match="no"):
        foreload.Reader(tmp_path / "no")


def test_a_file_that_became_a_pipe_is_told(tmp_path):
    """It was waited for until the deadline of the read."""
    folder, index = tmp_path / "set", tmp_path / "set.index"
    folder.mkdir()
    (folder / "a.jpg").write_bytes(b"bytes")
    foreload.list_folder(folder).save(index)
    time_of = folder.stat().st_mtime_ns
    (folder / "a.jpg").unlink()
    os.mkfifo(folder / "a.jpg")
    os.utime(folder, ns=(time_of, time_of))
    reader = foreload.Reader(folder, index=index, deadline=3600)
    with pytest.raises(OSError, match="a named pipe, a socket or a device, not a file"):
        next(iter(reader))


def test_interrupt_while_waiting(tmp_path):
    """Ctrl-C is seen while the reader waits for a file that takes its time."""
    (tmp_path / "a.jpg").write_bytes(b"bytes")
    code = (
        "import functools, signal, foreload\n"
        # Whoever started the tests in the background may have let us ignore it.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "core = foreload._core\n"
        "core.open_loader = functools.partial(core.open_loader, source_latency_ms=60e3)\n"
        f"reader = foreload.Reader({str(tmp_path)!r}, deadline=60)\n"
        "print('waiting', flush=True)\n"
        "next(iter(reader))\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "waiting\n"
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=20)
    assert child.returncode != 0
    assert "KeyboardInterrupt" in errors


def test_only_what_was_read_from_the_source_counts_as_from_there(folder):
    """Copies of samples that were on their way already counted as read."""
    total = sum(path.stat().st_size for path in files(folder))
    report = read(folder, "--epochs", "3", "--batch-size", "16", "--profile", "none")
    from_source = sum(epoch["from"]["source"] for epoch in report["epochs"])
    copied = sum(epoch["from"]["staging"] for epoch in report["epochs"])
    assert from_source == report["source_bytes"] < 3 * total
    assert from_source + copied == 3 * total


def test_the_last_line_says_what_was_read_from_the_source(folder):
    run = subprocess.run(
        [PROGRAM, "read", folder, "--epochs", "3", "--memory", "1GiB"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    total = sum(path.stat().st_size for path in files(folder))
    last = run.stdout.splitlines()[-1]
    assert last.startswith(f"read {foreload.format_bytes(total)} from the source, folder ")


def test_bytes_from_memory_are_no_more_than_memory_holds(folder, tmp_path):
    """What was on its way for an earlier batch once counted as memory's, 30 times its size."""
    memory = 64 << 10
    reader = foreload.Reader(
        folder,
        epochs=4,
        batch_size=16,
        memory=f"{memory}B",
        disk=(tmp_path, 16 << 20),
        profile="none",
    )
    total = sum(path.stat().st_size for path in files(folder))
    for epoch in range(4):
        for _ in reader:
            pass
        stats = reader.epoch_stats()
        assert sum(stats["from"].values()) == total
        assert stats["from"]["memory"] <= memory
        if epoch == 0:
            assert stats["from"]["source"] == total
