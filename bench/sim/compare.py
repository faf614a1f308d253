# SPDX-License-Identifier: Apache-2.0
"""foreload against the published policy in every scenario of bench/scenarios, as they are.

    python bench/sim/compare.py [NAME ...]

Checks that foreload is never slower and never reads more from the source, and, where the caches of
all nodes hold the data set, that it is within 3 % of the bound that also counts reading the data
set once at the source's best rate. Prints a table; the exit status says whether all of it holds.
The large scenarios take minutes and a few GB of memory.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "engine"))

from programs import default_foreload

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}

Json = dict[str, Any]


def simulate(program: Path, file: Path, policies: str, *more: str) -> list[Json]:
    command = [str(program), "simulate", str(file), "--policy", policies, "--json", *more]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(json.loads(output)["results"])


def number(value: object) -> float:
    """A size or rate as scenarios write it: 66e6, "66MB/s", "50GB"."""
    if isinstance(value, int | float):
        return float(value)
    found = re.fullmatch(r"([\d.]+)\s*([kmgt]?)b?(?:/s)?", str(value).lower())
    if found is None:
        raise ValueError(f"{value!r} is neither a size nor a rate")
    return float(found[1]) * UNITS[found[2]]


def best_rate(curve: object) -> float:
    return max(number(rate) for _, rate in curve) if isinstance(curve, list) else number(curve)


def bound_seconds(scenario: Json, result: Json, dataset_bytes: float) -> float:
    """Reading once what must be read and computing everything, the first epoch overlapped."""
    epochs = scenario["training"].get("epochs", 1)
    epoch = result["seconds"] / result["times_lower_bound"] / epochs
    reading = dataset_bytes / best_rate(scenario["cluster"]["source"]["curve"])
    return max(epoch, reading) + (epochs - 1) * epoch


def compare(program: Path, name: str) -> tuple[list[str], bool]:
    file = SCENARIOS / f"{name}.json"
    scenario = json.loads(file.read_text("utf-8"))
    results = simulate(program, file, "nopfs,foreload")
    once = simulate(program, file, "lower_bound", "--set", "training.epochs=1")
    rows = []
    good = True
    for i in range(0, len(results), 2):
        theirs, ours = results[i], results[i + 1]
        dataset_bytes = once[i // 2]["source_bytes_lower_bound"]
        fits = ours["source_bytes_lower_bound"] <= 1.0001 * dataset_bytes
        bound = bound_seconds(scenario, ours, dataset_bytes) if fits else 0
        checks = {
            # Its loop gets whole batches, that of the published policy begins with a sample.
            "slower": ours["seconds"] > 1.001 * theirs["seconds"],
            "reads more": ours["source_bytes"] > theirs["source_bytes"],
            "above the bound": fits and ours["seconds"] > 1.03 * bound,
        }
        wrong = [what for what, happened in checks.items() if happened]
        good = good and not wrong
        label = name + "".join(f", {key} {value}" for key, value in ours.get("set", {}).items())
        least = ours["source_bytes_lower_bound"]
        rows.append(
            f"| {label} | {theirs['seconds']:,.2f} | {ours['seconds']:,.2f} "
            f"| {f'{bound:,.2f}' if fits else '-'} | {theirs['source_bytes'] / least:.2f} "
            f"| {ours['source_bytes'] / least:.3f} | {', '.join(wrong) or 'holds'} |"
        )
    return rows, good


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare foreload with NoPFS as published.")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--foreload", type=Path, default=default_foreload(), help="the program")
    options = parser.parse_args()
    names = options.names or sorted(file.stem for file in SCENARIOS.glob("*.json"))
    print("| scenario | NoPFS, s | foreload, s | bound, s | NoPFS, x least | foreload, x least | |")
    print("|---|---:|---:|---:|---:|---:|---|", flush=True)
    all_good = True
    for name in names:
        rows, good = compare(options.foreload, name)
        all_good = all_good and good
        print("\n".join(rows), flush=True)
    return 0 if all_good else 1


if __name__ == "__main__":
    sys.exit(main())
