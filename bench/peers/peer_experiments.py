# SPDX-License-Identifier: Apache-2.0
"""The experiments with several ranks, one function each."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import pair
from cluster import BATCH, Cluster, Json, Result, right_digests
from data import DataSet, Recipe, make
from network import Network
from processes import pss_bytes
from report import Report
from slowfs import SlowFs

MB = 1_000_000
EPOCHS = 5
LINK_MEGABITS = 1000
SOURCE = {"bandwidth": "60MB", "open_ms": 4, "read_ms": 1, "stat_ms": 0.5}
STAGING = 4 << 20  # of a rank: a few batches, little beside what it keeps
# For speed: a twentieth of the data set. With a few batches ahead, ranks that ask the same peer at
# the same time wait for each other while other links are idle.
DEEP_STAGING = 16 << 20
FRAME = 1514 / 1448  # of Ethernet with 1,500 bytes, as tbf counts them, over what TCP carries in it


@dataclass(frozen=True)
class Bench:
    cluster: Cluster
    slowfs: Path | None
    peers_bench: Path | None
    folder: Path
    scale: float = 1.0

    def data(self, files: int) -> DataSet:
        return make(self.folder / "data", Recipe("fixed", max(64, round(files * self.scale))))

    def slow(self, data: DataSet, **settings: object) -> SlowFs:
        return SlowFs(data.root, self.slowfs, **settings)


def options(epochs: int, memory: int, *more: str, staging: int = STAGING) -> list[str]:
    given = ["--epochs", str(epochs), "--memory", f"{memory}B", "--staging", f"{staging}B"]
    return [*given, *more]


def bound(data: DataSet, capacity: float, epochs: int = EPOCHS) -> float:
    return data.bytes + (epochs - 1) * max(0.0, data.bytes * (1 - capacity))


def traffic(bench: Bench) -> Report:
    report = Report(
        "traffic",
        f"Bytes read from the source in {EPOCHS} epochs over what no cache of that size can do "
        "with less than; every rank a node with 1 Gbit/s; counted by the file system. Beside "
        "it the published placement, where every rank chooses for itself, as the plan computes it.",
        ["ranks, capacity", "x the bound", "independent", "hedged %", "digests right", "seconds"],
    )
    data = bench.data(3200)
    for ranks in (4, 8):
        with Network(ranks, LINK_MEGABITS) as network, bench.slow(data) as slow:
            for percent in (50, 100, 200):
                memory = data.bytes * percent // 100 // ranks
                slow.reset()
                result = bench.cluster.read(slow.path, ranks, options(EPOCHS, memory), network)
                read = slow.counters()["read_bytes"]
                least = bound(data, percent / 100)
                report.add(
                    f"{ranks}, {percent} %",
                    f"{read / least:.4f}",
                    f"{bench.cluster.independent(data.root, ranks, EPOCHS, memory) / least:.4f}",
                    100 * result.report["hedged_bytes"] / read,
                    right_digests(result, data, ranks),
                    result.seconds,
                )
                report.runs.append({"ranks": ranks, "percent": percent, "read": read})
    report.notes.append(
        f"{data.files} files, {data.bytes / MB:.0f} MB; batches of {BATCH}, staging of "
        f"{STAGING >> 20} MiB a rank, which holds samples too."
    )
    return report


def _job_seconds(result: Result) -> list[float]:
    """Of each epoch: from when the last rank ended the one before to when the last ended this."""
    own = [accumulate(epoch["seconds"] for epoch in epochs) for epochs in result.epochs]
    ends = [max(of_all) for of_all in zip(*own, strict=True)]
    return [end - before for before, end in pairwise([0.0, *ends])]


def _received(epoch: Json) -> int:
    return int(epoch["from"]["peer"] - epoch["same_host_bytes"])


def _busiest_link(result: Result, first: int) -> int:
    """Most bytes of samples that a rank received, or sent, from epoch `first` on. What was sent is
    counted over the whole run: in the first epoch ranks ask each other for next to nothing."""
    received = (sum(map(_received, epochs[first:])) for epochs in result.epochs)
    sent = (sum(peer["served_bytes"] for peer in rank["peers"]) for rank in result.report["ranks"])
    return max(*received, *sent)


def speed(bench: Bench) -> Report:
    """Epochs 2 to 5 against the same ranks that find everything in their own memory."""
    report = Report(
        "speed",
        "Source 60 MB/s in all, 4 ms an open, 1 ms a read; capacity 100 %; 4 ranks, each a node "
        "with 1 Gbit/s. Ratio: seconds over the longer of what the same ranks need to read from "
        "their own memory and what the busiest link needs for the bytes of samples alone; then "
        "with the headers of its frames.",
        ["epoch", "x the limit", "x with frames", "seconds", "own memory", "link", "of the source"],
    )
    ranks = 4
    data = bench.data(3200)
    with Network(ranks, LINK_MEGABITS) as network:
        # The same samples every epoch: after the first, each rank has its own.
        alone = options(
            3, data.bytes, "--order", "sequential", "--transport", "none", staging=DEEP_STAGING
        )
        own = bench.cluster.read(data.root, ranks, alone, network)
        from_memory = min(_job_seconds(own)[1:])
        with bench.slow(data, **SOURCE) as slow:
            result = bench.cluster.read(
                slow.path,
                ranks,
                options(EPOCHS, data.bytes * 102 // 100 // ranks, staging=DEEP_STAGING),
                network,
            )
    times = _job_seconds(result)

    def add(name: object, seconds: float, own_memory: float, most: int) -> None:
        link = most / (LINK_MEGABITS * 1e6 / 8)
        ratio = seconds / max(own_memory, link)
        with_frames = seconds / max(own_memory, FRAME * link)
        report.add(name, ratio, with_frames, seconds, own_memory, link, None)

    share = 100 * data.bytes / times[0] / (60 * MB)
    report.add(1, None, None, times[0], from_memory, None, f"{share:.1f} %")
    for epoch in range(1, EPOCHS):
        most = max(_received(epochs[epoch]) for epochs in result.epochs)
        add(epoch + 1, times[epoch], from_memory, most)
    # Reading ahead moves work over the borders of epochs, so this is the one that counts.
    add(
        f"2 to {EPOCHS}",
        sum(times[1:]),
        (EPOCHS - 1) * from_memory,
        _busiest_link(result, 1),
    )
    right = right_digests(result, data, ranks)
    report.notes.append(
        f"{data.files} files, {data.bytes / MB:.0f} MB; staging of {DEEP_STAGING >> 20} MiB a "
        f"rank; digests {'right' if right else 'WRONG'}; read from the source: "
        f"{result.report['source_bytes'] / data.bytes:.4f} x the data set."
    )
    return report


def death(bench: Bench) -> Report:
    report = Report(
        "death",
        f"One of 4 ranks is killed in epoch 2 of {EPOCHS}. What survivors read from the source in "
        "the epochs after that, in shares of what the dead rank held.",
        ["capacity", "longest wait s", "digests right", "epoch 3", "epoch 4", "epoch 5"],
    )
    ranks, victim = 4, 3
    data = bench.data(800)
    with Network(ranks, LINK_MEGABITS) as network:
        for percent in (100, 150):
            memory = data.bytes * percent // 100 // ranks
            held = min(memory, data.bytes // ranks)

            def kill(running: list[subprocess.Popen[str]], ended: Callable[[int], int]) -> None:
                while ended(victim) < 1 and running[victim].poll() is None:
                    time.sleep(0.02)
                time.sleep(0.3)
                running[victim].kill()
                running[victim].wait()

            result = bench.cluster.read(
                data.root, ranks, options(EPOCHS, memory, "--step-ms", "40"), network, kill
            )
            survivors = [epochs for rank, epochs in enumerate(result.epochs) if rank != victim]
            waits = [epoch["batch_wait_ms"]["max"] for epochs in survivors for epoch in epochs]
            shares = [
                sum(epochs[epoch]["from"]["source"] for epochs in survivors) / held
                for epoch in range(2, EPOCHS)
            ]
            report.add(
                f"{percent} %", max(waits) / 1000, right_digests(result, data, ranks), *shares
            )
    return report


def many(bench: Bench) -> Report:
    report = Report(
        "many",
        f"Ranks as processes on this machine, on loopback, samples of about 1 KB, {EPOCHS} epochs.",
        ["ranks", "start s", "memory a rank MiB", "most MiB", "digests right", "seconds"],
    )
    for ranks in (16, 64):
        root = bench.folder / f"tiny-{ranks}"
        data = tiny(root, 50 * ranks)
        peaks = [0] * ranks

        def watch(
            running: list[subprocess.Popen[str]],
            ended: Callable[[int], int],
            peaks: list[int] = peaks,
        ) -> None:
            while ended(0) < EPOCHS and running[0].poll() is None:
                for rank, process in enumerate(running):
                    peaks[rank] = max(peaks[rank], pss_bytes(process.pid))
                time.sleep(0.1)

        result = bench.cluster.read(
            data.root,
            ranks,
            options(EPOCHS, data.bytes * 2 // ranks, "--step-ms", "20"),
            meanwhile=watch,
        )
        report.add(
            ranks,
            result.report["first_batch_seconds"],
            statistics.mean(peaks) / (1 << 20),
            max(peaks) / (1 << 20),
            right_digests(result, data, ranks),
            result.seconds,
        )
    report.notes.append(
        "Start: from the start of a rank to its first batch, of the slowest rank. Memory: "
        "proportional (PSS), the highest seen."
    )
    return report


class Tiny(Recipe):
    """Files of a thousand bytes."""

    def contents(self, sample: int) -> bytes:
        return sample.to_bytes(4, "little") * (200 + sample % 100)


def tiny(root: Path, files: int) -> DataSet:
    recipe = Tiny("fixed", files)
    for sample in range(files):
        path = root / recipe.path(sample)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recipe.contents(sample))
    return TinySet(root, recipe)


class TinySet(DataSet):
    @property
    def bytes(self) -> int:
        return sum(len(self.recipe.contents(sample)) for sample in range(self.files))


def mix(bench: Bench) -> Report:
    """A source that is slower than the network, as fast, and faster."""
    ranks, megabits = 4, 200
    report = Report(
        "mix",
        f"{ranks} ranks, each a node with {megabits} Mbit/s, caches of 100 %, a loop that computes "
        f"2 ms a batch; epochs 2 to {EPOCHS}. `even`: what a job would take that asked peers and "
        "source for just as much as both give in the same time, from the two runs that ask only "
        "one of them. Ratio: that over the time with objective=time. Then medians of the runs in "
        "seconds, and the best of caches of 25, 50 and 75 %, with objective=traffic.",
        [
            *("source MB/s, share of a rank over its link", "even over chosen", "chosen", "even"),
            *("peers only", "source only", "best smaller cache"),
            *("chosen from source", "digests right"),
        ],
    )
    data = bench.data(1600)
    link = megabits / 8
    with Network(ranks, megabits) as network:
        for share in (0.4, 1, 4):
            source = round(share * link * ranks)
            with bench.slow(data, bandwidth=f"{source}MB") as slow:
                runs: dict[str, list[Result]] = {}
                for turn in range(3):
                    for name, kept, objective in (
                        ("chosen", 1.02, "time"),
                        *((f"{cache}", cache, "traffic") for cache in (0.0, 0.25, 0.5, 0.75, 1.02)),
                    )[:: 1 if turn % 2 else -1]:
                        memory = int(kept * data.bytes) // ranks
                        more = ["--objective", objective, "--profile", "none", "--step-ms", "2"]
                        given = options(EPOCHS, memory, *more, staging=DEEP_STAGING)
                        result = bench.cluster.read(slow.path, ranks, given, network)
                        runs.setdefault(name, []).append(result)
            seconds = {
                name: statistics.median(sum(_job_seconds(result)[1:]) for result in results)
                for name, results in runs.items()
            }
            peers, alone = seconds["1.02"], seconds["0.0"]
            others = 1 - 1 / ranks  # the part of the data that is not a rank's own
            even = peers * others * alone / (peers + others * alone)
            chosen = runs["chosen"]
            later = [epoch for result in chosen for rank in result.epochs for epoch in rank[1:]]
            report.add(
                *(f"{source}, {share}", even / seconds["chosen"], seconds["chosen"], even),
                *(peers, alone, min(seconds["0.25"], seconds["0.5"], seconds["0.75"])),
                sum(e["from"]["source"] for e in later) / sum(e["bytes"] for e in later),
                all(right_digests(result, data, ranks) for result in chosen),
            )
            report.runs.append({"source": source, "seconds": seconds})
    return report


def one_pair(bench: Bench) -> Report:
    report = Report(
        "pair",
        "Peer reads of 100 KiB over UCX against `ucx_perftest -e` on the same pair, medians of 5 "
        "rounds in turn.",
        ["", "ratio", "foreload MB/s", "ucx_perftest MB/s", "one request alone us"],
    )
    if bench.peers_bench is None:
        raise RuntimeError("peers_bench is not built: make build-release, or give --peers-bench")
    figures: Json = pair.measure(str(bench.peers_bench))
    report.add("100 KiB", figures["ratio"], figures["ours"], figures["theirs"], figures["latency"])
    return report


EXPERIMENTS = {
    "traffic": traffic,
    "speed": speed,
    "death": death,
    "many": many,
    "mix": mix,
    "pair": one_pair,
}
