# SPDX-License-Identifier: Apache-2.0
"""Samples of image and mask, decoded by C++ and by Python threads that call the same C++ functions.

Both loaders are in one process and take turns. What makes the second one's samples in Python is a
function for a part of a few bytes, which does nothing.

    .venv/bin/python bench/decode/parts.py
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

import foreload
from foreload import transforms as t

# Batches that were made while the other one had its turn, and are not counted.
MADE_AHEAD = 10
WAYS = {"by C++": None, "by Python threads": bytes}


class Scenes:
    """Photo-like JPEG files and PNG masks of a few areas."""

    def __init__(self, folder: Path, count: int) -> None:
        self._folder = folder
        self._count = count
        random = np.random.default_rng(0)
        (folder / "note").write_bytes(b"note")
        for number in range(count):
            coarse = random.integers(0, 256, (12, 16, 3), dtype=np.uint8)
            image = Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC)
            noise = random.normal(0, 12, (375, 500, 3))
            pixels = np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / f"{number}.jpg", quality=90)
            areas = Image.fromarray(random.integers(0, 21, (6, 8), dtype=np.uint8))
            areas.resize((500, 375), Image.Resampling.NEAREST).save(folder / f"{number}.png")

    def __len__(self) -> int:
        return self._count

    def locate(self, index: int) -> dict[str, Path]:
        return {
            "image": self._folder / f"{index}.jpg",
            "mask": self._folder / f"{index}.png",
            "note": self._folder / "note",
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    rates: dict[str, list[float]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        data = Scenes(Path(folder), options.samples)
        loaders = {
            way: foreload.DataLoader(
                data,
                batch_size=32,
                shuffle=True,
                seed=0,
                num_workers=options.threads,
                memory="1GiB",
                transform={
                    "image": t.imagenet_train(224),
                    "mask": foreload.MaskOf("image", fill=255),
                    "note": function,
                },
            )
            for way, function in WAYS.items()
        }
        for round_number in range(-1, options.rounds):  # the first one fills the caches
            for way, loader in loaders.items():
                batches = iter(loader)
                for _ in range(MADE_AHEAD):
                    next(batches)
                begin = time.perf_counter()
                samples = sum(len(batch["image"]) for batch in batches)
                if round_number >= 0:
                    rates[way].append(samples / (time.perf_counter() - begin))
        for loader in loaders.values():
            loader.close()
    for way, found in rates.items():
        spread = f"{min(found):,.0f} to {max(found):,.0f}"
        print(f"{way}: {statistics.median(found):,.0f} samples/s ({spread})")
    pairs = [native / python for native, python in zip(*rates.values(), strict=True)]
    print(f"ratio: {statistics.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f})")


if __name__ == "__main__":
    main()
