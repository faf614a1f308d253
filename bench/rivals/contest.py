# SPDX-License-Identifier: Apache-2.0
"""The loop that every contestant runs, in whatever environment: batches of training images, timed.

A contestant is a script that calls `compete(make)`, where `make(options)` builds its loader and
gives a function from the number of an epoch to that epoch's batches: arrays of images as they would
go to the model, (images, 3, 224, 224) float32, normalised.

The time to the first batch counts from before `make`; imports are counted apart. Prints one JSON
object. Needs nothing but numpy.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "engine"))

from waits import timed

BEGIN = time.monotonic()

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SIDE = 224
SCALE = (0.08, 1.0)  # of the area, as torchvision's RandomResizedCrop draws it
RATIO = (3 / 4, 4 / 3)

Make = Callable[[argparse.Namespace], Callable[[int], Iterable[Any]]]


def class_files(folder: str | Path) -> tuple[list[str], list[int]]:
    """Paths and classes as torchvision's ImageFolder orders them."""
    paths: list[str] = []
    labels: list[int] = []
    with os.scandir(folder) as entries:
        classes = sorted(entry.name for entry in entries if entry.is_dir())
    for label, name in enumerate(classes):
        names = sorted(os.listdir(os.path.join(folder, name)))
        paths += [os.path.join(folder, name, file) for file in names]
        labels += [label] * len(names)
    return paths, labels


def random_crop(width: int, height: int, uniform: Callable[[float, float], float]) -> list[int]:
    """Left, top, width and height of a crop, by torchvision's rule."""
    for _ in range(10):
        area = width * height * uniform(*SCALE)
        ratio = math.exp(uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return [int(uniform(0, width - w + 1)), int(uniform(0, height - h + 1)), w, h]
    w = min(width, round(height * RATIO[1]))
    h = min(height, round(width / RATIO[0]))
    return [(width - w) // 2, (height - h) // 2, w, h]


def look_of(batch: Any) -> dict[str, Any]:
    """What tells whether a batch is what was asked for."""
    few = batch[:8]
    mean = few.float().mean() if hasattr(few, "float") else few.mean()  # torch, numpy
    kind = str(batch.dtype).rpartition(".")[2]
    return {"shape": list(batch.shape), "type": kind, "mean": float(mean)}


def one_epoch(batches: Iterable[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """How an epoch went, and what its first batch looked like."""
    waits: list[float] = []
    images = 0
    sight: dict[str, Any] = {}
    begin, busy = time.monotonic(), time.process_time()
    for batch in timed(iter(batches), waits):
        sight = sight or look_of(batch)
        images += len(batch)
    figures = {
        "seconds": time.monotonic() - begin,
        "cpu_seconds": time.process_time() - busy,  # of this process, worker processes apart
        "images": images,
        # The pause at the border of epochs: the last batch was given just before.
        "first_wait": waits[0],
    }
    return figures, sight


def compete(
    make: Make, add_options: Callable[[argparse.ArgumentParser], None] | None = None
) -> None:
    parser = argparse.ArgumentParser(description="Load training images and time it.")
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    if add_options:
        add_options(parser)
    options = parser.parse_args()
    begin = time.monotonic()
    epoch_of = make(options)
    epochs: list[dict[str, Any]] = []
    result: dict[str, Any] = {"import_seconds": begin - BEGIN}
    for number in range(options.epochs):
        made = time.monotonic()
        figures, sight = one_epoch(epoch_of(number))
        if number == 0:
            result["first_batch_seconds"] = made - begin + figures["first_wait"]
            result |= sight
        epochs.append(figures)
    print(json.dumps(result | {"epochs": epochs}), flush=True)
