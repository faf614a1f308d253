# SPDX-License-Identifier: Apache-2.0
"""Pictures of runs. Those of one kind have equal scales, so that runs can be put side by side.

Legends lie above the axes, never on data; what a picture shows is also said in its label for those
who cannot see it.
"""

from __future__ import annotations

import html
import io
import itertools
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from foreload import _core
from foreload.reports.run_files import PLACES, Epoch, Moment, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Told apart by lightness too.
PLACE_COLOURS = {
    "memory": "#1f5a91",
    "disk": "#6fa8d6",
    "peer": "#e6c229",
    "source": "#c8553d",
    "staging": "#9b9b9b",
}
WORK_COLOUR = "#a9bccf"
WAIT_COLOUR = "#c8553d"
LINE_COLOUR = "#1f5a91"
GRID_COLOUR = "#dddddd"
TEXT_COLOUR = "#333333"
STAGE_NAMES = {
    "memory": "memory cache",
    "disk": "disk cache",
    "decode": "decoding",
    "transform": "Python transform",
    "copies": "copying",
    "network": "other ranks",
}
STAGE_ORDER = ("source", "network", "disk", "memory", "copies", "decode", "transform")
MB = 1e6
WIDTH = 5.4  # inches
LEAST_WAIT_MS = 0.001024  # upper end of the first class of waits


@dataclass(frozen=True)
class Picture:
    """A kind of picture: a heading, what to read from it, and how it is drawn of each run."""

    title: str
    caption: str
    svgs: list[str]


def pictures(runs: Sequence[Run]) -> list[Picture]:
    """All kinds for which at least one run has figures."""
    kinds = (_sources, _waits, _times, _stages, _rates, _sizes, _peers)
    return [picture for kind in kinds if (picture := kind(runs)) is not None]


def _drawn(
    runs: Sequence[Run],
    title: str,
    caption: str,
    draw: Callable[[Axes, Run], None],
    height: float = 2.9,
) -> Picture:
    svgs = []
    for i, run in enumerate(runs):
        figure = _figure(height)
        axes = figure.subplots()
        draw(axes, run)
        svgs.append(svg_of(figure, f"{title}{i}", f"{title}: {run.name}"))
    return Picture(title, caption, svgs)


def _figure(height: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), facecolor="none")
    figure.set_layout_engine("constrained", w_pad=0.06, h_pad=0.06)  # inches
    return figure


def svg_of(figure: Figure, salt: str, label: str) -> str:
    """The picture as an element of a page; `salt` keeps its names apart from other pictures'."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :].replace(
        "<svg ", f'<svg role="img" aria-label="{html.escape(label)}" ', 1
    )


def _dress(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x, color=TEXT_COLOUR)
    axes.set_ylabel(y, color=TEXT_COLOUR)
    axes.tick_params(colors=TEXT_COLOUR)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.grid(axis="y", color=GRID_COLOUR, linewidth=0.6)
    axes.set_axisbelow(True)


def _legend_above(axes: Axes, columns: int) -> None:
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        ncols=columns,
        frameon=False,
        borderaxespad=0.2,
        handlelength=1.0,
        columnspacing=1.2,
    )


def _most(values: Iterable[float]) -> float:
    return 1.05 * max([*values, 1e-9])


def _unit(seconds: float) -> tuple[float, str]:
    """In which so much time is easy to read."""
    for least, name in ((86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")):
        if seconds >= 3 * least:
            return least, name
    return 1.0, "seconds"


def _bar_width(runs: Sequence[Run]) -> float:
    """Of bars for epochs: many overlap a little, since gaps would shimmer."""
    return 0.8 if max(len(run.epochs) for run in runs) <= 60 else 1.15


def _epoch_axis(axes: Axes, runs: Sequence[Run]) -> None:
    """The same epochs in all runs."""
    numbers = [epoch.number for run in runs for epoch in run.epochs]
    first, last = min(numbers), max(numbers)
    # A few bars would be as wide as walls.
    room = max(0.0, 2.5 - (last - first)) / 2
    axes.set_xlim(first - 0.6 - room, last + 0.6 + room)
    axes.set_xticks(_whole_ticks(first, last))


def _whole_ticks(first: int, last: int) -> list[int]:
    """Eleven at the most, 1, 2, 5, 10, 20, ... apart."""
    steps = (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))
    step = next(step for step in steps if last - first <= 10 * step)
    return list(range(first, last + 1, step))


def _sources(runs: Sequence[Run]) -> Picture | None:
    amounts = [sum(epoch.placed.values()) / MB for run in runs for epoch in run.epochs]
    if not any(amounts):
        return None
    used = [
        place
        for place in PLACES
        if any(epoch.placed[place] for run in runs for epoch in run.epochs)
    ]

    def draw(axes: Axes, run: Run) -> None:
        numbers = [epoch.number for epoch in run.epochs]
        bottom = [0.0] * len(numbers)
        for place in used:
            heights = [epoch.placed[place] / MB for epoch in run.epochs]
            name = "other ranks" if place == "peer" else place
            axes.bar(
                numbers,
                heights,
                width=_bar_width(runs),
                bottom=bottom,
                color=PLACE_COLOURS[place],
                label=name,
            )
            bottom = [below + height for below, height in zip(bottom, heights, strict=True)]
        _dress(axes, "epoch", "MB")
        axes.set_ylim(0, _most(amounts))
        _epoch_axis(axes, runs)
        _legend_above(axes, len(PLACES))
        if not any(bottom):
            _say(axes, "not known: this loader does not count bytes")

    return _drawn(
        runs,
        "Where bytes came from",
        "Per epoch. Staging: copies of samples that were on their way for another batch already.",
        draw,
    )


def _say(axes: Axes, text: str) -> None:
    """In the middle of a picture that has nothing to draw."""
    axes.text(0.5, 0.5, text, ha="center", va="center", color="#666666", transform=axes.transAxes)
    axes.grid(visible=False)


def _times(runs: Sequence[Run]) -> Picture | None:
    longest = _most(epoch.seconds for run in runs for epoch in run.epochs)
    unit, unit_name = _unit(longest)

    def draw(axes: Axes, run: Run) -> None:
        numbers = [epoch.number for epoch in run.epochs]
        waiting = [epoch.seconds * epoch.wait_share / unit for epoch in run.epochs]
        working = [epoch.seconds * (1 - epoch.wait_share) / unit for epoch in run.epochs]
        width = _bar_width(runs)
        axes.bar(numbers, working, width, color=WORK_COLOUR, label="the loop at work")
        axes.bar(numbers, waiting, width, working, color=WAIT_COLOUR, label="the loop waiting")
        _dress(axes, "epoch", unit_name)
        axes.set_ylim(0, longest / unit)
        _epoch_axis(axes, runs)
        _legend_above(axes, 2)

    return _drawn(runs, "Time of each epoch", "Waiting is time that input cost.", draw)


def _waits(runs: Sequence[Run]) -> Picture | None:
    """How many batches were waited for how long, as shares, in powers of two."""
    counted = [run for run in runs if any(any(epoch.wait_counts) for epoch in run.epochs)]
    if not counted:
        return None
    classes = max(len(epoch.wait_counts) for run in counted for epoch in run.epochs)
    edges = [LEAST_WAIT_MS * 2.0**i for i in range(-1, classes)]
    shortest = min(
        next(i for i, count in enumerate(epoch.wait_counts) if count)
        for run in counted
        for epoch in run.epochs
        if any(epoch.wait_counts)
    )
    first_edge = edges[max(0, shortest - 1)]

    def shares(epochs: Sequence[Epoch]) -> list[float]:
        counts = [0] * classes
        for epoch in epochs:
            for i, count in enumerate(epoch.wait_counts):
                counts[i] += count
        everything = max(1, sum(counts))
        return [100 * count / everything for count in counts]

    def parts(run: Run) -> list[tuple[str, str, list[float]]]:
        first, later = run.epochs[:1], run.epochs[1:]
        if not later:
            return [("all batches", LINE_COLOUR, shares(first))]
        return [
            (f"epoch {first[0].number}", WAIT_COLOUR, shares(first)),
            ("later epochs", LINE_COLOUR, shares(later)),
        ]

    top = _most(share for run in runs for _, _, found in parts(run) for share in found)

    def draw(axes: Axes, run: Run) -> None:
        for name, colour, found in parts(run):
            axes.stairs(found, edges, fill=True, color=colour, alpha=0.25)
            axes.stairs(found, edges, color=colour, linewidth=1.6, label=name)
        axes.set_xscale("log")
        _dress(axes, "wait for a batch", "% of batches")
        ticks = {0.001: "1 µs", 0.01: "10 µs", 0.1: "0.1 ms", 1: "1 ms", 10: "10 ms"}
        ticks |= {100: "0.1 s", 1e3: "1 s", 1e4: "10 s", 1e5: "100 s"}
        shown = {at: name for at, name in ticks.items() if first_edge <= at <= edges[-1]}
        axes.set_xticks(list(shown), list(shown.values()))
        axes.set_xticks([], minor=True)
        axes.set_xlim(first_edge, edges[-1])
        axes.set_ylim(0, top)
        _legend_above(axes, 2)

    return _drawn(
        runs,
        "Waits",
        "How long the loop waited for a batch. What lies on the left was ready when it asked.",
        draw,
    )


Span = tuple[float, float, dict[str, float]]  # begin, end, share of it by stage


def _spans(run: Run) -> list[Span]:
    """How busy stages were from when to when; "waited" is the loop's wait."""
    ats = [moment.at for moment in run.moments]
    spans: list[Span] = []

    def add(begin: float, moments: Sequence[Moment]) -> None:
        for moment in moments:
            busy = {name: stage.busy for name, stage in moment.stages.items()}
            spans.append((begin, moment.at, busy | {"waited": moment.waited}))
            begin = moment.at

    for epoch in run.epochs:
        end = epoch.begin + epoch.seconds
        inside = run.moments[bisect_right(ats, epoch.begin) : bisect_right(ats, end)]
        add(epoch.begin, inside)
        if inside:  # what came after the last moment was short
            spans.append((inside[-1].at, end, spans[-1][2]))
        else:
            whole = {name: stage.busy for name, stage in epoch.stages.items()}
            spans.append((epoch.begin, end, whole | {"waited": epoch.wait_share}))
    last = spans[-1][1]
    add(last, run.moments[bisect_right(ats, last) :])  # of an epoch under way
    return spans


def _binned(spans: Sequence[Span], name: str, width: float, bins: int) -> list[float]:
    """Percent of the time in each of so many bins of that width."""
    busy = [0.0] * bins
    known = [0.0] * bins
    for begin, end, shares in spans:
        share = shares.get(name, 0.0)
        for i in range(int(begin / width), min(bins, int(end / width) + 1)):
            seconds = max(0.0, min(end, (i + 1) * width) - max(begin, i * width))
            busy[i] += share * seconds
            known[i] += seconds
    # Where nothing is known for most of a bin nobody asked for batches.
    return [
        100 * seconds / among if 2 * among > width else 0.0
        for seconds, among in zip(busy, known, strict=True)
    ]


def _stages(runs: Sequence[Run]) -> Picture | None:
    series = [_spans(run) for run in runs]
    found = {name for spans in series for _, _, shares in spans for name in shares} - {"waited"}
    order = [name for name in STAGE_ORDER if name in found]
    rows = ["waited", *order, *sorted(found - set(order))]
    last = max(run.seconds for run in runs)
    unit, unit_name = _unit(last)
    bins = 240
    edges = [last / unit * i / bins for i in range(bins + 1)]
    svgs = []
    for i, (run, spans) in enumerate(zip(runs, series, strict=True)):
        figure = _figure(0.7 + 0.55 * len(rows))
        grid = figure.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
        for axes, name in zip(grid, rows, strict=True):
            colour = WAIT_COLOUR if name == "waited" else LINE_COLOUR
            if any(name in shares for _, _, shares in spans):
                heights = _binned(spans, name, last / bins, bins)
                axes.stairs(heights, edges, fill=True, color=colour)
            else:
                _say(axes, "not known, or not there")
            _mark_epochs(axes, run, unit)
            axes.set_ylim(0, 100)
            axes.set_yticks([0, 100], ["0", "100 %"], fontsize=7.5)
            axes.set_xlim(0, last / unit)
            label = "loop waits" if name == "waited" else STAGE_NAMES.get(name, name)
            axes.set_ylabel(label, rotation=0, ha="right", va="center", color=TEXT_COLOUR)
            axes.yaxis.set_label_coords(-0.1, 0.5)
            axes.spines[["top", "right"]].set_visible(False)
            axes.spines[["left", "bottom"]].set_color("#888888")
            axes.tick_params(colors=TEXT_COLOUR)
        grid[-1].set_xlabel(f"{unit_name} since the start", color=TEXT_COLOUR)
        svgs.append(svg_of(figure, f"stages{i}", f"Stages over time: {run.name}"))
    return Picture(
        "Stages over time",
        "Share of the time that each was busy. A full row beside a waiting loop is what it waits "
        "for. Dotted: an epoch begins.",
        svgs,
    )


def _mark_epochs(axes: Axes, run: Run, unit: float) -> None:
    for epoch in run.epochs[1:] if len(run.epochs) <= 50 else []:
        axes.axvline(epoch.begin / unit, color="#888888", linewidth=0.6, linestyle=":")


def _rates(runs: Sequence[Run]) -> Picture | None:
    """What the loop got a second, between the points of the curves."""
    in_samples = any(epoch.bytes == 0 for run in runs for epoch in run.epochs) or len(runs) > 1
    curves = [_rate_curve(run, in_samples) for run in runs]
    if not any(curves):
        return None
    rates = [rate for curve in curves for _, _, rate in curve]
    last = max(run.seconds for run in runs)
    unit, unit_name = _unit(last)

    def draw(axes: Axes, run: Run) -> None:
        times: list[float] = []
        heights: list[float] = []
        for begin, end, rate in _rate_curve(run, in_samples):
            begin, end = begin / unit, end / unit
            gap = bool(times) and begin > times[-1] + 1e-3 / unit
            times += [math.nan, begin, end] if gap else [begin, end]
            heights += [math.nan, rate, rate] if gap else [rate, rate]
        axes.plot(times, heights, color=LINE_COLOUR, linewidth=1.6)
        _mark_epochs(axes, run, unit)
        _dress(axes, f"{unit_name} since the start", "samples/s" if in_samples else "MB/s")
        axes.set_xlim(0, last / unit)
        axes.set_ylim(0, _most(rates))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")

    return _drawn(runs, "Throughput of the loop", "What the loop got, over time.", draw)


def _rate_curve(run: Run, in_samples: bool) -> list[tuple[float, float, float]]:
    """Begin, end and rate of pieces of the run; at most some hundred."""
    pieces: list[tuple[float, float, float]] = []
    least = run.seconds / 60
    for epoch in run.epochs:
        ends = [(0.0, 0)]
        for time, delivered, samples in epoch.curve:
            if time - ends[-1][0] >= least:
                ends.append((time, samples if in_samples else delivered))
        last = (epoch.seconds, epoch.samples if in_samples else epoch.bytes)
        if len(ends) > 1 and last[0] - ends[-1][0] < least:
            ends[-1] = last  # a short piece says nothing
        else:
            ends.append(last)
        for (begin, before), (end, after) in itertools.pairwise(ends):
            rate = (after - before) / max(end - begin, 1e-9) / (1 if in_samples else MB)
            pieces.append((epoch.begin + begin, epoch.begin + end, rate))
    return pieces


def _size(count: int) -> str:
    return _core.format_bytes(count).replace(".0 ", " ")


def _sizes(runs: Sequence[Run]) -> Picture | None:
    """Milliseconds a sample by size of its file, over all epochs."""

    def totals(run: Run) -> dict[int, tuple[int, float]]:
        found: dict[int, tuple[int, float]] = {}
        for epoch in run.epochs:
            for entry in epoch.sizes:
                samples, seconds = found.get(entry.from_bytes, (0, 0.0))
                found[entry.from_bytes] = samples + entry.samples, seconds + entry.seconds
        return found

    all_totals = [totals(run) for run in runs]
    classes = sorted({size for found in all_totals for size in found})
    if not classes:
        return None
    top = 1.12 * _most(
        1e3 * seconds / samples for found in all_totals for samples, seconds in found.values()
    )

    def draw(axes: Axes, run: Run) -> None:
        found = totals(run)
        _dress(axes, "size of the file, from", "ms per sample")
        axes.set_xlim(-0.7, len(classes) - 0.3)
        axes.set_ylim(0, top)
        axes.set_xticks(range(len(classes)), [_size(size) for size in classes])
        if len(classes) > 5:
            axes.tick_params(axis="x", rotation=35)
        if not found:
            _say(axes, "not known: nothing was decoded in C++")
        for place, size in enumerate(classes):
            samples, seconds = found.get(size, (0, 0.0))
            if samples:
                height = 1e3 * seconds / samples
                axes.bar(place, height, width=0.7, color=LINE_COLOUR)
                axes.text(
                    place, height, f"{samples:,}", ha="center", va="bottom", fontsize=8,
                    color=TEXT_COLOUR,
                )  # fmt: skip

    return _drawn(
        runs,
        "Decode time by size",
        "Of one thread, transform included. On the bars: how many samples.",
        draw,
    )


def _peers(runs: Sequence[Run]) -> Picture | None:
    """What each other rank gave and got."""

    def totals(run: Run) -> dict[int, tuple[float, float, float]]:
        found: dict[int, tuple[float, float, float]] = {}
        for epoch in run.epochs:
            for peer in epoch.peers:
                network, host, served = found.get(peer.rank, (0.0, 0.0, 0.0))
                found[peer.rank] = (
                    network + peer.bytes / MB,
                    host + peer.same_host_bytes / MB,
                    served + peer.served_bytes / MB,
                )
        return found

    all_totals = [totals(run) for run in runs]
    ranks = sorted({rank for found in all_totals for rank in found})
    if not ranks:
        return None
    most = _most(
        amount
        for found in all_totals
        for network, host, served in found.values()
        for amount in (network + host, served)
    )
    places = {rank: place for place, rank in enumerate(ranks)}

    def draw(axes: Axes, run: Run) -> None:
        found = totals(run)
        rows = [places[rank] for rank in found]
        network = [amounts[0] for amounts in found.values()]
        host = [amounts[1] for amounts in found.values()]
        served = [-amounts[2] for amounts in found.values()]
        axes.barh(rows, served, color=WORK_COLOUR, label="sent to it")
        axes.barh(rows, network, color=PLACE_COLOURS["peer"], label="got over the network")
        axes.barh(rows, host, left=network, color=LINE_COLOUR, label="read in its memory")
        _dress(axes, "MB in all epochs", "other rank")
        axes.grid(axis="x", color=GRID_COLOUR, linewidth=0.6)
        axes.grid(axis="y", visible=False)
        axes.axvline(0, color="#888888", linewidth=0.8)
        axes.set_xlim(-most, most)
        axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):,.0f}")
        axes.set_ylim(len(ranks) - 0.4, -0.6)
        shown = ranks[:: 1 + len(ranks) // 17]
        axes.set_yticks([places[rank] for rank in shown], list(map(str, shown)))
        _legend_above(axes, 3)
        if not found:
            _say(axes, "this run had no other ranks")

    return _drawn(
        runs,
        "Other ranks",
        "Left: sent to each rank. Right: got from it.",
        draw,
        max(2.2, 1.2 + 0.22 * len(ranks)),
    )
