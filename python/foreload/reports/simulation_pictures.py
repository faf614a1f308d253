# SPDX-License-Identifier: Apache-2.0
"""Draws what `foreload simulate --json` printed: time by policy, stalls over time, sweep curves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from foreload import _core
from foreload.reports.run_files import Refusal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# One for each policy, the same in every picture; what nobody here knows gets one of the others.
POLICY_COLOURS = {
    "lower_bound": "#8a8a8a",
    "naive": "#b0413e",
    "staging_pool": "#d9793b",
    "deepio_ordered": "#c9a227",
    "deepio_opportunistic": "#e0c36a",
    "parallel_staging": "#8a5a9e",
    "lbann_dynamic": "#7fb3d5",
    "lbann_preloading": "#4a8ab8",
    "locality_aware": "#6b8e4e",
    "nopfs": "#2f7d5b",
    "foreload": "#1f5a91",
}
OTHER_COLOURS = ("#5f4b3a", "#c46a9b", "#3aa6a0", "#444444")
LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v")
WAITING = 0.35  # how pale waiting is drawn


@dataclass(frozen=True)
class Run:
    """One policy's result; times in seconds."""

    policy: str
    set: dict[str, Any]
    seconds: float
    stall_fraction: float
    stalls: list[tuple[float, float]]  # (end, share) of some steps in a row


def is_simulation(document: Any) -> bool:
    return isinstance(document, dict) and "results" in document and "scenario" in document


def runs_of(file: str, document: dict[str, Any]) -> list[Run]:
    """What could be simulated."""
    try:
        runs = [
            Run(
                policy=str(result["policy"]),
                set=dict(result.get("set", {})),
                seconds=float(result["seconds"]),
                stall_fraction=float(result["stall_fraction"]),
                stalls=[(float(end), float(share)) for end, share in result.get("stalls", [])],
            )
            for result in document["results"]
            if result["supported"]
        ]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Refusal(
            f"cannot draw {file}: it is not a simulation; make one with 'foreload simulate --json'"
        ) from None
    if not runs or not all(math.isfinite(run.seconds) for run in runs):
        raise Refusal(f"cannot draw {file}: no policy could be simulated")
    return runs


def draw_simulation(file: str, document: dict[str, Any]) -> Figure:
    """A picture of a simulation: of its sweep if it has one, else of its policies."""
    from matplotlib.figure import Figure

    runs = runs_of(file, document)
    swept = [key for key in runs[0].set if len({str(run.set.get(key)) for run in runs}) > 1]
    figure = Figure(figsize=(11.0, 4.8), layout="constrained")
    figure.suptitle(str(document["scenario"]) or "simulation", fontsize=13)
    if swept:
        _draw_sweep(figure.subplots(), runs, swept)
        return figure
    curves = any(run.stalls for run in runs)
    axes = figure.subplots(1, 2 if curves else 1, squeeze=False)[0]
    _draw_times(axes[0], runs)
    if curves:
        _draw_stalls(axes[1], runs)
    return figure


def colour_of(policy: str, runs: list[Run]) -> str:
    """A policy's colour, whatever else is in the picture."""
    if policy in POLICY_COLOURS:
        return POLICY_COLOURS[policy]
    others = [run.policy for run in runs if run.policy not in POLICY_COLOURS]
    return OTHER_COLOURS[list(dict.fromkeys(others)).index(policy) % len(OTHER_COLOURS)]


def _draw_times(axes: Axes, runs: list[Run]) -> None:
    places = range(len(runs))
    stalled = [run.seconds * run.stall_fraction for run in runs]
    computed = [run.seconds - stall for run, stall in zip(runs, stalled, strict=True)]
    colours = [colour_of(run.policy, runs) for run in runs]
    axes.barh(places, computed, height=0.65, color=colours)
    axes.barh(places, stalled, height=0.65, left=computed, color=colours, alpha=WAITING)
    longest = max(run.seconds for run in runs)
    for place, run in zip(places, runs, strict=True):
        axes.text(run.seconds + 0.01 * longest, place, f"{run.seconds:,.4g}", va="center", size=8)
    axes.set_yticks(list(places), [run.policy for run in runs])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.13 * longest)
    axes.set_xlabel("seconds")
    axes.set_title("Time of the job: computing dark, waiting pale")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_stalls(axes: Axes, runs: list[Run]) -> None:
    for run in runs:
        if not run.stalls or run.policy == "lower_bound":
            continue
        ends, shares = zip(*run.stalls, strict=True)
        colour = colour_of(run.policy, runs)
        axes.step(
            (0.0, *ends),
            (100 * shares[0], *(100 * share for share in shares)),
            where="pre",
            color=colour,
            linewidth=1.4,
            label=run.policy,
        )
    axes.set_title("Waiting for data, batch by batch")
    axes.set_xlabel("seconds since the start")
    axes.set_ylabel("% of the time")
    axes.set_ylim(0, 102)
    axes.set_xlim(left=0)
    axes.spines[["top", "right"]].set_visible(False)
    _legend_beside(axes)


def _legend_beside(axes: Axes) -> None:
    """To the right of the axes, where no data are."""
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))


def number_of(value: Any) -> float | None:
    """A swept value as a number, if it is one: 4, "20GB", "66MB/s"."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    try:
        return float(_core.parse_bytes(str(value).removesuffix("/s")))
    except ValueError:
        return None


def _draw_sweep(axes: Axes, runs: list[Run], swept: list[str]) -> None:
    """Time against the first key; the others tell curves apart."""
    key, *others = swept
    values = list(dict.fromkeys(str(run.set[key]) for run in runs))
    numbers = [number_of(run.set[key]) for run in runs]
    numeric = all(number is not None for number in numbers)
    curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for run, number in zip(runs, numbers, strict=True):
        case = ", ".join(f"{other} = {run.set[other]}" for other in others)
        x = number if numeric and number is not None else float(values.index(str(run.set[key])))
        curves.setdefault((run.policy, case), []).append((x, run.seconds))
    cases = list(dict.fromkeys(case for _, case in curves))
    for (policy, case), points in curves.items():
        xs, ys = zip(*sorted(points), strict=True)
        axes.plot(
            xs,
            ys,
            marker=MARKERS[cases.index(case) % len(MARKERS)],
            color=colour_of(policy, runs),
            linestyle=LINES[cases.index(case) % len(LINES)],
            label=", ".join(filter(None, [policy, case])),
        )
    ticks = sorted({x for points in curves.values() for x, _ in points})
    if numeric:
        labels = {number: str(run.set[key]) for run, number in zip(runs, numbers, strict=True)}
        if ticks[0] > 0 and ticks[-1] / ticks[0] > 20:
            axes.set_xscale("log")
        axes.set_xticks(ticks, [labels[x] for x in ticks])
        axes.set_xticks([], minor=True)
    else:
        axes.set_xticks(ticks, values)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(key)
    axes.set_ylabel("seconds")
    axes.set_title("Time of the job")
    axes.spines[["top", "right"]].set_visible(False)
    _legend_beside(axes)
