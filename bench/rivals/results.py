# SPDX-License-Identifier: Apache-2.0
"""From the runs of the rivals to tables, goals and a picture. Everything here is pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from report import Report

Json = dict[str, Any]
Runs = Mapping[str, Sequence[Json]]

FORELOAD = "foreload"
FAST = "foreload, fast=True"
BARE = "bare loop into batches"
THROWN = "bare loop, results thrown away"
TORCH = "torch DataLoader + Pillow"
WANTED_SHAPE = [3, 224, 224]
MIB = 1 << 20


@dataclass(frozen=True)
class Goal:
    name: str
    wanted: str
    measured: float | None  # None: could not be measured
    met: bool | None


@dataclass
class Goals:
    """What the loader must show, in the order it was measured."""

    goals: list[Goal] = field(default_factory=list)

    def at_least(self, name: str, least: float, measured: float | None) -> None:
        met = None if measured is None else measured >= least
        self.goals.append(Goal(name, f"at least {least:g}", measured, met))

    def at_most(self, name: str, most: float, measured: float | None) -> None:
        met = None if measured is None else measured <= most
        self.goals.append(Goal(name, f"at most {most:g}", measured, met))

    def report(self) -> Report:
        report = Report(
            "goals", "What the loader must show.", ["goal", "measured", "wanted", "met"]
        )
        for goal in self.goals:
            met = "not measured" if goal.met is None else goal.met
            report.add(goal.name, goal.measured, goal.wanted, met)
        return report


def median(runs: Sequence[Json] | None, value: Callable[[Json], float]) -> float | None:
    return statistics.median(map(value, runs)) if runs else None


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def rate(run: Json) -> float:
    """Images a second of the last epoch, when everything is warm."""
    return run["epochs"][-1]["images"] / run["epochs"][-1]["seconds"]


def first_batch(run: Json) -> float:
    return run["first_batch_seconds"]


def pause(run: Json) -> float:
    """Seconds from the last batch of an epoch to the first one of the next."""
    return run["epochs"][-1]["first_wait"]


def flaws(run: Json, images: int) -> list[str]:
    """What makes a run's work other than the work that was asked for."""
    found = []
    if any(epoch["images"] != images for epoch in run["epochs"]):
        found.append(f"gave {run['epochs'][-1]['images']} images of {images}")
    if "shape" in run and run["shape"][1:] != WANTED_SHAPE:
        found.append(f"batches of {run['shape']}")
    if run.get("type", "float32") != "float32":
        found.append(f"{run['type']}, not normalised")
    elif abs(run.get("mean", 0)) > 2.5:
        found.append(f"mean of {run['mean']:.3g}: not normalised")
    return found


def decode_report(
    runs: Runs, absent: Mapping[str, str], remarks: Mapping[str, str], images: int
) -> Report:
    """`absent` are those that could not run, with the reason."""
    report = Report(
        "rivals",
        "Training images from the page cache, two threads or workers: decode, random crop resized "
        "to 224, flip, normalise to float32, batches of 64; the second epoch, medians. Ratio: "
        "foreload's images a second over this one's.",
        [
            "loader", "foreload is x times", "images/s", "slowest and fastest round",
            "first batch s", "pause between epochs s", "remarks",
        ],
    )  # fmt: skip
    own = median(runs.get(FORELOAD), rate)
    for name in [*runs, *(name for name in absent if name not in runs)]:
        of_one = runs.get(name)
        if not of_one:
            report.add(name, *[None] * 5, f"did not run: {absent.get(name, 'no run')}")
            continue
        rates = [rate(run) for run in of_one]
        notes = [remarks[name]] if remarks.get(name) else []
        notes += sorted({flaw for run in of_one for flaw in flaws(run, images)})
        if name in absent:
            notes.append(f"failed once: {absent[name]}")
        timed = all("first_batch_seconds" in run for run in of_one)
        report.add(
            name,
            ratio(own, statistics.median(rates)),
            round(statistics.median(rates)),
            f"{min(rates):,.0f} – {max(rates):,.0f}",
            median(of_one, first_batch) if timed else None,
            median(of_one, pause) if timed else None,
            "; ".join(notes) or None,
        )
    return report


def decode_goals(runs: Runs, goals: Goals) -> None:
    own = median(runs.get(FORELOAD), rate)
    for name, least in (
        ("DALI, CPU operators", 2.0),
        (TORCH, 3.0),
        ("tf.data, antialias", 2.0),
        ("tf.data, no antialias", 2.0),
        ("FFCV", 2.0),
        (BARE, 0.95),
        (THROWN, 0.95),
    ):
        goals.at_least(
            f"images/s over those of {name}", least, ratio(own, median(runs.get(name), rate))
        )
    of_foreload = runs.get(FORELOAD)
    goals.at_most("first batch after construction, s", 0.3, median(of_foreload, first_batch))
    # Nothing is lost at the border if the first batch takes no longer than two others.
    batch = median(of_foreload, lambda run: 64 / rate(run))
    waited = median(of_foreload, pause)
    goals.at_most("pause between epochs, in times of a batch", 2.0, ratio(waited, batch))


def memory_report(runs: Runs, goals: Goals) -> Report:
    report = Report(
        "memory",
        "Peak memory of the process and all below it (PSS) over an epoch of the same work. Ratio: "
        "this one's over foreload's.",
        ["loader", "x foreload's", "MiB"],
    )
    peaks = {
        name: median(of_one, lambda run: run["pss_peak_bytes"]) for name, of_one in runs.items()
    }
    for name, peak in peaks.items():
        report.add(
            name, ratio(peak, peaks.get(FORELOAD)), None if peak is None else round(peak / MIB)
        )
    goals.at_most(
        "peak memory over that of torch's processes",
        1.0,
        ratio(peaks.get(FORELOAD), peaks.get(TORCH)),
    )
    return report


def slow_report(
    runs: Runs, bytes_in_all: int, bandwidth: float, cached: float | None, goals: Goals
) -> Report:
    """`cached` is foreload's rate from the page cache."""
    report = Report(
        "slow",
        "The same work through a file system with 60 MB/s in all, 4 ms an open, 1 ms a read, "
        "0.5 ms a stat, five epochs. Ratio: this one's time of all epochs over foreload's.",
        ["loader", "x foreload's time", "five epochs s", "first epoch s", "share of the source",
         "later epochs, images/s", "first batch s"],
    )  # fmt: skip

    def whole(run: Json) -> float:
        return sum(epoch["seconds"] for epoch in run["epochs"])

    def share(run: Json) -> float:
        return bytes_in_all / run["epochs"][0]["seconds"] / bandwidth

    def later(run: Json) -> float:
        return statistics.median(e["images"] / e["seconds"] for e in run["epochs"][1:])

    own = median(runs.get(FORELOAD), whole)
    for name, of_one in runs.items():
        report.add(
            name,
            ratio(median(of_one, whole), own),
            median(of_one, whole),
            median(of_one, lambda run: run["epochs"][0]["seconds"]),
            median(of_one, share),
            median(of_one, later),
            median(of_one, first_batch),
        )
    of_foreload = runs.get(FORELOAD)
    torch = next((of_one for name, of_one in runs.items() if name.startswith("torch")), None)
    goals.at_least("first epoch, share of the source's bandwidth", 0.95, median(of_foreload, share))
    goals.at_least(
        "later epochs, over images/s from the page cache",
        0.95,
        ratio(median(of_foreload, later), cached),
    )
    goals.at_least(
        "five epochs, torch's time over foreload's", 3.0, ratio(median(torch, whole), own)
    )
    return report


def resume_report(runs: Runs, samples: int, absent: Mapping[str, str], goals: Goals) -> Report:
    report = Report(
        "resume",
        f"From building a loader of {samples:,} samples to the first batch in the middle of an "
        "epoch. Ratio: this one's time over foreload's.",
        ["loader", "x foreload's time", "first batch s", "of it building s", "state bytes"],
    )
    own = median(runs.get(FORELOAD), lambda run: run["resume_seconds"])
    for name in [*runs, *(name for name in absent if name not in runs)]:
        of_one = runs.get(name)
        if not of_one:
            report.add(name, *[None] * 4)
            report.notes.append(f"{name} did not run: {absent.get(name, 'no run')}")
            continue
        seconds = median(of_one, lambda run: run["resume_seconds"])
        report.add(
            name,
            ratio(seconds, own),
            seconds,
            median(of_one, lambda run: run["build_seconds"]),
            round(median(of_one, lambda run: run["state_bytes"]) or 0),
        )
    goals.at_most("resume in mid-epoch, s to the first batch", 0.5, own)
    return report


HEADING = "## Beside other loaders"


def section(reports: Sequence[Report], machine: str) -> str:
    """All tables as one section of a document."""
    parts = [
        HEADING,
        f"`make bench-rivals` installs the others, each in an environment of its own, and runs all "
        f"of them in turn on photos that foreload makes. {machine}",
    ]
    for report in reports:
        table = report.markdown().split("\n\n", 1)[1].rstrip()
        parts.append(f"### {report.experiment.capitalize()}\n\n{table}")
    return "\n\n".join(parts) + "\n"


def with_section(document: str, text: str) -> str:
    """The document with the section of this heading replaced, or added at the end."""
    before, found, after = document.partition(f"{HEADING}\n")
    if not found:
        return f"{document.rstrip()}\n\n{text}"
    _, next_one, rest = after.partition("\n## ")
    return before + text + (next_one + rest if next_one else "")


def picture(decode: Runs, slow: Runs, file: Path) -> None:
    """Images a second by loader, and the times of epochs from a slow source."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2))
    figure.set_layout_engine("constrained", w_pad=0.15)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    rates = {name: median(of_one, rate) or 0 for name, of_one in decode.items() if of_one}
    names = sorted(rates, key=lambda name: rates[name], reverse=True)

    def colour(name: str) -> str:
        if name.startswith(FORELOAD):
            return "#1f5a91"
        return "#b8b8b8" if name in (BARE, THROWN) else "#d9793b"

    left.barh(names, [rates[name] for name in names], color=[colour(name) for name in names])
    for place, name in enumerate(names):
        left.text(rates[name], place, f" {rates[name]:,.0f}", va="center", fontsize=9)
    left.invert_yaxis()
    left.set_xlim(right=1.15 * max(rates.values(), default=1))
    left.set_title("Training images a second, two cores")
    width = 0.8 / max(1, len(slow))
    for i, (name, of_one) in enumerate(slow.items()):
        count = min(len(run["epochs"]) for run in of_one)
        seconds = [
            statistics.median(run["epochs"][e]["seconds"] for run in of_one) for e in range(count)
        ]
        places = [e + 1 - 0.4 + (i + 0.5) * width for e in range(count)]
        right.bar(places, seconds, width=0.92 * width, color=colour(name), label=name)
    right.set_title("Seconds an epoch from 60 MB/s")
    right.set_xlabel("epoch")
    right.locator_params(axis="x", integer=True)
    if slow:  # below the axes, where no bars are
        right.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None} if file.suffix == ".svg" else None)
