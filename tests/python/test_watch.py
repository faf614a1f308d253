# SPDX-License-Identifier: Apache-2.0
"""`foreload watch`: what it says of a job that goes on, has stopped or has ended, and of several
ranks; how it does in a real terminal."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foreload import watch

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HEADER = {
    "foreload_run": 2,
    "made_by": "a test",
    "dataset": "/data/train",
    "rank": 0,
    "ranks": 1,
    "tiers": [{"name": "memory", "bytes": 2 << 30}, {"name": "disk", "bytes": 0}],
}


def moment(at: float, batches: int, **more: Any) -> dict[str, Any]:
    """After so many batches of 10 samples and 1 MB."""
    return {
        "kind": "moment",
        "at": at,
        "epoch": 3,
        "batches": batches,
        "of": 400,
        "samples": 10 * batches,
        "bytes": 1_000_000 * batches,
        "from": {"memory": 250_000 * batches, "source": 750_000 * batches},
        "waited": 0.62,
        "stages": {"source": [0.98, 6e6], "decode": [0.3, 6e6]},
        "ready": 1,
        "kept_bytes": [1 << 30, 0],
        "verdict": "waited 62 % for the source (6.0 MB/s)",
    } | more


EPOCH = {
    "kind": "epoch",
    "at": 60.0,
    "epoch": 3,
    "seconds": 20.0,
    "samples": 4_000,
    "bytes": 400_000_000,
    "from": {"memory": 400_000_000},
    "wait_fraction": 0.01,
    "batch_wait_ms": {"p50": 0.0, "p99": 3.0, "max": 7.5},
    "verdict": {
        "text": "did not wait: the loop itself is the limit",
        "waited": 0.01,
        "helps": [],
        "losses": [],
    },
}


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def write(file: Path, *records: object) -> Path:
    file.write_text(lines(*records), "utf-8")
    return file


def test_one_line_says_how_a_rank_does(run: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "run.jsonl", HEADER, moment(10, 100), moment(12, 112))
    for options in (["--once"], []):  # there is no terminal
        assert run("watch", *options, file).stdout.startswith(
            "rank 0: epoch 3, batches 112/400, 60 samples/s, 6.0 MB/s, waited 62 %, from memory "
            "25 % source 75 %, memory 1.0 GiB of 2.0 GiB; waited 62 % for the source (6.0 MB/s)"
        )


def figures(file: Path, later: float = 0.0) -> watch.Figures:
    """What is shown so many seconds after the file was written."""
    follower = watch.Follower(file)
    follower.update()
    return watch.Figures(follower, follower.changed + later)


def test_an_epoch_that_has_ended_is_newer_than_its_moments(tmp_path: Path) -> None:
    shown = figures(write(tmp_path / "run", HEADER, moment(58, 390), EPOCH))
    assert shown.batches == "done"
    assert shown.samples_rate == "200"
    assert shown.verdict == "did not wait: the loop itself is the limit"
    assert shown.caches == ["memory 1.0 GiB of 2.0 GiB"]


def test_a_file_that_stops_growing_is_said_to(tmp_path: Path) -> None:
    file = write(tmp_path / "run", HEADER, moment(10, 100), moment(12, 112))
    assert figures(file, later=2).news == ""
    assert figures(file, later=34).news == "no news for 34 s"


def test_news_are_rarer_the_longer_a_run_lasts(tmp_path: Path) -> None:
    file = write(tmp_path / "run", HEADER, moment(90_000, 100), moment(90_015, 112))
    assert figures(file, later=34).news == ""


def test_a_job_that_has_had_its_epochs_is_finished(tmp_path: Path) -> None:
    file = write(tmp_path / "run", HEADER | {"epochs": 4}, EPOCH)
    assert figures(file, later=99).news == "finished"


def test_a_loader_that_was_closed_is_said_to_be(tmp_path: Path) -> None:
    """Without epochs= nothing ever said that a run was over."""
    file = write(tmp_path / "run", HEADER, EPOCH, {"kind": "end", "at": 61.0})
    assert figures(file, later=99).news == "closed"


@pytest.mark.parametrize("ends", ["closed", "dropped", "process"])
def test_a_loader_says_in_its_run_file_that_it_has_ended(tmp_path: Path, ends: str) -> None:
    code = (
        "import sys, foreload\n"
        "loader = foreload.DataLoader([1, 2, 3], run_file=sys.argv[1], num_workers=0)\n"
        "list(loader)\n"
        + {"closed": "loader.close()\n", "dropped": "del loader\n", "process": ""}[ends]
    )
    file = tmp_path / "run.jsonl"
    subprocess.run([sys.executable, "-c", code, file], check=True, timeout=120)
    assert figures(file).news == "closed"


def test_a_fork_does_not_end_the_record_of_a_loader(tmp_path: Path) -> None:
    code = (
        "import os, sys, foreload\n"
        "loader = foreload.DataLoader([1, 2, 3], run_file=sys.argv[1], num_workers=0)\n"
        "if os.fork() == 0:\n    sys.exit()\n"
        "os.wait()\n"
        "print('end' in open(sys.argv[1]).read())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "run"],
        check=True,
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "False\n"


def test_a_process_that_was_killed_is_said_to_have_ended(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys, foreload\n"
        "loader = foreload.DataLoader([1, 2, 3], run_file=sys.argv[1], num_workers=0)\n"
        "list(loader)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    file = tmp_path / "run.jsonl"
    subprocess.run([sys.executable, "-c", code, file], check=False, timeout=120)
    assert figures(file).news == "its process has ended without closing the loader"


def test_nobody_knows_of_processes_on_other_machines(tmp_path: Path) -> None:
    process = {"number": 2**22 + 1, "host": "elsewhere", "numbers": "pid:[1]"}
    file = write(tmp_path / "run", HEADER | {"process": process}, EPOCH)
    assert figures(file).news == ""


def test_losses_are_said(tmp_path: Path) -> None:
    lost = moment(12, 112, losses=["3 samples were skipped"])
    assert figures(write(tmp_path / "run", HEADER, lost)).line().endswith("3 samples were skipped")


def test_a_file_is_followed_as_it_grows(tmp_path: Path) -> None:
    file = write(tmp_path / "run", HEADER)
    follower = watch.Follower(file)
    follower.update()
    assert watch.Figures(follower, time.time()).verdict == "no batch yet"
    text = lines(moment(10, 100))
    with file.open("a") as stream:
        stream.write(text[:50])
    follower.update()
    assert follower.moment is None
    with file.open("a") as stream:
        stream.write(text[50:])
    follower.update()
    assert follower.moment is not None
    write(file, HEADER)  # another run
    follower.update()
    assert follower.moment is None


def test_a_long_file_is_read_from_its_end(tmp_path: Path) -> None:
    moments = [moment(i, i % 400) for i in range(1, 2000)]
    assert figures(write(tmp_path / "run", HEADER, *moments)).batches == "399/400"


@pytest.mark.parametrize("given", ["run.jsonl", "run.jsonl.0"])
def test_the_files_of_all_ranks_are_found(run: Run, tmp_path: Path, given: str) -> None:
    for rank in range(11):
        header = HEADER | {"rank": rank, "ranks": 11}
        write(tmp_path / f"run.jsonl.{rank}", header, moment(10, 100 + rank))
    done = run("watch", "--once", tmp_path / given)
    ranks = [line.split(":")[0] for line in done.stdout.splitlines()]
    assert ranks == [f"rank {rank}" for rank in range(11)]


def test_one_rank_of_several_may_be_watched_alone(run: Run, tmp_path: Path) -> None:
    for rank in range(2):
        write(tmp_path / f"run.{rank}", HEADER | {"rank": rank, "ranks": 2}, moment(10, 100))
    assert run("watch", "--once", tmp_path / "run.1").stdout.startswith("rank 1:")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"hello\n", "not a run file"), (b'{"foreload_run": 9}\n', "format 9")],
)
def test_refuses_what_is_no_run_file(
    run: Run, tmp_path: Path, content: bytes, complaint: str
) -> None:
    (tmp_path / "other").write_bytes(content)
    done = run("watch", tmp_path / "other")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    missing = run("watch", tmp_path / "none")
    assert (missing.returncode, "No such file" in missing.stderr) == (2, True)


class Terminal:
    """A real one, in which a command runs."""

    def __init__(self, folder: Path, command: list[str], columns: int, rows: int) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        size = ["-x", str(columns), "-y", str(rows)]
        # The shell survives Ctrl-C and stays, so that what the command leaves can be seen.
        script = 'trap : INT; "$@"; echo ended with $?; cat'
        self.run("new-session", "-d", *size, "sh", "-c", script, "sh", *command)

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._tmux, *arguments], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait_for(self, text: str) -> str:
        """The screen, as soon as it shows the text."""
        deadline = time.monotonic() + 60
        while text not in (screen := self.run("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.05)
        return screen


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux")
    opened: list[Terminal] = []

    def open_terminal(*command: object, columns: int = 100, rows: int = 24) -> Terminal:
        opened.append(Terminal(tmp_path, list(map(str, command)), columns, rows))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.run("kill-server")


def test_in_a_terminal_it_is_drawn_again_and_ends_with_control_c(
    program: str, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    file = write(tmp_path / "run.jsonl", HEADER, moment(10, 100))
    shown = terminal(program, "watch", file)
    screen = shown.wait_for("100/400")
    assert "waited 62 % for the source (6.0 MB/s)" in screen
    assert "kept    memory 1.0 GiB of 2.0 GiB" in screen
    with file.open("a") as stream:
        stream.write(lines(moment(11, 140)))
    screen = shown.wait_for("140/400")
    assert "100/400" not in screen
    assert "400 samples/s, 40.0 MB/s" in screen
    shown.run("send-keys", "C-c")
    screen = shown.wait_for("ended with 0")
    assert "140/400" in screen  # the last picture stays
    assert "Traceback" not in screen


def test_ranks_are_rows_that_fit_a_small_terminal(
    program: str, terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    for rank in range(3):
        header = HEADER | {"rank": rank, "ranks": 3}
        write(tmp_path / f"run.{rank}", header, moment(10, 100 + rank))
    screen = terminal(program, "watch", tmp_path / "run.0", columns=60, rows=20).wait_for("102/400")
    rows = [line.split() for line in screen.splitlines()]
    assert [row[:3] for row in rows if len(row) > 2 and row[2].endswith("/400")] == [
        [str(rank), "3", f"{100 + rank}/400"] for rank in range(3)
    ]
