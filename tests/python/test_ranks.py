# SPDX-License-Identifier: Apache-2.0
"""Who says which rank this is."""

import pytest

from foreload._ranks import find_ranks


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (0, 1, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, (3, 8, 4)),
        (
            {
                "SLURM_PROCID": "1",
                "SLURM_LOCALID": "1",
                "SLURM_STEP_ID": "0",
                "SLURM_NTASKS": "6",
                "SLURM_TASKS_PER_NODE": "2(x3)",
            },
            (1, 6, 2),
        ),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "6"}, (0, 1, 1)),  # a batch script is no task
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2, 1)),
    ],
)
def test_the_environment_says(environment, expected):
    found = find_ranks(environment=environment)
    assert (found.rank, found.count, found.local) == expected


def test_arguments_come_first():
    found = find_ranks(1, 3, {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "8"})
    assert (found.rank, found.count, found.local) == (1, 3, 1)


def test_a_world_without_a_rank_is_refused():
    with pytest.raises(ValueError, match="RANK is not set"):
        find_ranks(environment={"WORLD_SIZE": "2"})
    with pytest.raises(ValueError, match="no rank"):
        find_ranks(world_size=2, environment={})
    with pytest.raises(ValueError, match="world_size"):
        find_ranks(rank=0, environment={})
