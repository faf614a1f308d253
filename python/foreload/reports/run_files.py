# SPDX-License-Identifier: Apache-2.0
"""Reads run files: what `foreload read --run-file` and `DataLoader(run_file=...)` wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FORMATS = (1, 2)
PLACES = ("memory", "disk", "peer", "source", "staging")

Json = dict[str, Any]


class Refusal(Exception):
    """Why nothing was made, in one line."""


@dataclass(frozen=True)
class Help:
    """One change and what it would do."""

    what: str
    seconds: float  # an epoch then
    times: float  # as fast


@dataclass(frozen=True)
class Verdict:
    """What limited an epoch."""

    text: str
    waited: float  # share
    helps: list[Help] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, record: Json, waited: float) -> Verdict:
        """That of a record, or what can be said without one."""
        found = record.get("verdict")
        if not isinstance(found, dict):
            return cls(f"waited {100 * waited:.0f} % of the time", waited)
        helps = [
            Help(str(help["what"]), float(help["seconds"]), float(help["times"]))
            for help in found.get("helps", [])
        ]
        return cls(
            str(found["text"]), float(found["waited"]), helps, list(map(str, found["losses"]))
        )


@dataclass(frozen=True)
class SizeClass:
    """Decoding of samples of at least so many bytes and less than twice as many."""

    from_bytes: int
    samples: int
    seconds: float


@dataclass(frozen=True)
class Peer:
    """What passed between this rank and another."""

    rank: int
    bytes: int
    same_host_bytes: int
    served_bytes: int


@dataclass(frozen=True)
class Stage:
    """A part of a sample's way, in an epoch or since the moment before."""

    busy: float  # share of the time
    rate: float  # bytes per second


@dataclass(frozen=True)
class Epoch:
    """Times are in seconds."""

    number: int
    begin: float  # since the start of the run
    seconds: float
    samples: int
    bytes: int
    placed: dict[str, int]  # bytes by where they came from
    wait_share: float
    waits_ms: tuple[float, float, float]  # median, 99th percentile, longest
    wait_counts: list[int]  # batches by wait: below 1024 ns, below 2048 ns, ...
    curve: list[tuple[float, int, int]]  # seconds since it began, bytes, samples
    stages: dict[str, Stage]
    sizes: list[SizeClass]
    peers: list[Peer]
    counters: dict[str, int]  # by their names in stats()
    verdict: Verdict

    @classmethod
    def of(cls, record: Json, before: float) -> Epoch:
        """A line of a run file; `before` is when the epoch before it ended."""
        waits = record["batch_wait_ms"]
        seconds = float(record["seconds"])
        waited = float(record["wait_fraction"])
        samples, total = int(record["samples"]), int(record["bytes"])
        placed = record.get("from", {})
        epoch = cls(
            number=int(record["epoch"]),
            begin=max(0.0, float(record["at"]) - seconds) if "at" in record else before,
            seconds=seconds,
            samples=samples,
            bytes=total,
            placed={place: int(placed.get(place, 0)) for place in PLACES},
            wait_share=min(1.0, waited),
            waits_ms=(float(waits["p50"]), float(waits["p99"]), float(waits["max"])),
            wait_counts=[int(count) for count in record.get("wait_counts", [])],
            curve=[_point(point, samples, total) for point in record.get("curve", [])],
            stages=_stages(record),
            sizes=[
                SizeClass(int(entry["from_bytes"]), int(entry["samples"]), float(entry["seconds"]))
                for entry in record.get("decode_by_size", [])
            ],
            peers=[
                Peer(
                    int(peer["rank"]),
                    int(peer["bytes"]),
                    int(peer["same_host_bytes"]),
                    int(peer["served_bytes"]),
                )
                for peer in record.get("peers", [])
            ],
            counters={name: int(value) for name, value in record.get("counters", {}).items()},
            verdict=Verdict.of(record, waited),
        )
        _check([seconds, waited, *epoch.waits_ms, *(point[0] for point in epoch.curve)])
        return epoch


@dataclass(frozen=True)
class Moment:
    """How a run did at one time; amounts are since the start of the run."""

    at: float  # seconds since the start of the run
    epoch: int
    batches: int
    in_all: int  # batches of the epoch; 0: nobody knows
    samples: int
    bytes: int
    placed: dict[str, int]
    waited: float  # share of the time since the line before
    stages: dict[str, Stage]
    ready: int
    kept_bytes: list[int]  # by tier of the header
    verdict: str
    losses: list[str]

    @classmethod
    def of(cls, record: Json) -> Moment:
        """A line of a run file."""
        placed = record.get("from", {})
        moment = cls(
            at=float(record["at"]),
            epoch=int(record["epoch"]),
            batches=int(record["batches"]),
            in_all=int(record["of"]),
            samples=int(record["samples"]),
            bytes=int(record["bytes"]),
            placed={place: int(placed.get(place, 0)) for place in PLACES},
            waited=float(record["waited"]),
            stages=_stages(record),
            ready=int(record.get("ready", 0)),
            kept_bytes=[int(kept) for kept in record.get("kept_bytes", [])],
            verdict=str(record.get("verdict", "")),
            losses=list(map(str, record.get("losses", []))),
        )
        _check([moment.at, moment.waited])
        return moment


@dataclass(frozen=True)
class Run:
    """What a run file says."""

    name: str
    about: Json  # the first line
    epochs: list[Epoch]
    moments: list[Moment]
    unfinished: bool = False  # the last epoch was made from moments

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        ends = [epoch.begin + epoch.seconds for epoch in self.epochs]
        return max([*ends, *(moment.at for moment in self.moments)], default=0.0)


def _point(point: list[float], samples: int, total: int) -> tuple[float, int, int]:
    """Format 1 had no samples there."""
    at, delivered = float(point[0]), int(point[1])
    share = delivered / total if total else 0.0
    return at, delivered, int(point[2]) if len(point) > 2 else round(share * samples)


def _stages(record: Json) -> dict[str, Stage]:
    return {
        str(name): Stage(float(busy), float(rate))
        for name, (busy, rate) in record.get("stages", {}).items()
    }


def _check(numbers: Iterable[float]) -> None:
    if not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError


def not_a_run_file(file: str) -> Refusal:
    """What to say of anything else."""
    return Refusal(
        f"cannot read {file}: it is not a run file; make one with 'foreload read --run-file' or "
        "DataLoader(run_file=...)"
    )


def check_format(file: str, version: Any) -> None:
    """Refuse a run file of a later foreload."""
    if version not in FORMATS:
        raise Refusal(
            f"cannot read {file}: it is a run file of format {version}, and this foreload reads "
            f"formats {' and '.join(map(str, FORMATS))}; use the version that wrote it"
        )


def records_of(lines: list[str]) -> list[Json]:
    """The objects of lines. A last one that was cut off does not count; no list if others are."""
    records = []
    for number, line in enumerate(lines):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            if number == 0 or number + 1 < len(lines):
                return []
    return records


def parse_run(file: str, name: str, text: str) -> Run:
    """What the text of a run file says."""
    try:
        about, *rest = records_of([line for line in text.split("\n") if line])
        check_format(file, about["foreload_run"])
        for key in ("samples", "bytes", "rank", "ranks"):
            int(about.get(key) or 0)
        moments = sorted(
            (Moment.of(record) for record in rest if record.get("kind") == "moment"),
            key=lambda moment: moment.at,
        )
        epochs: list[Epoch] = []
        for record in rest:
            if record.get("kind", "epoch") == "epoch":
                before = epochs[-1].begin + epochs[-1].seconds if epochs else 0.0
                epochs.append(Epoch.of(record, before))
        unfinished = not epochs and bool(moments)
        if unfinished:
            epochs = [_epoch_so_far(moments)]
        run = Run(name, about, epochs, moments, unfinished)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise not_a_run_file(file) from None
    if not run.epochs:
        raise Refusal(f"cannot report {file}: it has no finished epoch yet; try again later")
    return run


def _epoch_so_far(moments: list[Moment]) -> Epoch:
    """The first epoch, not finished yet, as moments tell it."""
    last = moments[-1]
    waited, at = 0.0, 0.0
    for moment in moments:
        waited += moment.waited * (moment.at - at)
        at = moment.at
    share = min(1.0, waited / last.at) if last.at > 0 else 0.0
    text = last.verdict or f"waited {100 * share:.0f} % of the time"
    return Epoch(
        number=last.epoch,
        begin=0.0,
        seconds=last.at,
        samples=last.samples,
        bytes=last.bytes,
        placed=last.placed,
        wait_share=share,
        waits_ms=(0.0, 0.0, 0.0),
        wait_counts=[],
        curve=[(moment.at, moment.bytes, moment.samples) for moment in moments],
        stages=last.stages,
        sizes=[],
        peers=[],
        counters={},
        verdict=Verdict(text, share, [], last.losses),
    )


def read_run(file: str) -> Run:
    """What a run file says; also while it is being written."""
    path = Path(file).expanduser()
    try:
        text = path.read_bytes().decode("utf-8", "replace")  # a last line may be cut anywhere
    except OSError as error:
        raise Refusal(f"cannot read {file}: {error.strerror}") from None
    return parse_run(file, path.stem if path.suffix == ".jsonl" else path.name, text)
