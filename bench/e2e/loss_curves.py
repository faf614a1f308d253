# SPDX-License-Identifier: Apache-2.0
"""Whether a network learns the same from foreload as from torch's DataLoader.

    foreload make-images /tmp/classes --count 5120 --classes 10 --mean-size 105KB --pixels 487x424
    python bench/e2e/loss_curves.py /tmp/classes --out build/e2e/losses.json

A small ResNet in bfloat16 from the same start, on the same order and the same transform (see
pictures.py): twice with torch's DataLoader, once with foreload and the same function, once with
foreload's own chain of the same steps. The GPU may add numbers up in no fixed order, so the two
runs with torch may differ too: by how much is the noise that foreload's differences are compared
with. Ends with status 1 if the one with the same function is beyond it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from networks import Training, warm_up
from pictures import Course

# How far above the difference of two runs of the same kind a third one may lie: two runs show one
# difference, and another pair would show another.
SLACK = 1.5


def train(epochs: Iterator[Iterator[Any]], training: Training) -> dict[str, Any]:
    losses, right, seen, begin = [], [], [], time.perf_counter()
    for epoch in epochs:
        hits, count = torch.zeros((), device=training.device), 0
        for images, labels in epoch:
            loss, scores = training.step(images, labels)
            losses.append(loss)
            hits += (scores.argmax(1) == labels).sum()
            count += len(labels)
        right.append(hits.item() / count)
        seen.append(time.perf_counter() - begin)
    return {"losses": [loss.item() for loss in losses], "accuracy": right, "seconds": seen}


def distance(a: list[float], b: list[float]) -> float:
    """Mean difference of two loss curves."""
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)


def verdict_of(first: list[float], second: list[float], other: list[float]) -> dict[str, Any]:
    """How far the other curve is from two that should be alike, and whether that is within what
    those two differ by."""
    noise = distance(first, second)
    found = (distance(first, other) + distance(second, other)) / 2
    return {"noise": noise, "difference": found, "within_noise": found <= SLACK * noise}


def pixels_that_differ(course: Course) -> float:
    """The share of the first batch in which the two ways of foreload differ."""
    first = [
        next(iter(next(epochs)))[0]
        for epochs in (course.from_foreload(), course.from_foreload_shared())
    ]
    return (first[0] != first[1]).float().mean().item()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--dry", action="store_true", help="try the script where there is no GPU")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args(arguments)
    device = "cpu" if given.dry else "cuda"
    course = Course(given.folder, device, given.size, given.batch, given.epochs, given.workers)
    network = "smaller" if given.dry else "small"
    warm_up(network, given.classes, device, given.batch, given.size)
    runs: dict[str, Any] = {}
    for name, epochs in (
        ("torch", course.from_torch),
        ("torch again", course.from_torch),
        ("foreload", course.from_foreload_shared),
        ("own chain", course.from_foreload),
    ):
        training = Training(network, given.classes, device, decay=1e-4)
        runs[name] = train(epochs(), training)
        accuracy = ", ".join(f"{share:.1%}" for share in runs[name]["accuracy"])
        print(
            f"{name:12} accuracy by epoch {accuracy}; {runs[name]['seconds'][-1]:.1f} s", flush=True
        )
    losses = {name: run["losses"] for name, run in runs.items()}
    verdicts = {
        name: verdict_of(losses["torch"], losses["torch again"], losses[name])
        for name in ("foreload", "own chain")
    }
    for name, verdict in verdicts.items():
        within = "within" if verdict["within_noise"] else "BEYOND"
        print(
            f"{name}: mean difference of losses {verdict['difference']:.6f}, {within} the noise "
            f"of two DataLoader runs, {verdict['noise']:.6f}"
        )
    differ = pixels_that_differ(course)
    print(f"numbers of the first batch that differ with the own chain: {differ:.4%}")
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(runs | {"verdicts": verdicts, "differing": differ}) + "\n")
    if not verdicts["foreload"]["within_noise"]:
        sys.exit(1)


if __name__ == "__main__":
    main()
