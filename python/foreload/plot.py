# SPDX-License-Identifier: Apache-2.0
"""Draws plans and simulations: `foreload plot FILE.json [MORE.json ...] -o FILE.png`.

The input is what `foreload plan --json` prints: one picture shows, plan by plan, where samples are
kept and where reads are served from, and how often a rank reads a sample. Or it is what `foreload
simulate --json` prints (reports/simulation_pictures.py).
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foreload import _core
from foreload._arguments import path_of
from foreload.reports.program import Parser, status_of
from foreload.reports.run_files import Refusal
from foreload.reports.simulation_pictures import draw_simulation, is_simulation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")

TIER_COLOURS = ("#1f5a91", "#6fa8d6", "#b9d7ee")
NOWHERE_COLOUR = "#dcdcdc"
READ_COLOURS = ("#2f7d5b", "#8fc7a2", "#d9793b")  # own copy, other ranks, source
BAR_HEIGHT = 0.6  # of the distance between bars
HISTOGRAM_COLOURS = ("#1f5a91", "#d9793b", "#2f7d5b", "#8a5a9e", "#7a7a7a")


@dataclass(frozen=True)
class Figures:
    """What is drawn of a plan; shares are between 0 and 1."""

    name: str
    placement: str
    samples: int
    dataset_bytes: int
    ranks: int
    epochs: int
    counted_epochs: int
    kept: list[tuple[str, float]]  # (tier, share of samples), fastest first
    copies_per_kept_sample: float
    reads: tuple[float, float, float]  # own copy, other ranks, source
    histogram: list[float]  # entry c: samples that a rank reads c times

    @classmethod
    def of(cls, name: str, plan: dict[str, Any]) -> Figures:
        """The figures of what `foreload plan --json` printed."""
        samples = int(plan["samples"])
        coverage = float(plan["coverage"])
        copies = [(str(tier["name"]), int(tier["copies"])) for tier in plan["tiers"]]
        all_copies = sum(count for _, count in copies)
        return cls(
            name=name,
            placement=str(plan["placement"]),
            samples=samples,
            dataset_bytes=int(plan["dataset_bytes"]),
            ranks=int(plan["ranks"]),
            epochs=int(plan["epochs"]),
            counted_epochs=int(plan["counted_epochs"]),
            # Where a sample has several copies, tiers share it.
            kept=[(tier, coverage * count / max(1, all_copies)) for tier, count in copies],
            copies_per_kept_sample=all_copies / max(1.0, coverage * samples),
            reads=(
                float(plan["local_read_fraction"]),
                float(plan["peer_read_fraction"]),
                float(plan["source_read_fraction"]),
            ),
            histogram=[float(entry) for entry in plan["access_histogram"]],
        )


def read_document(file: str) -> Any:
    """What is in a JSON file, or on standard input if it is "-"."""
    try:
        return json.loads(sys.stdin.read() if file == "-" else Path(file).read_text("utf-8"))
    except OSError as error:
        raise Refusal(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Refusal(
            f"cannot read {file}: it is not JSON; make a plan with 'foreload plan --json'"
        ) from None


def figures_of(file: str, plan: Any) -> Figures:
    """The figures of the plan that was in a file."""
    try:
        figures = Figures.of("standard input" if file == "-" else Path(file).stem, plan)
        numbers = [*figures.reads, *(share for _, share in figures.kept), *figures.histogram]
        if not all(math.isfinite(number) for number in numbers):
            raise ValueError
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        raise Refusal(
            f"cannot draw {file}: it is not a plan; make one with 'foreload plan --json'"
        ) from None
    return figures


def draw(plans: Sequence[Figures]) -> Figure:
    """A picture of one or more plans."""
    from matplotlib.figure import Figure

    # Bars keep their thickness however many there are.
    height = max(4.0, 2.4 + 0.5 * len(plans))
    figure = Figure(figsize=(14, height), dpi=120)
    figure.set_layout_engine("constrained", w_pad=0.12, h_pad=0.12)  # inches
    figure.suptitle(_headline(plans), fontsize=13)
    kept, reads, counts = figure.subplots(1, 3, width_ratios=(1, 1, 1.15))
    _draw_kept(kept, plans)
    _draw_reads(reads, plans)
    _draw_counts(counts, plans)
    reads.tick_params(labelleft=False)
    return figure


def _headline(plans: Sequence[Figures]) -> str:
    def one(what: str, values: set[str]) -> str:
        return values.pop() if len(values) == 1 else what

    return ", ".join(
        [
            one(
                "several data sets",
                {
                    f"{plan.samples:,} samples ({_core.format_bytes(plan.dataset_bytes)})"
                    for plan in plans
                },
            ),
            one("different numbers of ranks", {_many(plan.ranks, "rank") for plan in plans}),
            one("different numbers of epochs", {_many(plan.epochs, "epoch") for plan in plans}),
        ]
    )


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _draw_kept(axes: Axes, plans: Sequence[Figures]) -> None:
    tiers = list(dict.fromkeys(tier for plan in plans for tier, _ in plan.kept))
    shares = [
        [sum(share for name, share in plan.kept if name == tier) for plan in plans]
        for tier in tiers
    ]
    nowhere = [max(0.0, 1 - sum(share for _, share in plan.kept)) for plan in plans]
    colours = [TIER_COLOURS[i % len(TIER_COLOURS)] for i in range(len(tiers))]
    _stack(axes, [*shares, nowhere], [*tiers, "nowhere"], [*colours, NOWHERE_COLOUR], plans)
    axes.set_title("Where samples are kept")
    axes.set_xlabel("share of samples")


def _draw_reads(axes: Axes, plans: Sequence[Figures]) -> None:
    shares = [[plan.reads[i] for plan in plans] for i in range(3)]
    _stack(axes, shares, ["own copy", "other ranks", "source"], READ_COLOURS, plans)
    axes.set_title("Where reads are served from")
    axes.set_xlabel("share of reads")


def _stack(
    axes: Axes,
    shares: Sequence[Sequence[float]],
    names: Sequence[str],
    colours: Sequence[str],
    plans: Sequence[Figures],
) -> None:
    """One horizontal bar per plan, cut into `shares[part][plan]`."""
    places = list(range(len(plans)))
    left = [0.0] * len(plans)
    for part, name, colour in zip(shares, names, colours, strict=True):
        widths = [100 * share for share in part]
        axes.barh(places, widths, left=left, height=BAR_HEIGHT, color=colour, label=name)
        for place, width, start in zip(places, widths, left, strict=True):
            _write_share(axes, place, start, width, _ink(colour))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, [_label(plan, plans) for plan in plans])
    margin = 0.9 if len(plans) == 1 else 0.6
    axes.set_ylim(len(plans) - 1 + margin, -margin)  # the first plan on top
    axes.set_xlim(0, 100)
    axes.xaxis.set_major_formatter("{x:.0f} %")
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=len(names), frameon=False)


def _write_share(axes: Axes, place: int, start: float, width: float, ink: str) -> None:
    """The share in percent: inside its piece of the bar, above it where there is no room."""
    text = f"{width:.1f} %"
    if width >= 13:
        axes.text(start + width / 2, place, text, ha="center", va="center", fontsize=9, color=ink)
    elif width >= 0.05:
        end = start + width
        x, side = (start, "left") if start < 5 else (end, "right") if end > 95 else (end, "center")
        axes.text(x, place - BAR_HEIGHT / 2 - 0.03, text, ha=side, va="bottom", fontsize=8)


def _ink(colour: str) -> str:
    """Black or white, whichever is easier to read on a colour."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"


def _label(plan: Figures, plans: Sequence[Figures]) -> str:
    label = plan.placement if len(plans) == 1 else plan.name
    if plan.copies_per_kept_sample >= 1.05:
        label += f"\n{plan.copies_per_kept_sample:.1f} copies each"
    return label


def _draw_counts(axes: Axes, plans: Sequence[Figures]) -> None:
    counted = [plan for plan in plans if any(plan.histogram)]
    axes.set_title("How often one rank reads a sample")
    if not counted:
        axes.set_axis_off()
        axes.text(
            0.5,
            0.5,
            "not counted: owners are computed",
            ha="center",
            va="center",
            color="#707070",
            transform=axes.transAxes,
        )
        return
    # Plans of one job differ in placement, not in who reads what.
    same = all(plan.histogram == counted[0].histogram for plan in counted)
    spans = [_span(plan.histogram) for plan in counted]
    first, last = min(span[0] for span in spans), max(span[1] for span in spans)
    counts = range(first, last + 1)
    for i, plan in enumerate(counted[:1] if same else counted):
        entries = [plan.histogram[c] if c < len(plan.histogram) else 0.0 for c in counts]
        if same:
            axes.bar(counts, entries, width=0.85, color=HISTOGRAM_COLOURS[0])
        else:
            colour = HISTOGRAM_COLOURS[i % len(HISTOGRAM_COLOURS)]
            edges = [c - 0.5 for c in range(first, last + 2)]
            axes.stairs(entries, edges, color=colour, linewidth=1.8, label=plan.name)
    epochs = {plan.counted_epochs for plan in counted}
    span_text = _many(epochs.pop(), "epoch") if len(epochs) == 1 else "the epochs counted"
    axes.set_xlabel(f"times read in {span_text}")
    axes.set_ylabel("samples (mean over ranks)")
    axes.set_xlim(first - 0.7, last + 0.7)
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="x", integer=True)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.spines[["top", "right"]].set_visible(False)
    if not same:  # below the axes, as beside it
        axes.legend(
            frameon=False,
            loc="upper center",
            bbox_to_anchor=(0.5, -0.18),
            ncols=min(3, len(counted)),
        )


def _span(histogram: Sequence[float]) -> tuple[int, int]:
    """The first and the last count that half a sample or more has."""
    seen = [c for c, samples in enumerate(histogram) if samples >= 0.5]
    return (seen[0], seen[-1]) if seen else (0, len(histogram) - 1)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog="foreload plot",
        description="Draw where samples are kept, where reads are served from, and how often a "
        "rank reads a sample; or how long simulated jobs take and when they wait.",
    )
    parser.add_argument(
        "plans",
        nargs="+",
        metavar="PLAN.json",
        help="what 'foreload plan --json' or 'foreload simulate --json' printed; - reads it",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FILE", help="picture to write: .png or .svg"
    )
    arguments = parser.parse_args(argv)
    arguments.output = parser.output("--output", arguments.output)
    arguments.plans = [path_of(file) for file in arguments.plans]
    return arguments


def _run(argv: Sequence[str] | None) -> None:
    arguments = _arguments(argv)
    output: Path = arguments.output
    if output.suffix.lower() not in FORMATS:
        raise Refusal(f"cannot draw {output}: its name must end in {' or '.join(FORMATS)}")
    documents = [(file, read_document(file)) for file in arguments.plans]
    try:
        if is_simulation(documents[0][1]):
            if len(documents) > 1:
                raise Refusal(
                    "cannot draw more than one simulation: give one file; use a sweep to compare"
                )
            figure = draw_simulation(*documents[0])
        else:
            figure = draw([figures_of(file, plan) for file, plan in documents])
    except ImportError:
        raise Refusal("drawing needs matplotlib: pip install 'foreload[plot]'") from None
    try:
        figure.savefig(output, format=output.suffix[1:].lower())
    except OSError as error:
        raise Refusal(f"cannot write {output}: {error.strerror}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Run `foreload plot` with these arguments; gives its exit status."""
    return status_of("foreload plot", _run, argv)


if __name__ == "__main__":
    sys.exit(main())
