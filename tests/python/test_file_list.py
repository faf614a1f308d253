# SPDX-License-Identifier: Apache-2.0
"""A data set may be a file list, everywhere a folder may be; its listing is kept with a cache."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import foreload

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    """Twelve files, of which the list names ten, backwards, with labels."""
    for i in range(12):
        (tmp_path / f"{i:02}.bin").write_bytes(bytes([i]) * (100 + i))
    (tmp_path / "split").mkdir()
    lines = [f"../{i:02}.bin\t{i % 3}\n" for i in reversed(range(10))]
    file = tmp_path / "split" / "train.txt"
    file.write_text("# train\n\n" + "".join(lines))
    return file


def test_index_of_a_list(listed: Path, tmp_path: Path) -> None:
    index = foreload.Index.from_list(listed)
    assert index.names == [f"{i:02}.bin" for i in reversed(range(10))]
    assert index.labels.tolist() == [i % 3 for i in reversed(range(10))]
    assert index.sizes.tolist() == [100 + i for i in reversed(range(10))]
    assert index.classes == []
    assert foreload.Index.open(listed).fingerprint == index.fingerprint
    index.save(tmp_path / "saved")
    assert foreload.Index.open(tmp_path / "saved").names == index.names


def test_reader_of_a_list(listed: Path) -> None:
    seen = {}
    for batch in foreload.Reader(listed, epochs=1, batch_size=4):
        for index, label, data in zip(batch.indices, batch.labels, batch.data, strict=True):
            seen[int(index)] = (int(label), bytes(data))
    assert seen == {9 - i: (i % 3, bytes([i]) * (100 + i)) for i in range(10)}


def test_plan_and_read_of_a_list(run: Run, listed: Path) -> None:
    figures = json.loads(run("plan", "--dataset", listed, "--json").stdout)
    assert (figures["samples"], figures["dataset_bytes"]) == (10, sum(range(100, 110)))
    assert foreload.plan(listed, ranks=1).samples == 10
    report = json.loads(run("read", listed, "--json").stdout)
    assert report["epochs"][0]["samples"] == 10


def test_bad_lines_are_named(run: Run, listed: Path) -> None:
    listed.write_text("../00.bin\n../gone.bin\n")
    with pytest.raises(OSError, match=r"train.txt, line 2: .*gone.bin"):
        foreload.Index.from_list(listed)
    done = run("read", listed)
    assert done.returncode == 2
    assert "line 2" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_second_start_with_a_cache_does_not_list(run: Run, listed: Path, tmp_path: Path) -> None:
    options = [listed, "--disk", f"{tmp_path / 'cache'}:4MiB", "--json"]
    first, second = (json.loads(run("read", *options).stdout) for _ in range(2))
    assert (first["listed"], second["listed"]) == (True, False)
    assert first["epochs"][0]["digest"] == second["epochs"][0]["digest"]
    assert first["index_file"] == second["index_file"]
    assert "list" not in second["source_operations"]
    assert json.loads(run("read", *options, "--revalidate").stdout)["listed"]
