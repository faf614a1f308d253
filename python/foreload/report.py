# SPDX-License-Identifier: Apache-2.0
"""One page about finished runs: `foreload report RUN.jsonl [MORE.jsonl ...] --out report.html`.

The input is what `foreload read --run-file` wrote. The page stands for itself: pictures are in it
as SVG, nothing is loaded from anywhere and nothing runs in the browser.
"""

from __future__ import annotations

import html
import io
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import foreload
from foreload._arguments import path_of
from foreload.plot import Parser, Refusal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMAT = 1  # of the run file
PLACES = ("memory", "disk", "peer", "source")
PLACE_COLOURS = {
    "memory": "#1f5a91",
    "disk": "#6fa8d6",
    "peer": "#8fc7a2",
    "source": "#d9793b",
}
COMPUTE_COLOUR = "#2f7d5b"
WAIT_COLOUR = "#d9793b"
RUN_COLOURS = ("#1f5a91", "#d9793b", "#2f7d5b", "#8a5a9e", "#7a7a7a", "#b0413e")
MB = 1e6

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto;
       padding: 0 1rem; }
h1, h2 { font-weight: 600; }
svg { width: 100%; height: auto; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: right; padding: 0.2rem 0.8rem; border-bottom: 1px solid #ddd; }
th { font-weight: 600; }
footer { color: #777; font-size: 0.85rem; margin-top: 2rem; }
"""


@dataclass(frozen=True)
class Epoch:
    """Times are in seconds."""

    number: int
    seconds: float
    samples: int
    bytes: int
    placed: dict[str, int]  # bytes by where they came from
    wait_share: float
    waits_ms: tuple[float, float, float]  # of batches: median, 99th percentile, longest
    curve: list[tuple[float, int]]  # (seconds since the epoch began, bytes delivered)

    @classmethod
    def of(cls, record: dict[str, Any]) -> Epoch:
        """One line of a run file."""
        waits = record["batch_wait_ms"]
        epoch = cls(
            number=int(record["epoch"]),
            seconds=float(record["seconds"]),
            samples=int(record["samples"]),
            bytes=int(record["bytes"]),
            placed={place: int(record["from"].get(place, 0)) for place in PLACES},
            wait_share=float(record["wait_fraction"]),
            waits_ms=(float(waits["p50"]), float(waits["p99"]), float(waits["max"])),
            curve=[(float(at), int(count)) for at, count in record.get("curve", [])],
        )
        numbers = [epoch.seconds, epoch.wait_share, *epoch.waits_ms, *(at for at, _ in epoch.curve)]
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            raise ValueError
        return epoch


@dataclass(frozen=True)
class Run:
    name: str
    about: dict[str, Any]  # the first line of the file
    epochs: list[Epoch]


def read_run(file: str) -> Run:
    """What a run file says. A last line that was cut off does not count."""
    try:
        lines = Path(file).read_text("utf-8").splitlines()
    except OSError as error:
        raise Refusal(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        lines = []
    records = []
    for number, line in enumerate(lines):
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError):
            if number == 0 or number + 1 < len(lines):
                records = []
            break
    try:
        about, *rest = records
        version = about["foreload_run"]
        if version != FORMAT:
            raise Refusal(
                f"cannot read {file}: it is a run file of format {version}, this foreload knows "
                f"format {FORMAT}"
            )
        run = Run(Path(file).stem, about, [Epoch.of(record) for record in rest])
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise Refusal(
            f"cannot read {file}: it is not a run file; make one with 'foreload read --run-file'"
        ) from None
    if not run.epochs:
        raise Refusal(f"cannot report {file}: it has no finished epoch yet")
    return run


def draw_run(run: Run) -> Figure:
    """Four pictures of one run."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.6))
    figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.15)  # inches
    (times, places), (waits, rates) = figure.subplots(2, 2)
    _draw_times(times, run)
    _draw_places(places, run)
    _draw_waits(waits, run)
    _draw_rates(rates, run)
    return figure


def draw_comparison(runs: Sequence[Run]) -> Figure:
    """The epochs of several runs side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.6), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(runs)
    for i, run in enumerate(runs):
        places = [epoch.number - 0.4 + (i + 0.5) * width for epoch in run.epochs]
        colour = RUN_COLOURS[i % len(RUN_COLOURS)]
        seconds = [epoch.seconds for epoch in run.epochs]
        axes.bar(places, seconds, width=0.92 * width, color=colour, label=run.name)
    _dress(axes, "Time of each epoch, run by run", "epoch", "seconds")
    axes.legend(frameon=False)
    return figure


def _dress(axes: Axes, title: str, x: str, y: str, *, log: bool = False) -> None:
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    if x == "epoch":
        axes.locator_params(axis="x", integer=True)


def _draw_times(axes: Axes, run: Run) -> None:
    numbers = [epoch.number for epoch in run.epochs]
    waiting = [epoch.seconds * min(1.0, epoch.wait_share) for epoch in run.epochs]
    working = [epoch.seconds - waited for epoch, waited in zip(run.epochs, waiting, strict=True)]
    axes.bar(numbers, working, color=COMPUTE_COLOUR, label="the loop at work")
    axes.bar(numbers, waiting, bottom=working, color=WAIT_COLOUR, label="the loop waiting")
    _dress(axes, "Time of each epoch", "epoch", "seconds")
    axes.legend(frameon=False)


def _draw_places(axes: Axes, run: Run) -> None:
    numbers = [epoch.number for epoch in run.epochs]
    bottom = [0.0] * len(numbers)
    for place in PLACES:
        heights = [epoch.placed[place] / MB for epoch in run.epochs]
        if any(heights):
            axes.bar(numbers, heights, bottom=bottom, color=PLACE_COLOURS[place], label=place)
        bottom = [below + height for below, height in zip(bottom, heights, strict=True)]
    _dress(axes, "Where the bytes came from", "epoch", "MB")
    axes.set_ylim(top=1.2 * max(max(bottom), 1e-9))
    axes.legend(frameon=False, ncols=4, loc="upper center")


def _draw_waits(axes: Axes, run: Run) -> None:
    numbers = [epoch.number for epoch in run.epochs]
    least = 0.001  # milliseconds; what is shorter is drawn there
    for i, (name, colour) in enumerate(
        (("median", "#8fc7a2"), ("99th percentile", "#6fa8d6"), ("longest", "#1f5a91"))
    ):
        waits = [max(least, epoch.waits_ms[i]) for epoch in run.epochs]
        axes.plot(numbers, waits, marker="o", color=colour, label=name)
    _dress(axes, "How long the loop waited for a batch", "epoch", "milliseconds", log=True)
    axes.legend(frameon=False)


def _draw_rates(axes: Axes, run: Run) -> None:
    """Megabytes a second between the points of the curves, epoch after epoch."""
    begin = 0.0
    ends: list[float] = []
    rates: list[float] = []
    for epoch in run.epochs:
        at, count = 0.0, 0
        for time, delivered in epoch.curve or [(epoch.seconds, epoch.bytes)]:
            if time > at:
                ends.append(begin + time)
                rates.append((delivered - count) / (time - at) / MB)
                at, count = time, delivered
        begin += epoch.seconds
        axes.axvline(begin, color="#cccccc", linewidth=0.8, zorder=0)
    if ends:
        axes.step([0.0, *ends], [rates[0], *rates], where="pre", color="#1f5a91", linewidth=1.2)
    log = bool(rates) and max(rates) > 20 * min(rates) > 0
    _dress(axes, "Throughput of the loop", "seconds since the start", "MB/s", log=log)
    axes.set_xlim(left=0)


def svg_of(figure: Figure, salt: str) -> str:
    """The picture as an element of a page; `salt` keeps its names apart from other pictures'."""
    import matplotlib

    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def _headline(run: Run) -> str:
    about = run.about
    parts = [html.escape(str(about.get("dataset", "")))]
    if "samples" in about and "bytes" in about:
        size = foreload.format_bytes(int(about["bytes"]))
        parts.append(f"{int(about['samples']):,} samples, {size}")
    if "batch_size" in about:
        parts.append(f"batches of {html.escape(str(about['batch_size']))}")
    if "seed" in about:
        parts.append(f"seed {html.escape(str(about['seed']))}")
    total = sum(epoch.seconds for epoch in run.epochs)
    source = sum(epoch.placed["source"] for epoch in run.epochs)
    parts.append(f"{len(run.epochs)} epochs in {total:.1f} s")
    parts.append(f"{foreload.format_bytes(source)} from the source")
    return "; ".join(part for part in parts if part)


def _table(run: Run) -> str:
    columns = ["epoch", "seconds", "samples/s", "MB/s", *PLACES, "waited", "longest wait"]
    rows = [
        [
            str(epoch.number),
            f"{epoch.seconds:.2f}",
            f"{epoch.samples / max(epoch.seconds, 1e-9):,.0f}",
            f"{epoch.bytes / max(epoch.seconds, 1e-9) / MB:,.1f}",
            *(foreload.format_bytes(epoch.placed[place]) for place in PLACES),
            f"{100 * epoch.wait_share:.1f} %",
            f"{epoch.waits_ms[2]:.2f} ms",
        ]
        for epoch in run.epochs
    ]
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>\n<tr>{head}</tr>\n{body}\n</table>"


def page_of(runs: Sequence[Run]) -> str:
    """The whole page."""
    title = "foreload: " + ", ".join(run.name for run in runs)
    parts = [f"<h1>{html.escape(title)}</h1>"]
    if len(runs) > 1:
        parts.append(svg_of(draw_comparison(runs), "comparison"))
    for i, run in enumerate(runs):
        parts.append(f"<h2>{html.escape(run.name)}</h2>\n<p>{_headline(run)}</p>")
        parts.append(svg_of(draw_run(run), str(i)))
        parts.append(_table(run))
    parts.append(f"<footer>foreload {foreload.__version__}</footer>")
    body = "\n".join(parts)
    return (
        "<!doctype html>\n"
        f'<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _run(argv: Sequence[str] | None) -> None:
    parser = Parser(
        prog="foreload report",
        description="Make one page about runs: times, where bytes came from, waits, throughput.",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN.jsonl", help="what 'foreload read --run-file' wrote"
    )
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the page to write")
    parser.add_argument("--version", action="version", version=f"foreload {foreload.__version__}")
    arguments = parser.parse_args(argv)
    out = parser.output("--out", arguments.out)
    runs = [read_run(path_of(file)) for file in arguments.runs]
    try:
        page = page_of(runs)
    except ImportError:
        raise Refusal("drawing needs matplotlib: pip install 'foreload[plot]'") from None
    try:
        out.write_text(page, "utf-8")
    except OSError as error:
        raise Refusal(f"cannot write {out}: {error.strerror}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run `foreload report` with these arguments; gives its exit status."""
    try:
        _run(argv)
    except Refusal as refusal:
        sys.stderr.write(f"foreload report: {refusal}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
