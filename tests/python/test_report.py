# SPDX-License-Identifier: Apache-2.0
"""`foreload report`: a page that stands for itself, and one line for what is no run file."""

from __future__ import annotations

import json
import re
import subprocess
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HEADER = {"foreload_run": 1, "dataset": "/data/<b>", "samples": 40, "bytes": 4_000, "seed": "0"}
EPOCH = {
    "epoch": 0,
    "seconds": 2.0,
    "samples": 40,
    "bytes": 4_000,
    "from": {"memory": 1_000, "disk": 0, "peer": 0, "source": 3_000},
    "wait_fraction": 0.25,
    "batch_wait_ms": {"p50": 0.0, "p99": 3.0, "max": 7.5},
}


@pytest.fixture
def photos(run: Run, tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    made = run(
        "make-images", folder, "--count", 40, "--mean-size", "3KiB", "--classes", 2, "--json"
    )
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["files"] == len(list(folder.glob("class*/*.jpg"))) == 40
    return folder


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_a_page_about_real_runs(run: Run, photos: Path, tmp_path: Path) -> None:
    names = []
    for memory in ("0", "1MiB"):
        names.append(tmp_path / f"memory-{memory}.jsonl")
        options = ["--epochs", 2, "--batch-size", 8, "--memory", memory, "--run-file", names[-1]]
        shaped = ["--source-bandwidth", "2MB", "--source-latency-ms", 1]
        assert run("read", photos, *options, *shaped).returncode == 0
    page = tmp_path / "report.html"
    done = run("report", *names, "--out", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text("utf-8")
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) == 3  # the comparison and one of each run
    for picture in pictures:
        xml.etree.ElementTree.fromstring(picture)
    for title in ("Time of each epoch", "Where the bytes came from", "Throughput", "waited for"):
        assert title in text
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert len(re.findall(r"<tr><td>", text)) == 4


def test_the_record_has_a_curve(run: Run, photos: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    run("read", photos, "--epochs", 1, "--batch-size", 8, "--run-file", record)
    _, epoch = map(json.loads, record.read_text("utf-8").splitlines())
    times, delivered = zip(*epoch["curve"], strict=True)
    assert list(times) == sorted(times)
    assert list(delivered) == sorted(delivered)
    assert delivered[-1] == epoch["bytes"]


def test_names_are_escaped_and_a_torn_line_does_not_count(run: Run, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    record.write_text(lines(HEADER, EPOCH) + '{"epoch": 1, "sec', "utf-8")
    assert run("report", record, "-o", tmp_path / "page.html").returncode == 0
    text = (tmp_path / "page.html").read_text("utf-8")
    assert "/data/&lt;b&gt;" in text
    assert len(re.findall(r"<tr><td>", text)) == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "it is not a run file"),
        (b"hello\n", "it is not a run file"),
        (b"\xff\xfe\x00", "it is not a run file"),
        (b"[1, 2]\n", "it is not a run file"),
        (lines({"foreload_run": 9}).encode(), "of format 9"),
        (lines(HEADER).encode(), "no finished epoch"),
        (lines(HEADER, {"epoch": 0}).encode(), "it is not a run file"),
        (lines(HEADER, EPOCH | {"seconds": "nan"}).encode(), "it is not a run file"),
        (b"x\n" + lines(HEADER, EPOCH).encode(), "it is not a run file"),
    ],
)
def test_refuses_what_is_no_run_file(
    run: Run, tmp_path: Path, content: bytes, complaint: str
) -> None:
    record = tmp_path / "other.jsonl"
    record.write_bytes(content)
    done = run("report", record, "-o", tmp_path / "page.html")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert str(record) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


def test_says_what_cannot_be_read_or_written(run: Run, tmp_path: Path) -> None:
    missing = run("report", tmp_path / "none.jsonl", "-o", tmp_path / "page.html")
    assert missing.returncode == 2
    assert "No such file" in missing.stderr
    record = tmp_path / "run.jsonl"
    record.write_text(lines(HEADER, EPOCH), "utf-8")
    unwritable = run("report", record, "-o", tmp_path / "none" / "page.html")
    assert unwritable.returncode == 2
    assert "cannot write" in unwritable.stderr
