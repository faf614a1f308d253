# SPDX-License-Identifier: Apache-2.0
"""foreload.Cache: one budget for several loaders, shared and never exceeded."""

import os
import threading
from pathlib import Path

import numpy as np
import pytest

import foreload

COUNT, BYTES = 60, 40_000
TOTAL = COUNT * BYTES


def make_folder(path: Path, seed: int) -> Path:
    path.mkdir()
    random = np.random.default_rng(seed)
    for number in range(COUNT):
        (path / f"{number:03}.jpg").write_bytes(random.bytes(BYTES))
    return path


@pytest.fixture(scope="module")
def train(tmp_path_factory) -> Path:
    return make_folder(tmp_path_factory.mktemp("train") / "files", 1)


@pytest.fixture(scope="module")
def validation(tmp_path_factory) -> Path:
    return make_folder(tmp_path_factory.mktemp("validation") / "files", 2)


def loader_of(
    folder: Path, cache: foreload.Cache, epochs: int | None = None
) -> foreload.DataLoader:
    return foreload.DataLoader(folder, 8, shuffle=True, cache=cache, profile="none", epochs=epochs)


def memory_of(loader: foreload.DataLoader) -> int:
    return loader.stats()["tiers"][0]["bytes"]


def on_disk(folder: Path) -> int:
    return sum(
        entry.stat().st_blocks * 512
        for entry in folder.rglob("*")
        if entry.is_file() and not entry.name.startswith("dataset-")
    )


def test_each_takes_what_it_can_use(train, validation):
    cache = foreload.Cache(memory=TOTAL + TOTAL // 2)
    first, second = loader_of(train, cache), loader_of(validation, cache)
    assert memory_of(first) == TOTAL
    assert memory_of(second) == TOTAL // 2
    assert cache.memory_left == 0
    for loader in (first, second):
        for _ in range(2):
            list(loader)
    assert first.epoch_stats()["from"]["memory"] == TOTAL
    assert 0 < second.epoch_stats()["from"]["memory"] <= TOTAL // 2
    assert "0 B of" in repr(cache)


def test_what_is_closed_is_given_back(train, validation):
    cache = foreload.Cache(memory=TOTAL)
    first = loader_of(train, cache)
    assert memory_of(loader_of(validation, cache)) == 0
    first.close()
    first.close()
    assert memory_of(loader_of(validation, cache)) == TOTAL


def test_loaders_opened_at_once_never_take_more_than_there_is(train):
    cache = foreload.Cache(memory=TOTAL + 1)
    loaders = []
    threads = [
        threading.Thread(target=lambda: loaders.append(loader_of(train, cache))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(memory_of(loader) for loader in loaders) == [0, 0, 1, TOTAL]


def test_disks_stay_within_their_budget_and_are_found_again(train, validation, tmp_path):
    budget = TOTAL + TOTAL // 2
    for run in range(3):
        cache = foreload.Cache(disk=(tmp_path, budget))
        loaders = [loader_of(train, cache), loader_of(validation, cache)]
        assert sum(left for _, left in cache.disks_left) >= 0
        for _ in range(2):
            for loader in loaders:
                list(loader)
            assert on_disk(tmp_path) <= budget
        stats = [loader.stats() for loader in loaders]
        if run == 0:
            assert [s["held_samples"] for s in stats] == [0, 0]
        else:
            assert stats[0]["held_samples"] == COUNT
            assert stats[1]["held_samples"] > COUNT // 4
        for loader in loaders:
            loader.close()


def test_what_others_left_on_a_disk_counts(train, validation, tmp_path):
    budget = TOTAL + TOTAL // 2
    cache = foreload.Cache(disk=(tmp_path, budget))
    loaders = [loader_of(validation, cache), loader_of(train, cache)]
    for loader in loaders:
        list(loader)
        loader.close()
    alone = loader_of(validation, foreload.Cache(disk=(tmp_path, budget)))
    for _ in range(2):
        list(alone)
    assert on_disk(tmp_path) <= budget


def test_what_one_has_read_the_others_find(train):
    """Training and validation over the same files read them once; the second has no room left."""
    cache = foreload.Cache(memory=TOTAL)
    first = loader_of(train, cache)
    list(first)
    second = loader_of(train, cache, epochs=2)  # and none is read ahead
    assert memory_of(second) == 0
    for _ in range(2):
        list(second)
    assert second.stats()["source_bytes"] == 0
    assert second.stats()["others_bytes"] == 2 * TOTAL
    assert first.stats()["others_bytes"] == 0


def test_blobs(tmp_path):
    cache = foreload.Cache(memory="1MiB", disk=(tmp_path, "8MiB"))
    assert cache.read_blob("state") is None
    cache.write_blob("state", b"first")
    cache.write_blob("state", b"second")
    assert cache.read_blob("state") == b"second"
    with pytest.raises(OSError, match="large"):
        cache.write_blob("large", bytes(16 << 20))
    del cache
    again = foreload.Cache(disk=(tmp_path, "8MiB"))
    assert again.read_blob("state") == b"second"


def test_too_many_loaders_and_contradictions(train):
    cache = foreload.Cache(memory=TOTAL)
    loaders = [loader_of(train, cache) for _ in range(32)]
    with pytest.raises(ValueError, match="32 loaders"):
        loader_of(train, cache)
    del loaders
    with pytest.raises(ValueError, match="exclude"):
        foreload.DataLoader(os.fspath(train), cache=cache, memory=1)
