# SPDX-License-Identifier: Apache-2.0
"""Tables of what was measured, and which goals it meets; says so where something was not measured.

python bench/e2e/summary.py train.json --losses losses.json --slow slow.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CORES = 0.65  # share of the cores that decoding on the CPU may use, eager
NEAR = 0.97  # of the rate without input
LONGEST = 1.2  # step, of the median
TIMES_TORCH = 3.6
FIRST_BATCH = 1.0  # seconds
PATHS = ("cpu", "gpu", "hybrid")

Goal = tuple[str, bool | None, str]  # what, whether it is met (None: not measured), figures


def by_input(train: dict[str, Any], part: str) -> dict[str, Any]:
    return {r["input"]: r for r in train["parts"].get(part, []) if "input" in r}


def table(train: dict[str, Any], part: str) -> list[str]:
    found = by_input(train, part)
    if not found:
        return []
    base = found.get("none", {}).get("images_per_second")
    lines = [
        f"{part}:",
        "",
        "| input | images/s | of no input | CPUs | first batch | first epoch | longest step | "
        "epoch to epoch | long steps, by cause |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for kind, r in found.items():
        step = r["step_ms"]
        causes = [long["cause"] for long in r["long_steps"]]
        counts = ", ".join(f"{causes.count(cause)} {cause}" for cause in sorted(set(causes)))
        share = f"{r['images_per_second'] / base:.1%}" if base else ""
        lines.append(
            f"| {kind} | {r['images_per_second']:,.0f} | {share} | {r['cpus']:.1f} | "
            f"{r['first_batch_seconds']:.2f} s | {r['epochs'][0]['images_per_second']:,.0f} | "
            f"{step['longest_of_median']:.2f} x | {step['from_epoch_to_epoch']:.1f} ms of "
            f"{step['median']:.1f} | {counts} |"
        )
    return [*lines, ""]


def steps_table(train: dict[str, Any]) -> list[str]:
    rows = [r for r in train["parts"].get("steps", []) if "step_ms" in r]
    if not rows:
        return []
    lines = [
        "What makes steps long (compiled, CPU decodes):",
        "",
        "| changed | images/s | longest | p99 | long steps | idle | pinned memory allocated | "
        "collector |",
        "|---|---:|---:|---:|---|---:|---:|---:|",
    ]
    for r in rows:
        causes = [long["cause"] for long in r["long_steps"]]
        counts = ", ".join(f"{causes.count(cause)} {cause}" for cause in sorted(set(causes)))
        later = r["epochs"][1:]
        lines.append(
            f"| {r['name']} | {r['images_per_second']:,.0f} | "
            f"{r['step_ms']['longest_of_median']:.2f} x | "
            f"{r['step_ms']['p99'] / r['step_ms']['median']:.2f} x | {counts} | "
            f"{sum(e['idle'] for e in later)} | {sum(e['pinned_allocations'] for e in later)} | "
            f"{sum(e['collecting_ms'] for e in later):.0f} ms |"
        )
    return [*lines, ""]


def stalls_table(train: dict[str, Any], part: str) -> list[str]:
    rows = by_input(train, part)
    if not rows:
        return []
    lines = [
        f"Where the time of {part} went, from the second epoch on:",
        "",
        "| input | source | decode | copy | loop | compute |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind, r in rows.items():
        later = r["epochs"][1:]
        total = sum(e["seconds"] for e in later)
        cells = [
            f"{sum(e['stalls'][name] for e in later) / total:.1%}"
            for name in ("source", "decode", "copy", "loop", "compute")
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return [*lines, ""]


def first_table(train: dict[str, Any]) -> list[str]:
    rows = [r for r in train["parts"].get("first", []) if "bound" in r]
    if not rows:
        return []
    lines = ["| first epoch | images/s | bound | share | bound by |", "|---|---:|---:|---:|---|"]
    for r in rows:
        name = r["name"].removesuffix(": bound")
        lines.append(
            f"| {name} | {r['images_per_second']:,.0f} | {r['bound']:,.0f} | {r['share']:.1%} | "
            f"{r['limited_by']} |"
        )
    return [*lines, ""]


def goals_of(train: dict[str, Any]) -> Iterator[Goal]:
    eager, compiled = by_input(train, "eager"), by_input(train, "compiled")
    share = cores = best = times = None
    said = {"share": "", "cores": "", "best": "", "times": ""}
    if "none" in eager and "cpu" in eager:
        share = eager["cpu"]["images_per_second"] / eager["none"]["images_per_second"]
        cores = eager["cpu"]["cpus"] / train["cpus"]
        said |= {"share": f"{share:.1%}", "cores": f"{cores:.0%}"}
    rates = {kind: compiled[kind]["images_per_second"] for kind in PATHS if kind in compiled}
    if rates and "none" in compiled:
        kind = max(rates, key=lambda kind: rates[kind])
        best = rates[kind] / compiled["none"]["images_per_second"]
        said["best"] = f"{kind}: {best:.1%}"
    if rates and "torch" in compiled:
        times = max(rates.values()) / compiled["torch"]["images_per_second"]
        said["times"] = f"{times:.2f} x"
    yield f"eager, CPU decodes: {NEAR:.0%} of no input", share and share >= NEAR, said["share"]
    yield f"  with at most {CORES:.0%} of the cores", cores and cores <= CORES, said["cores"]
    yield f"compiled, best path: {NEAR:.0%} of no input", best and best >= NEAR, said["best"]
    yield f"  {TIMES_TORCH} x the DataLoader", times and times >= TIMES_TORCH, said["times"]
    for part, found in (("eager", eager), ("compiled", compiled)):
        for kind in PATHS:
            r = found.get(kind)
            longest = r and r["step_ms"]["longest_of_median"]
            none = found["none"]["step_ms"]["longest_of_median"] if "none" in found else 0.0
            yield (
                f"{part}, {kind}: longest step {LONGEST} x the median",
                longest and longest <= LONGEST,
                f"{longest:.2f} x, without input {none:.2f} x" if longest else "",
            )
            pause = r and r["step_ms"]["from_epoch_to_epoch"] / r["step_ms"]["median"]
            yield (
                f"{part}, {kind}: no pause between epochs ({LONGEST} x a step)",
                pause and pause <= LONGEST,
                f"{pause:.2f} x" if pause else "",
            )
            first = r and r["first_batch_seconds"]
            yield (
                f"{part}, {kind}: first batch within {FIRST_BATCH:g} s",
                first and first <= FIRST_BATCH,
                f"{first:.2f} s" if first else "",
            )
    known = [r for r in train["parts"].get("first", []) if "known source: bound" in r["name"]]
    for how in ("eager", "compiled"):
        r = next((r for r in known if r["name"].startswith(how)), None)
        yield (
            f"{how}: first epoch at the source's limit ({NEAR:.0%})",
            r and r["share"] >= NEAR,
            f"{r['share']:.1%} of {r['bound']:,.0f} images/s" if r else "",
        )
    peaks = {kind: r["peak_device_bytes"] for kind, r in compiled.items()}
    if "none" in peaks:
        for kind in PATHS:
            if kind in peaks:
                more = (peaks[kind] - peaks["none"]) / 1e6
                yield f"compiled, {kind}: device memory for input", True, f"{more:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("train", type=Path)
    parser.add_argument("--losses", type=Path, default=None)
    parser.add_argument("--slow", type=Path, default=None)
    given = parser.parse_args()
    train = json.loads(given.train.read_text())
    lines = [f"{train['gpu']}, {train['cpus']} CPUs, torch {train['torch']}", ""]
    for part in ("eager", "compiled", "tiny"):
        lines += table(train, part)
    lines += steps_table(train)
    for part in ("compiled", "tiny"):
        lines += stalls_table(train, part)
    lines += first_table(train)
    goals = list(goals_of(train))
    if given.losses is not None:
        losses = json.loads(given.losses.read_text())
        verdict, own = losses["verdicts"]["foreload"], losses["verdicts"]["own chain"]
        goals.append(
            (
                "losses within the noise of two DataLoader runs",
                verdict["within_noise"],
                f"{verdict['difference']:.6f} against {verdict['noise']:.6f}; with foreload's own "
                f"chain {own['difference']:.6f}, {losses['differing']:.4%} of the numbers differ",
            )
        )
    if given.slow is not None:
        found = json.loads(given.slow.read_text())
        seconds = found["comparison"]["seconds"]
        goals.append(
            (
                "accuracy sooner from a slow source",
                seconds["foreload"] < seconds["torch"],
                f"{found['comparison']['accuracy']:.1%} after {seconds['foreload']:.1f} instead of "
                f"{seconds['torch']:.1f} s ({found['source']['kind']})",
            )
        )
    for what, met, figures in goals:
        word = "not measured" if met is None else "met" if met else "MISSED"
        lines.append(f"- {word}: {what}{': ' if figures else ''}{figures}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
