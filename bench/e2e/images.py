# SPDX-License-Identifier: Apache-2.0
"""Pictures to train on: JPEG files as large and as hard to decode as those of ImageNet.

    python bench/e2e/images.py FOLDER --count 20000 --classes 100

500 x 375 pixels and about 110 KB each. A picture is smooth noise of its own plus a pattern of its
class, whose strength --signal sets, so that a network can learn to tell classes apart.
"""

from __future__ import annotations

import argparse
import io
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

WIDTH, HEIGHT, QUALITY = 500, 375, 92


def smooth(random: np.random.Generator, cells: int) -> np.ndarray:
    """Colours that change from cell to cell, from -1 to 1."""
    small = random.random((cells * 3 // 4 + 1, cells, 3), dtype=np.float32) * 255
    image = Image.fromarray(small.astype(np.uint8))
    grown = image.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    return np.asarray(grown, dtype=np.float32) / 127.5 - 1


def picture(number: int, label: int, signal: float, grain: float) -> np.ndarray:
    random = np.random.default_rng([7, number])
    pixels = 128 + 60 * smooth(random, 5) + 30 * smooth(random, 40)
    pixels += 60 * signal * smooth(np.random.default_rng([11, label]), 9)
    noise = random.standard_normal((HEIGHT, WIDTH, 1), dtype=np.float32)
    pixels += noise * np.float32(grain * random.uniform(0.5, 1.5))
    return pixels.clip(0, 255).astype(np.uint8)


def encoded(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def grain_for(size: int, signal: float) -> float:
    """How much grain makes files of that mean size."""
    low, high = 0.0, 60.0
    for _ in range(8):
        middle = (low + high) / 2
        sizes = [len(encoded(picture(i, i, signal, middle))) for i in range(12)]
        low, high = (middle, high) if np.mean(sizes) < size else (low, middle)
    return low


def make_some(folder: str, numbers: range, classes: int, signal: float, grain: float) -> int:
    written = 0
    for number in numbers:
        label = number % classes
        data = encoded(picture(number, label, signal, grain))
        Path(folder, f"class{label:04}", f"{number:07}.jpg").write_bytes(data)
        written += len(data)
    return written


def make_images(folder: str, count: int, classes: int, size: int, signal: float) -> int:
    """Writes the files with all CPUs; how many bytes they have."""
    for label in range(classes):
        Path(folder, f"class{label:04}").mkdir(parents=True, exist_ok=True)
    grain = grain_for(size, signal)
    workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(workers) as pool:
        parts = [
            pool.submit(make_some, folder, range(i, count, workers), classes, signal, grain)
            for i in range(workers)
        ]
        return sum(part.result() for part in parts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--size", type=int, default=110_000, help="mean bytes of a file")
    parser.add_argument("--signal", type=float, default=0.5)
    given = parser.parse_args()
    total = make_images(given.folder, given.count, given.classes, given.size, given.signal)
    print(f"{given.count} images, {total / given.count / 1000:.1f} kB each")
