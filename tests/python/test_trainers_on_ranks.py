# SPDX-License-Identifier: Apache-2.0
"""Lightning, Fabric and Accelerate with two processes on this machine (trainer_jobs.py): each rank
gets its share, and foreload delivers it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from jobs import Rank, free_port

import foreload

pytest.importorskip("torch")

# As in trainer_jobs.py. One sample is read twice, so that both ranks have equally many.
COUNT, BATCH, SEED = 49, 4, 9
BATCHES = 7

PROGRAM = Path(__file__).with_name("trainer_jobs.py")


def share(rank: int, epoch: int, first: int = 0) -> list[int]:
    """A rank's samples of an epoch, from a batch on."""
    indices = foreload.order(COUNT, ranks=2, rank=rank, epoch=epoch, seed=SEED).tolist()
    return indices[first * BATCH :]


@pytest.fixture(scope="module")
def data(images, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "images"
    shutil.copytree(images, folder)
    next(folder.rglob("0000.*")).unlink()
    return folder


def ran(name: str, data: Path, folder: Path, *environments: dict[str, str]) -> list[Any]:
    """What both ranks of a program found; started once for each environment."""
    command = [sys.executable, str(PROGRAM), name, str(data), str(folder / "out")]
    started = [
        Rank(number, command, {**os.environ, "OMP_NUM_THREADS": "1", **more})
        for number, more in enumerate(environments)
    ]
    try:
        for process in started:
            assert process.end(900) == 0, process.errors
    finally:
        for process in started:
            process.kill()
    return [json.loads((folder / f"out.{rank}").read_text("utf-8")) for rank in range(2)]


@pytest.fixture(scope="module")
def accelerated(data, tmp_path_factory) -> list[Any]:
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    environments = [
        meeting | {"RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2"} for rank in "01"
    ]
    return ran("accelerate", data, tmp_path_factory.mktemp("accelerate"), *environments)


def test_accelerate_trains_on_shares(accelerated):
    for rank, found in enumerate(accelerated):
        assert found["kept"]
        assert found["train"] == [share(rank, 0), share(rank, 1)[: 2 * BATCH]]
        assert found["delivered"] == BATCHES + 2


def test_accelerate_steps_together(accelerated):
    """Gradients are exchanged in every third step and in the last one of the epoch."""
    first, second = accelerated
    assert first["steps"] == [False, False, True, False, False, True, True, False, False]
    assert second["steps"] == first["steps"]
    assert second["weights"] == first["weights"]


def test_accelerate_resumes_shares(accelerated):
    for rank, found in enumerate(accelerated):
        assert [i for batch in found["resumed"] for i in batch] == share(rank, 1, 2)
        assert found["resumed_delivered"] == BATCHES - 2


def test_accelerate_gathers_each_sample_once(accelerated):
    """As with torch's own loader, which it shares out by batches and not by samples."""
    for found in accelerated:
        ours, torchs = found["evaluated"], found["evaluated_by_torch"]
        assert sorted(ours["rows"]) == torchs["rows"] == list(range(COUNT))
        assert ours["names"] == [str(index) for index in ours["rows"]]
        assert ours["losses"] == torchs["losses"] == COUNT
        assert found["joined"] == BATCHES


@pytest.fixture(scope="module")
def lit(data, tmp_path_factory) -> list[Any]:
    return ran("lightning", data, tmp_path_factory.mktemp("lightning"), {})


def test_lightning_keeps_the_sampler_of_a_loader_for_several_ranks(lit):
    for rank, found in enumerate(lit):
        assert found["late"] == {
            "seen": share(rank, 0) + share(rank, 1),
            "class": "foreload.loader.dataloader.DataLoader",
            "sampler": "foreload.planning.samplers",
            "delivered": 2 * BATCHES,
        }


def test_lightning_makes_a_loader_for_one_rank_again_for_several(lit):
    """With a DistributedSampler, as it does with torch's loader."""
    shares = [found["early"]["seen"] for found in lit]
    half = len(shares[0]) // 2
    for epoch in (slice(half), slice(half, None)):
        both = shares[0][epoch] + shares[1][epoch]
        assert len(both) == COUNT + 1
        assert sorted(set(both)) == list(range(COUNT))
    for found in lit:
        assert found["early"]["class"] == "foreload.loader.dataloader.DataLoader"
        assert found["early"]["sampler"] == "torch.utils.data.distributed"
        assert found["early"]["delivered"] == 2 * BATCHES


def test_lightning_resumes_shares(lit):
    for rank, found in enumerate(lit):
        assert found["resumed"]["seen"] == share(rank, 1, 2)
        assert found["resumed"]["delivered"] == BATCHES - 2


def test_fabric_gives_shares(lit):
    for rank, found in enumerate(lit):
        assert found["fabric"] == [share(rank, 0), share(rank, 1)]
        assert found["fabric_delivered"] == 2 * BATCHES


@pytest.mark.parametrize("samples", [55, 56, 57])
def test_rows_of_three_ranks_without_padding(samples):
    """The padding is the last sample of the last ranks, in the middle of what was gathered."""
    torch = pytest.importorskip("torch")
    import accelerate  # noqa: F401 - where a Loop is told

    from foreload.trainers.accelerate import Loop

    gathered = []
    for rank in range(3):
        loader = foreload.DataLoader(
            torch.arange(samples), BATCH, rank=rank, world_size=3, transport="none"
        )
        *_, last = loader
        gathered.append(last)
    loop = Loop(loader, loader._latest.reading)
    rows = loop.trimmed(torch.cat(gathered)).tolist()
    assert sorted(rows) == list(range(4 * BATCH * 3, samples))
    assert loop.remainder == len(rows)
