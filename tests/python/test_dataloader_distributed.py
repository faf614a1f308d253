# SPDX-License-Identifier: Apache-2.0
"""Rank and world size, from wherever they are known."""

import os
import subprocess
import sys

import pytest

import foreload
from foreload._ranks import find_ranks

pytest.importorskip("torch")

PROGRAM = """
import sys
import torch.distributed as dist
import foreload
rank, store, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
loader = foreload.DataLoader(folder, 8, shuffle=True, seed=5, return_index=True)
print(loader.sampler.rank, loader.sampler.num_replicas)
print(*[int(index) for batch in loader for index in batch[2]])
dist.barrier()
dist.destroy_process_group()
"""


def test_torch_distributed_is_asked(images, tmp_path):
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("RANK", "WORLD_SIZE") and not name.startswith(("SLURM", "OMPI"))
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), tmp_path / "store", images],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for number, process in enumerate(ranks):
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        who, indices = out.splitlines()
        assert who == f"{number} 2"
        expected = foreload.order(50, seed=5, ranks=2, rank=number).tolist()
        assert [int(index) for index in indices.split()] == expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, (3, 8, 4)),
        (
            {
                "SLURM_STEP_ID": "0",
                "SLURM_PROCID": "1",
                "SLURM_LOCALID": "1",
                "SLURM_NTASKS": "2",
                "SLURM_TASKS_PER_NODE": "2(x1)",
            },
            (1, 2, 2),
        ),
        ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, (0, 2, 1)),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "7", "SLURM_NTASKS": "9"}, (1, 2, 1)),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "6"}, (0, 1, 1)),  # a batch script is no task
        ({}, (0, 1, 1)),
    ],
)
def test_the_environment_is_asked(environment, expected):
    found = find_ranks(environment=environment)
    assert (found.rank, found.count, found.local) == expected


def test_arguments_come_first():
    found = find_ranks(1, 3, environment={"RANK": "0", "WORLD_SIZE": "2"})
    assert (found.rank, found.count) == (1, 3)


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        ((None, 4), {}, "give rank="),
        ((2, None), {}, "give world_size="),
        ((None, None), {"WORLD_SIZE": "2"}, "RANK is not set"),
        ((None, None), {"SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"}, "SLURM_PROCID is not"),
        ((None, None), {"RANK": "2", "WORLD_SIZE": "2"}, "below their number"),
        ((None, None), {"RANK": "two", "WORLD_SIZE": "2"}, "whole number"),
        ((4, 4), {}, "rank must be at most 3"),
    ],
)
def test_what_is_not_known_is_an_error(arguments, environment, said):
    with pytest.raises(ValueError, match=said):
        find_ranks(*arguments, environment=environment)
