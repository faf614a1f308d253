# SPDX-License-Identifier: Apache-2.0
"""The experiments of the engine, one function each.

An experiment makes its data, runs its contestants in turn, several rounds of them, and reports
medians. Contestants that cannot run (foreload without the verb `read`, fio not installed) are left
out with a note, so that the rest can be measured.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from data import DataSet, Recipe, make
from processes import BATCH, Foreload, Json, Torch, fio_random_read
from report import Report
from slowfs import SlowFs

MB = 1_000_000
# A busy network file system: 60 MB/s in all, and what each request costs.
SLOW = {"bandwidth": "60MB", "open_ms": 4, "read_ms": 1, "stat_ms": 0.5}
SLOW_BYTES = 60 * MB

Runs = dict[str, list[Json]]


@dataclass(frozen=True)
class Bench:
    foreload: Foreload
    torch: Torch
    slowfs: Path | None  # the program; None: where the builds leave it
    folder: Path  # for data and caches
    rounds: int = 3
    scale: float = 1.0  # of the number of files; below 1 only to try an experiment out

    def data(self, kind: str, files: int) -> DataSet:
        return make(self.folder / "data", Recipe(kind, max(16, round(files * self.scale))))

    def slow(self, data: DataSet, **settings: object) -> SlowFs:
        return SlowFs(data.root, self.slowfs, **settings)

    @contextmanager
    def cache_folder(self) -> Iterator[Path]:
        folder = Path(tempfile.mkdtemp(prefix="cache-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def take_turns(self, report: Report, contestants: dict[str, Callable[[], Json]]) -> Runs:
        """Every contestant once a round, each round begun by another one."""
        able = dict(contestants)
        if not self.foreload.can_read():
            able = {name: run for name, run in able.items() if not name.startswith("foreload")}
            note = "foreload was left out: its program has no verb `read`."
            if note not in report.notes:
                report.notes.append(note)
        names = list(able)
        runs: Runs = {name: [] for name in names}
        for turn in range(self.rounds):
            first = turn % max(1, len(names))
            for name in names[first:] + names[:first]:
                result = able[name]()
                runs[name].append(result)
                report.runs.append({"contestant": name, "round": turn, "result": result})
        return runs


def median(runs: list[Json] | None, value: Callable[[Json], float]) -> float | None:
    return statistics.median(map(value, runs)) if runs else None


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def last_rate(run: Json) -> float:
    """Samples per second of the last epoch."""
    return run["epochs"][-1]["samples"] / run["epochs"][-1]["seconds"]


def late_rate(run: Json) -> float:
    """Samples per second, the median of the last five epochs."""
    return statistics.median(e["samples"] / e["seconds"] for e in run["epochs"][-5:])


def same_digests(report: Report, runs: Runs) -> None:
    """Everybody read the same bytes in the same order, or the comparison means nothing."""
    orders = {
        tuple(epoch["digest"] for epoch in run["epochs"])
        for of_one in runs.values()
        for run in of_one
        if all(epoch.get("digest") for epoch in run["epochs"])
    }
    if len(orders) > 1:
        report.notes.append("WRONG: the digests of what was delivered differ.")


def bandwidth(bench: Bench) -> Report:
    report = Report(
        "bandwidth",
        "First epoch through 60 MB/s in all, 4 ms an open, 1 ms a read, 0.5 ms a stat; files "
        "of about 100 KiB. Ratio: foreload's bandwidth over this one's.",
        ["loader", "foreload is x times", "share of the source", "epoch s", "first batch s"],
    )
    data = bench.data("fixed", 4000)
    with bench.slow(data, **SLOW) as slow:
        runs = bench.take_turns(
            report,
            {
                "foreload": lambda: bench.foreload.read(slow.path, memory=2 * data.bytes),
                "torch, 2 workers": lambda: bench.torch.read(slow.path, workers=2),
                "torch, 8 workers": lambda: bench.torch.read(slow.path, workers=8),
            },
        )
    same_digests(report, runs)

    def share(run: Json) -> float:
        return run["epochs"][0]["bytes"] / run["epochs"][0]["seconds"] / SLOW_BYTES

    for name, of_one in runs.items():
        report.add(
            name,
            ratio(median(runs.get("foreload"), share), median(of_one, share)),
            median(of_one, share),
            median(of_one, lambda run: run["epochs"][0]["seconds"]),
            median(of_one, lambda run: run["first_batch_seconds"]),
        )
    return report


def traffic(bench: Bench, epochs: int = 5) -> Report:
    report = Report(
        "traffic",
        f"Bytes read from the source in {epochs} epochs with caches of C bytes, half memory and "
        "half disk, over the least possible, S + (epochs - 1) x max(0, S - C).",
        ["data set", "x the least", "C / S", "bytes read / S", "reads / file", "opens / file"],
    )
    sets = [("fixed", 2000), ("lognormal", 2000), ("large", 64)]
    for kind, files in sets:
        data = bench.data(kind, files)
        for percent in (0, 25, 50, 75, 100, 150):
            capacity = data.bytes * percent // 100
            least = data.bytes + (epochs - 1) * max(0, data.bytes - capacity)

            def run(data: DataSet = data, capacity: int = capacity) -> Json:
                with bench.slow(data) as slow, bench.cache_folder() as cache:
                    disk = (cache, capacity - capacity // 2) if capacity else None
                    result = bench.foreload.read(
                        slow.path, epochs=epochs, memory=capacity // 2, disk=disk
                    )
                    return result | {"counters": slow.counters()}

            of_one = bench.take_turns(report, {"foreload": run}).get("foreload")
            read = median(of_one, lambda run: run["counters"]["read_bytes"])
            report.add(
                f"{kind}, {data.files} files",
                ratio(read, least),
                percent / 100,
                ratio(read, data.bytes),
                ratio(median(of_one, lambda run: run["counters"]["reads"]), data.files),
                ratio(median(of_one, lambda run: run["counters"]["opens"]), data.files),
            )
    return report


def warm(bench: Bench) -> Report:
    report = Report(
        "warm",
        "A second run with another seed and more epochs on a disk cache that the first one filled. "
        "Goal: it reads less than 1 % of the data set from the source.",
        ["run", "bytes read / S", "below 1 %", "epoch 1 s", "first batch s"],
    )
    data = bench.data("fixed", 2000)

    def run() -> Json:
        with bench.slow(data) as slow, bench.cache_folder() as cache:
            disk = (cache, data.bytes * 3 // 2)
            both: Json = {}
            for name, seed, epochs in (("first", 1, 1), ("second", 2, 3)):
                slow.reset()
                both[name] = bench.foreload.read(slow.path, epochs=epochs, disk=disk, seed=seed)
                both[name]["counters"] = slow.counters()
            return both

    of_both = bench.take_turns(report, {"foreload": run}).get("foreload")
    for name in ("first", "second"):
        of_one = [both[name] for both in of_both] if of_both else None
        share = ratio(median(of_one, lambda run: run["counters"]["read_bytes"]), data.bytes)
        report.add(
            name,
            share,
            share < 0.01 if share is not None and name == "second" else None,
            median(of_one, lambda run: run["epochs"][0]["seconds"]),
            median(of_one, lambda run: run["first_batch_seconds"]),
        )
    return report


def memcpy_rate(block: int = 100 << 10, blocks: int = 4000, passes: int = 3) -> Json:
    """Blocks per second that one thread copies, in random order, into the memory of a batch."""
    pool = np.ones((blocks, block), dtype=np.uint8)
    batch = np.empty((BATCH, block), dtype=np.uint8)
    order = np.random.Generator(np.random.Philox(1)).permutation(blocks)
    best = 0.0
    for _ in range(passes):
        begin = time.monotonic()
        for position, source in enumerate(order):
            batch[position % BATCH] = pool[source]
        best = max(best, blocks / (time.monotonic() - begin))
    return {"epochs": [{"samples": best, "seconds": 1.0}]}


def memory(bench: Bench) -> Report:
    report = Report(
        "memory",
        "Everything in memory, median of the last five of ten epochs. torch reads the same files "
        "from the page cache. Ratio: foreload's samples a second over this one's; the second line "
        "without the digest that `foreload read` computes of what was delivered, which copying "
        "alone does not have either.",
        ["loader", "foreload is x times", "without digest x", "samples/s"],
    )
    data = bench.data("fixed", 4000)
    room = 2 * data.bytes
    runs = bench.take_turns(
        report,
        {
            "foreload": lambda: bench.foreload.read(data.root, epochs=10, memory=room),
            "foreload, no digest": lambda: bench.foreload.read(
                data.root, epochs=10, memory=room, digest=False
            ),
            "torch, 2 workers": lambda: bench.torch.read(data.root, workers=2, epochs=3),
            "torch, no worker": lambda: bench.torch.read(data.root, workers=0, epochs=10),
            "memcpy of 100 KiB, one thread": memcpy_rate,
        },
    )
    with_digest = median(runs.get("foreload"), late_rate)
    without = median(runs.get("foreload, no digest"), late_rate)
    for name, of_one in runs.items():
        rate = median(of_one, late_rate)
        report.add(name, ratio(with_digest, rate), ratio(without, rate), rate)
    return report


def disk(bench: Bench) -> Report:
    report = Report(
        "disk",
        "Everything on disk and nothing in memory, median of the last five of ten epochs, against "
        "fio reading requests of the mean size at random from the same disk, 32 in flight, around "
        "the page cache. foreload checks every sample's checksum. Ratio: foreload's bandwidth over "
        "this one's.",
        ["reader", "foreload is x times", "MB/s"],
    )
    data = bench.data("fixed", 4000)
    request = data.bytes // data.files // 4096 * 4096
    with bench.cache_folder() as cache, bench.cache_folder() as other:
        room = (cache, data.bytes * 3 // 2)
        contestants: dict[str, Callable[[], Json]] = {
            "foreload": lambda: bench.foreload.read(data.root, epochs=10, disk=room, digest=False)
        }
        if shutil.which("fio"):
            contestants["fio"] = lambda: fio_random_read(other / "fio", data.bytes, request, 32, 5)
        else:
            report.notes.append("fio was left out: it is not installed.")
        runs = bench.take_turns(report, contestants)

    def rate(run: Json) -> float:
        if "bytes_per_second" in run:
            return run["bytes_per_second"] / MB
        return late_rate(run) * data.bytes / data.files / MB

    for name, of_one in runs.items():
        value = median(of_one, rate)
        report.add(name, ratio(median(runs.get("foreload"), rate), value), value)
    return report


def compute(bench: Bench) -> Report:
    report = Report(
        "compute",
        "A loop that computes 65 ms after every batch and so wants about 100 MB/s, from sources of "
        "163 to 1,968 MB/s; nothing is kept, every epoch reads the source. Ratio: time of the "
        "epoch over that of its steps alone. Goal: equal within 2 % whatever the source gives.",
        ["loader", "x the steps alone", "source MB/s", "epoch s", "first epoch s", "waiting"],
    )
    data = bench.data("fixed", 2000)
    step = 65.0
    for rate in (163, 280, 1603, 1968):
        with bench.slow(data, **SLOW | {"bandwidth": f"{rate}MB"}) as slow:

            def foreload(path: Path = slow.path) -> Json:
                return bench.foreload.read(path, epochs=2, step_ms=step)

            def torch(path: Path = slow.path) -> Json:
                return bench.torch.read(path, workers=8, epochs=2, step_ms=step)

            runs = bench.take_turns(report, {"foreload": foreload, "torch, 8 workers": torch})
        alone = -(-data.files // BATCH) * step / 1e3
        for name, of_one in runs.items():
            first = median(of_one, lambda run: run["epochs"][0]["seconds"])
            seconds = median(of_one, lambda run: run["epochs"][-1]["seconds"])
            waiting = median(of_one, lambda run: run["epochs"][-1]["wait_fraction"])
            report.add(name, ratio(seconds, alone), rate, seconds, first, waiting)
    return report


def stalls(bench: Bench) -> Report:
    report = Report(
        "stalls",
        "One read in 200 takes 0.1 to 2 s more; 600 MB/s, steps of 50 ms; waits for a batch after "
        "the first epoch, worst epoch. foreload's memory holds the given share of the data set. "
        "Ratio: this one's 99th percentile over foreload's with half the data set in memory.",
        ["loader", "x the wait", "p99 ms", "max ms", "waiting", "stalls"],
    )
    data = bench.data("fixed", 2000)
    epochs = 3
    settings = SLOW | {"bandwidth": "600MB", "stall_share": 0.005, "stall_ms": "100:2000"}
    half = "foreload, 50 % in memory"
    with bench.slow(data, **settings) as slow:

        def counted(read: Callable[[], Json]) -> Callable[[], Json]:
            def run() -> Json:
                slow.reset()
                return read() | {"counters": slow.counters()}

            return run

        def foreload(room: int) -> Callable[[], Json]:
            return counted(
                lambda: bench.foreload.read(slow.path, epochs=epochs, memory=room, step_ms=50)
            )

        def torch(workers: int) -> Callable[[], Json]:
            return counted(
                lambda: bench.torch.read(slow.path, workers=workers, epochs=epochs, step_ms=50)
            )

        runs = bench.take_turns(
            report,
            {
                half: foreload(data.bytes // 2),
                "foreload, all in memory": foreload(data.bytes * 3 // 2),
                "torch, 2 workers": torch(2),
                "torch, 8 workers": torch(8),
            },
        )

    def worst(key: str) -> Callable[[Json], float]:
        return lambda run: max(epoch["batch_wait_ms"][key] for epoch in run["epochs"][1:])

    for name, of_one in runs.items():
        p99 = median(of_one, worst("p99"))
        report.add(
            name,
            ratio(p99, median(runs.get(half), worst("p99"))),
            p99,
            median(of_one, worst("max")),
            median(of_one, lambda run: max(e["wait_fraction"] for e in run["epochs"][1:])),
            median(of_one, lambda run: run["counters"]["stalls"]),
        )
    return report


def start(bench: Bench) -> Report:
    report = Report(
        "start",
        "From the start of the reader to the first batch, through 60 MB/s and the usual latencies; "
        "torch's own import is not part of it. Ratio: this one's time over foreload's.",
        ["loader", "x foreload's", "first batch s", "of it listing s", "import s"],
    )
    data = bench.data("fixed", 4000)
    with bench.slow(data, **SLOW) as slow, bench.cache_folder() as cache:
        index = cache / "index"
        room = 2 * data.bytes

        def again() -> Json:
            if not index.exists():
                bench.foreload.read(slow.path, memory=room, index_cache=index)
            return bench.foreload.read(slow.path, memory=room, index_cache=index)

        runs = bench.take_turns(
            report,
            {
                "foreload": lambda: bench.foreload.read(slow.path, memory=room),
                "foreload, index saved": again,
                "torch, 2 workers": lambda: bench.torch.read(slow.path, workers=2),
                "torch, 8 workers": lambda: bench.torch.read(slow.path, workers=8),
            },
        )
    for name, of_one in runs.items():
        first = median(of_one, lambda run: run["first_batch_seconds"])
        report.add(
            name,
            ratio(first, median(runs.get("foreload"), lambda run: run["first_batch_seconds"])),
            first,
            median(of_one, lambda run: run["listing_seconds"]),
            median(of_one, lambda run: run.get("import_seconds", 0.0)),
        )
    return report


def rss(bench: Bench) -> Report:
    report = Report(
        "rss",
        "Memory in a run of 1 epoch and in one of 50: proportional (PSS) of the process and its "
        "children at most, and of a control group of its own, page cache included, at the end and "
        "at most. foreload keeps a quarter of the data set in memory. Ratios: 50 epochs over 1. "
        "Allowed: cache, staging, index and 64 MiB.",
        [
            "loader",
            "PSS x after 1 epoch",
            "group's end x",
            "PSS MiB, 1 epoch",
            "PSS MiB, 50 epochs",
            "group's end MiB, 1",
            "group's end MiB, 50",
            "group's most MiB, 1",
            "group's most MiB, 50",
            "allowed MiB",
        ],
    )
    data = bench.data("fixed", 4000)
    room = data.bytes // 4
    readers: dict[str, Callable[[int], Json]] = {
        "foreload": lambda epochs: bench.foreload.read(
            data.root, epochs=epochs, memory=room, watch_every=0.05
        ),
        "torch, 2 workers": lambda epochs: bench.torch.read(
            data.root, workers=2, epochs=epochs, watch_every=0.05
        ),
    }

    def both(read: Callable[[int], Json]) -> Callable[[], Json]:
        return lambda: {"1": read(1), "50": read(50)}

    runs = bench.take_turns(report, {name: both(read) for name, read in readers.items()})
    mib = 1 << 20

    def in_mib(of_one: list[Json], epochs: str, key: str) -> float | None:
        if any(run[epochs].get(key) is None for run in of_one):
            return None
        return median(of_one, lambda run: run[epochs][key] / mib)

    for name, of_one in runs.items():
        pss, end, peak = (
            [in_mib(of_one, epochs, key) for epochs in ("1", "50")]
            for key in ("pss_peak_bytes", "group_end_bytes", "group_peak_bytes")
        )
        allowed = None
        if name == "foreload":
            index = of_one[0]["1"]["index_bytes"]
            allowed = (room + index) / mib + 128 + 64
        report.add(name, ratio(pss[1], pss[0]), ratio(end[1], end[0]), *pss, *end, *peak, allowed)
    return report


EXPERIMENTS: dict[str, Callable[[Bench], Report]] = {
    function.__name__: function
    for function in (bandwidth, traffic, warm, memory, disk, compute, stalls, start, rss)
}
