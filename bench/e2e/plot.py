# SPDX-License-Identifier: Apache-2.0
"""Draws what train_resnet50.py and slow_source.py measured; one panel for each that is given.

python bench/e2e/plot.py --train train.json --slow slow.json --out docs/gpu.svg
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt
from slow_source import accuracy_of

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
GROUPS = {"eager": "eager", "compiled": "torch.compile"}


def bars(axes: Any, found: dict[str, Any]) -> None:
    """Images per second by input, one group for each way to run the network."""
    groups = [part for part in GROUPS if part in found["parts"]]
    highest = 0.0
    for group, part in enumerate(groups):
        rates = {r["input"]: r["images_per_second"] for r in found["parts"][part]}
        for place, kind in enumerate(kind for kind in NAMES if kind in rates):
            x = group + (place - 2) * 0.17
            axes.bar(x, rates[kind], 0.16, color=COLOURS[kind])
            axes.text(x, rates[kind], f"{rates[kind]:,.0f}", ha="center", va="bottom", fontsize=7)
            highest = max(highest, rates[kind])
    axes.set_xticks(range(len(groups)), [GROUPS[part] for part in groups])
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[kind]) for kind in NAMES]
    axes.legend(handles, list(NAMES.values()), fontsize=7, frameon=False, loc="upper left")
    axes.set_ylabel("images per second")
    axes.set_ylim(0, 1.35 * highest)
    axes.set_title(
        f"ResNet-50, bfloat16, batch {found['batch']}, {found['gpu']}, {found['cpus']} cores",
        fontsize=9,
    )


def curves(axes: Any, found: dict[str, Any]) -> None:
    """Accuracy over wall-clock time."""
    window = found["comparison"]["window"]
    for name, colour in (("torch", COLOURS["torch"]), ("foreload", COLOURS["cpu"])):
        seconds, shares = zip(*accuracy_of(found["runs"][name], window), strict=True)
        label = {"torch": "torch DataLoader", "foreload": "foreload"}[name]
        axes.plot(seconds, [100 * share for share in shares], color=colour, label=label)
        for end in found["runs"][name]["epochs"]:
            axes.axvline(end, color=colour, alpha=0.15, linewidth=1)
    rate = found["source"]["bytes_per_second"] / 1e6
    axes.set_xlabel("seconds (thin lines: ends of epochs)")
    axes.set_ylabel("accuracy (%)")
    axes.set_title(f"learning from a source of {rate:g} MB/s, same order", fontsize=9)
    axes.legend(fontsize=7, frameon=False, loc="lower right")
    axes.set_ylim(0, 100)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--train", type=Path, default=None)
    parser.add_argument("--slow", type=Path, default=None)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    drawn = [
        (draw, json.loads(file.read_text()))
        for draw, file in ((bars, given.train), (curves, given.slow))
        if file is not None
    ]
    plt.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "foreload", "font.size": 8}
    widths = [3 if draw is bars else 2 for draw, _ in drawn]
    figure, panels = plt.subplots(
        1, len(drawn), figsize=(2 * sum(widths), 3.6), width_ratios=widths, squeeze=False
    )
    for axes, (draw, found) in zip(panels[0], drawn, strict=True):
        draw(axes, found)
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(given.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
