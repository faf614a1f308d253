# SPDX-License-Identifier: Apache-2.0
"""Whether foreload finds by itself how much to read from where: a disk and a source at once,
against fixed shares of both, tried one after the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

from experiments import MB, Bench, median, ratio
from processes import Json
from report import Report
from slow_disk import SlowDisk

RATES = (40, 80, 160)  # MB/s, of the source and of the disk
EPOCHS = 4
STAGING = 32 << 20
STEP_MS = 4  # a batch: a loop that computes nothing at all reads nothing twice


def later_seconds(run: Json) -> float:
    """The first epoch fills the disk."""
    return sum(epoch["seconds"] for epoch in run["epochs"][1:])


def from_disk(run: Json) -> float:
    later = run["epochs"][1:]
    return sum(e["from"]["disk"] for e in later) / sum(e["bytes"] for e in later)


def shares(source: int, disk: int) -> list[float]:
    """Those worth trying: none, all, and around what both need equally long for."""
    even = disk / (source + disk)
    return sorted({0.0, even - 0.1, even - 0.05, even, even + 0.05, even + 0.1, 1.0})


def mix(bench: Bench) -> Report:
    report = Report(
        "mix",
        f"A loop that computes {STEP_MS} ms a batch; source and disk of so many MB/s, epochs 2 to "
        f"{EPOCHS}. A fixed share is a disk cache that has room for just that, with "
        "objective=traffic; the best of them is compared with a cache that has room for "
        "everything, with objective=time. Ratio: the time of the best fixed share over foreload's.",
        [
            *("source, disk", "best fixed over chosen", "chosen s", "best fixed s", "its share"),
            *("share chosen", "all from disk s", "all from source s"),
        ],
    )
    data = bench.data("fixed", 1600)
    for source, disk in product(RATES, RATES):
        slow_disk = SlowDisk(bench.folder, disk * MB)
        try:
            with bench.slow(data, bandwidth=f"{source}MB") as slow:

                def run(share: float, objective: str, slow_disk: SlowDisk = slow_disk) -> Json:
                    more = ["--objective", objective, "--profile", "none"]
                    more += ["--staging", f"{STAGING}B"]
                    with bench.cache_folder() as cache:
                        return bench.foreload.read(
                            slow.path,
                            epochs=EPOCHS,
                            disk=(cache, int(share * data.bytes)) if share else None,
                            digest=False,
                            step_ms=STEP_MS,
                            more=more,
                            wrap=slow_disk.command,
                        )

                contestants: dict[str, Callable[[], Json]] = {
                    f"{share:.2f}": partial(run, 1.05 * share, "traffic")
                    for share in shares(source, disk)
                }
                runs = bench.take_turns(
                    report, contestants | {"foreload": partial(run, 1.05, "time")}
                )
        finally:
            slow_disk.close()
        chosen = median(runs["foreload"], later_seconds)
        seconds = {name: median(runs[name], later_seconds) or 0.0 for name in contestants}
        best = min(seconds, key=lambda name: seconds[name])
        report.add(
            *(f"{source}, {disk}", ratio(seconds[best], chosen), chosen, seconds[best], best),
            *(median(runs["foreload"], from_disk), seconds["1.00"], seconds["0.00"]),
        )
    return report
