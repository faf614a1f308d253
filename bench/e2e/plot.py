# SPDX-License-Identifier: Apache-2.0
"""Draws what train_resnet50.py and loss_curves.py measured.

    python bench/e2e/plot.py --eager eager.json --compiled compiled.json --losses losses.json \\
        --out docs/gpu.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

NAMES = {
    "none": "no input",
    "cpu": "foreload, CPU decodes",
    "hybrid": "foreload, both decode",
    "gpu": "foreload, GPU decodes",
    "torch": "torch DataLoader",
}
COLOURS = {
    "none": "#b0b0b0",
    "cpu": "#1f6f8b",
    "hybrid": "#4fa3a5",
    "gpu": "#8cc7a1",
    "torch": "#d1495b",
}


def bars(axes: Any, measured: dict[str, dict[str, Any]]) -> None:
    """Images per second by input, one group for each way to run the network."""
    for group, found in enumerate(measured.values()):
        rates = {r["input"]: r["images_per_second"] for r in found["results"]}
        for place, kind in enumerate(kind for kind in NAMES if kind in rates):
            x = group + (place - 2) * 0.17
            axes.bar(x, rates[kind], 0.16, color=COLOURS[kind])
            axes.text(x, rates[kind] + 60, f"{rates[kind]:,.0f}", ha="center", fontsize=7)
    axes.set_xticks(range(len(measured)), list(measured))
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[kind]) for kind in NAMES]
    axes.legend(handles, list(NAMES.values()), fontsize=7, frameon=False, loc="upper left")
    axes.set_ylabel("images per second")
    axes.set_title("ResNet-50, bfloat16, batch 256, one H200, 16 cores", fontsize=9)


def curves(axes: Any, runs: dict[str, Any]) -> None:
    """Accuracy over wall-clock time."""
    for name, colour in (("torch", COLOURS["torch"]), ("foreload", COLOURS["cpu"])):
        run = runs[name]
        accuracy = [100 * share for share in run["accuracy"]]
        axes.plot(run["seconds"], accuracy, "o-", color=colour, label=name)
    axes.set_xlabel("seconds")
    axes.set_ylabel("accuracy in the epoch (%)")
    axes.set_title("ResNet-18 on 10 generated classes, same order", fontsize=9)
    axes.legend(fontsize=7, frameon=False, loc="lower right")
    axes.set_ylim(0, 100)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--eager", type=Path, required=True)
    parser.add_argument("--compiled", type=Path, required=True)
    parser.add_argument("--losses", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "foreload", "font.size": 8}
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=[3, 2])
    measured = {
        "eager": json.loads(given.eager.read_text()),
        "torch.compile": json.loads(given.compiled.read_text()),
    }
    bars(left, measured)
    left.set_ylim(0, 9500)
    curves(right, json.loads(given.losses.read_text()))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(given.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
