# SPDX-License-Identifier: Apache-2.0
"""foreload.DataLoader on several ranks: with torchrun and without, and how ranks end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jobs import FILES, SEED, Job, free_port, job_of, total

import foreload

DDP = Path(__file__).parents[2] / "examples" / "ddp.py"

# Reads a data set to the end and leaves what it saw in OUT.RANK.
LOOP = """
import json, os, signal, sys, time, warnings
import foreload

warnings.filterwarnings("ignore", message="the loop waited")
rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
given = json.loads(sys.argv[1])
loader = foreload.DataLoader(
    given["data"], batch_size=4, shuffle=True, epochs=given["epochs"], seed=given["seed"],
    return_index=True, on_error="raise", join_timeout=30, **given.get("more", {})
)
if given.get("restore"):
    loader.restore(given["restore"])
seen = []
for epoch in range(loader.state_dict()["epoch"], given["epochs"]):
    seen.append([])
    for batch, (_, _, indices) in enumerate(loader):
        seen[-1] += [int(index) for index in indices]
        if given.get("stops") is not None and epoch == 1 and batch == 0:
            if rank == given["stops"]:
                open(given["out"] + ".stopped", "w").close()
                os.kill(os.getpid(), signal.SIGSTOP)
            while not os.path.exists(given["out"] + ".stopped"):
                time.sleep(0.02)
        if rank == given.get("raises") and epoch == 1:
            raise ZeroDivisionError("in user code")
        if given.get("save") and epoch == 1 and batch == 2:
            break
    if given.get("save") and epoch == 1:
        break
    time.sleep(given.get("pause", 0) * rank)
if given.get("save") and rank == 0:
    loader.save(given["save"])
if given.get("together"):  # as ranks that train end: with an all-reduce, none before the others
    ends = [f"{given['out']}.end.{given['together']}.{other}" for other in range(ranks)]
    open(ends[rank], "w").close()
    while not all(map(os.path.exists, ends)):
        time.sleep(0.02)
with open(f"{given['out']}.{rank}", "w") as file:
    json.dump({"seen": seen, "stats": loader.stats()}, file)
"""


pytestmark = pytest.mark.usefixtures("with_ucx")


class Loop:
    """One run of LOOP by all ranks of a job."""

    def __init__(self, folder: Path, data: Path, **given: Any) -> None:
        self.folder = folder
        self.script = folder / "loop.py"
        self.script.write_text(LOOP, "utf-8")
        self.given = {"data": str(data), "epochs": 3, "seed": SEED, "out": str(folder / "out")}
        self.given |= given

    def start(self, job: Job, rank: int) -> None:
        job.python(rank, self.script, json.dumps(self.given))

    def run(self, ranks: int) -> list[dict[str, Any]]:
        with job_of(self.folder, ranks) as job:
            for rank in range(ranks):
                self.start(job, rank)
            for rank in range(ranks):
                assert job.ranks[rank].end() == 0, job.ranks[rank].errors
                assert job.ranks[rank].errors == ""
        return [self.result(rank) for rank in range(ranks)]

    def result(self, rank: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / f"out.{rank}").read_text("utf-8"))
        return found


def expected(ranks: int, rank: int, epoch: int) -> list[int]:
    order = foreload.order(FILES, ranks=ranks, rank=rank, epoch=epoch, seed=SEED)
    return [int(index) for index in order]


def test_ddp_with_torchrun(tmp_path: Path) -> None:
    """Nothing but torchrun is needed: ranks meet in torch's store, and share a user's secret."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("FORELOAD_")
    }
    environment |= {"XDG_RUNTIME_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "4",
    ]
    done = subprocess.run(
        [*command, str(DDP)], env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"epoch 2: \d+ % right", done.stdout)
    told = re.search(r"peers over (ucx .*); ([\d,]+) bytes", done.stdout)
    assert told, done.stdout + done.stderr
    assert (tmp_path / "foreload-secret").stat().st_mode & 0o777 == 0o600
    # 96 small images, each read once by one of the four.
    assert 96 * 1000 < int(told[2].replace(",", "")) < 96 * 10_000


def test_ranks_end_in_any_order(data: Path, tmp_path: Path) -> None:
    """Loaders are closed by the interpreter's exit, at different times, and nobody says a word."""
    loop = Loop(tmp_path, data, pause=0.2, more={"memory": f"{total(data)}B"})
    results = loop.run(3)
    for rank, result in enumerate(results):
        assert result["seen"] == [expected(3, rank, epoch) for epoch in range(3)]
        assert result["stats"]["transport"].startswith("ucx")
        assert result["stats"]["transport_why"] == "auto: this job was not started by mpirun"


def test_one_rank_raises(data: Path, tmp_path: Path) -> None:
    loop = Loop(tmp_path, data, raises=1, more={"memory": f"{total(data)}B"})
    with job_of(tmp_path, 3) as job:
        for rank in range(3):
            loop.start(job, rank)
        assert job.ranks[1].end() == 1
        assert "ZeroDivisionError: in user code" in job.ranks[1].errors
        began = time.monotonic()
        for rank in (0, 2):
            assert job.ranks[rank].end() == 0, job.ranks[rank].errors
            seen = loop.result(rank)["seen"]
            assert seen == [expected(3, rank, epoch) for epoch in range(3)]
        assert time.monotonic() - began < 60  # nobody waited for the one that went


def test_a_silent_rank_is_given_up_after_the_peer_timeout(tmp_path: Path) -> None:
    """Files so large that a rank cannot have everything before the other one is stopped."""
    for number in range(48):
        file = tmp_path / "large" / f"{number:02}.jpg"
        file.parent.mkdir(exist_ok=True)
        with open(file, "wb") as opened:
            opened.truncate(4 << 20)
    more = {"memory": 48 * (4 << 20), "peer_timeout": 2.0}
    loop = Loop(tmp_path, tmp_path / "large", stops=1, epochs=4, more=more)
    with job_of(tmp_path, 2) as job:
        for rank in range(2):
            loop.start(job, rank)
        assert job.ranks[0].end() == 0, job.ranks[0].errors
    result = loop.result(0)
    order = [foreload.order(48, ranks=2, epoch=epoch, seed=SEED).tolist() for epoch in range(4)]
    assert result["seen"] == order
    assert result["stats"]["dead_peers"] == [1]
    (peer,) = result["stats"]["peers"]
    assert (peer["rank"], peer["lost"]) == (1, True)
    assert peer["longest_wait_ms"] < 9000  # 10 s are the default


def test_elastic_restart(data: Path, tmp_path: Path) -> None:
    """State of four ranks goes on with two and with eight, and their disk cache is good for all.

    A rank that left serves nobody, and the others would read its share from the source: they end
    together.
    """
    disk = {"disk": f"{tmp_path / 'cache'}:{3 * total(data) + (64 << 20)}B", "peer_timeout": 60.0}
    state = str(tmp_path / "state.json")
    first = Loop(tmp_path, data, save=state, more=disk, together="first").run(4)
    assert sum(result["stats"]["source_bytes"] for result in first) <= 1.02 * total(data)
    consumed = json.loads(Path(state).read_text("utf-8"))["consumed"]
    assert consumed == 3 * 4 * 4
    rest = foreload.order(FILES, epoch=1, seed=SEED)[consumed:]
    for ranks in (2, 8):
        results = Loop(tmp_path, data, restore=state, more=disk, together=str(ranks)).run(ranks)
        seen = [sorted({i for result in results for i in result["seen"][e]}) for e in range(2)]
        assert seen[0] == sorted(int(index) for index in rest)
        assert seen[1] == list(range(FILES))
        again = sum(result["stats"]["source_bytes"] for result in results)
        assert again <= 0.05 * total(data), ranks


def test_without_a_secret_on_several_nodes(data: Path, tmp_path: Path) -> None:
    """The error says what to set."""
    loop = Loop(tmp_path, data, more={"memory": "1000B"})
    with job_of(tmp_path, 2) as job:
        environment = {
            "LOCAL_WORLD_SIZE": "1",
            "LOCAL_RANK": "0",
            "FORELOAD_RENDEZVOUS": "",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "FORELOAD_SECRET": "",
        }
        command = [sys.executable, str(loop.script), json.dumps(loop.given)]
        rank = job.start(0, command, environment)
        assert rank.end() == 1
        assert "set FORELOAD_SECRET" in rank.errors
