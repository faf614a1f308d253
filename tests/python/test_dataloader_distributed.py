# SPDX-License-Identifier: Apache-2.0
"""Rank and world size, from wherever they are known."""

import json
import os
import subprocess
import sys

import pytest
from jobs import job_of, make_data, need_transport, total

import foreload
from foreload.cluster.ranks import find_ranks

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
        if name not in ("RANK", "WORLD_SIZE") and not name.startswith(("SLURM", "OMPI", "PMI"))
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


# Train and validation loaders of a job whose ranks share one machine, and one cache on it.
SHARED = """
import json, os, sys
import torch.distributed as dist
import foreload
store, train, validation, memory, out = sys.argv[1:]
rank = int(os.environ["RANK"])
dist.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
cache = foreload.Cache(memory=memory + "B")
loaders = [
    foreload.DataLoader(train, 4, shuffle=True, seed=3, cache=cache, return_index=True, epochs=4),
    foreload.DataLoader(validation, 4, pad="none", cache=cache, return_index=True),
]
seen = [[[int(i) for batch in each for i in batch[2]] for each in loaders] for _ in range(4)]
dist.barrier()  # what this rank was asked for is counted
stats = [loader.stats() for loader in loaders]
print(json.dumps({"seen": seen, "stats": stats, "left": cache.memory_left}))
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.parametrize("hosts", [1, 2])
def test_ranks_share_a_cache_of_their_machine(hosts, program, tmp_path):
    need_transport(program, "ucx", tmp_path / "probe")
    train, validation = make_data(tmp_path / "train", 120), make_data(tmp_path / "validation", 31)
    memory = total(train) + total(validation) + 16 * 4000  # and what does not divide evenly
    with job_of(tmp_path, 2) as job:
        for rank in range(2):
            arguments = [tmp_path / "store", train, validation, memory, tmp_path / "out"]
            command = [sys.executable, "-c", SHARED, *map(str, arguments)]
            job.start(rank, command, {"FORELOAD_HOST": f"host{rank % hosts}"})
        results = []
        for rank in range(2):
            assert job.ranks[rank].end() == 0, job.ranks[rank].errors
            results.append(json.loads(job.ranks[rank].output))
    for epoch in range(4):
        for rank in range(2):
            expected = foreload.order(120, seed=3, ranks=2, rank=rank, epoch=epoch).tolist()
            assert results[rank]["seen"][epoch][0] == expected
        both = [index for result in results for index in result["seen"][epoch][1]]
        assert sorted(both) == list(range(31))  # none twice
    kept = [stats["tiers"][0]["bytes"] for result in results for stats in result["stats"]]
    assert sum(kept) <= memory
    assert kept[0] + kept[2] >= total(train)
    assert kept[1] + kept[3] >= total(validation)
    for number, data in enumerate((train, validation)):
        read = sum(result["stats"][number]["source_bytes"] for result in results)
        assert read <= 1.02 * total(data) + 4000
    trained = [result["stats"][0] for result in results]
    for rank, stats in enumerate(trained):
        (peer,) = stats["peers"]
        (seen_there,) = trained[1 - rank]["peers"]
        assert (peer["rank"], peer["same_host"], peer["lost"]) == (1 - rank, hosts == 1, False)
        assert peer["bytes"] == seen_there["served_bytes"]
        assert peer["same_host_bytes"] + peer["bytes"] > 0
        assert hosts == 1 or peer["same_host_bytes"] == 0
        assert (peer["wait_seconds"] > 0) == (peer["samples"] > 0)
        assert peer["corrupt"] == peer["given_up"] == 0


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
        ({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1"}, (1, 2, 1)),
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
        ((None, None), {"RANK": "2", "WORLD_SIZE": "2"}, "below the number of ranks"),
        ((None, None), {"RANK": "two", "WORLD_SIZE": "2"}, "whole number"),
        ((4, 4), {}, "rank must be at most 3"),
    ],
)
def test_what_is_not_known_is_an_error(arguments, environment, said):
    with pytest.raises(ValueError, match=said):
        find_ranks(*arguments, environment=environment)
