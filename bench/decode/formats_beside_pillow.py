# SPDX-License-Identifier: Apache-2.0
"""Training crops of 224 x 224 from files of several formats, by foreload and by Pillow, one thread.

    .venv/bin/python bench/decode/formats_beside_pillow.py [--rounds 11] [--crops 48] [FORMAT ...]

Both decode, crop as RandomResizedCrop draws it, resize, and make an array of bytes. They take
turns, round by round. A ratio is Pillow's CPU time over foreload's, the median of all rounds.
"""

import argparse
import io
import math
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image, features

import foreload
from foreload import transforms

SIDE = 224
SIZES = {"500x400": 16, "1000x1500": 6}  # mean width x height: files
FORMATS: dict[str, tuple[str, dict[str, object]]] = {
    "jpeg": ("JPEG", {"quality": 90}),
    "png": ("PNG", {}),
    "webp": ("WEBP", {"quality": 85}),
    "webp-lossless": ("WEBP", {"lossless": True, "method": 1}),
}


def photos(folder: Path, pixels: str, count: int) -> list[Image.Image]:
    program = Path(sys.executable).with_name("foreload")
    command = [program, "make-images", folder, "--count", str(count), "--pixels", pixels]
    subprocess.run([*command, "--classes", "1"], check=True, stdout=subprocess.DEVNULL)
    return [Image.open(file).convert("RGB") for file in sorted(folder.rglob("*.jpg"))]


def saved(image: Image.Image, kind: str, options: dict[str, object]) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def training_crop(rng: random.Random, width: int, height: int) -> tuple[int, int, int, int]:
    """As torchvision's RandomResizedCrop draws it."""
    for _ in range(10):
        area = width * height * rng.uniform(0.08, 1)
        ratio = math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            left, top = rng.randrange(width - wide + 1), rng.randrange(height - high + 1)
            return left, top, left + wide, top + high
    return 0, 0, width, height


class Use:
    """CPU time and page faults of this thread."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.faults = 0

    def of(self, work: Callable[[], None]) -> None:
        faults = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt
        start = time.thread_time()
        work()
        self.seconds.append(time.thread_time() - start)
        self.faults += resource.getrusage(resource.RUSAGE_THREAD).ru_minflt - faults


def contest(files: list[bytes], rounds: int, crops: int) -> tuple[Use, Use]:
    chain = transforms.Compose([transforms.RandomResizedCrop(SIDE), transforms.ToLayout("HWC")])
    compiled = chain.compile()

    def by_foreload(turn: int) -> None:
        for i in range(crops):
            compiled.run(files[i % len(files)], 1, turn, i)

    def by_pillow(turn: int) -> None:
        rng = random.Random(turn)
        for i in range(crops):
            with Image.open(io.BytesIO(files[i % len(files)])) as image:
                part = image.convert("RGB").crop(training_crop(rng, *image.size))
            np.array(part.resize((SIDE, SIDE), Image.Resampling.BILINEAR))

    by_foreload(rounds), by_pillow(rounds)  # memory is taken, libraries are loaded
    ours, theirs = Use(), Use()
    for turn in range(rounds):
        ours.of(lambda turn=turn: by_foreload(turn))  # type: ignore[misc]
        theirs.of(lambda turn=turn: by_pillow(turn))  # type: ignore[misc]
    return ours, theirs


def settings() -> Iterator[str]:
    yield f"foreload {foreload.__version__}, Pillow {Image.__version__}"
    for name in ("jpg", "zlib", "webp"):
        yield f"Pillow's {name}: {features.version(name)}"
    yield f"allocator of both: {' '.join(platform.libc_ver())}"
    for name in ("LD_PRELOAD", "MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"):
        if name in os.environ:
            yield f"{name}={os.environ[name]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(FORMATS))
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--crops", type=int, default=48, help="of each round")
    asked = parser.parse_args()
    for name in asked.formats:
        if name not in FORMATS:
            parser.error(f"no format {name!r}; there are {', '.join(FORMATS)}")
    print("\n".join(settings()))
    print(f"CPU ms a crop of {asked.crops} in each of {asked.rounds} rounds; faults: pages a crop")
    print(f"{'':24} {'foreload':>9} {'faults':>7} {'Pillow':>8} {'faults':>7} {'ratio':>6}")
    for pixels, count in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            images = photos(Path(folder) / "photos", pixels, count)
        for name in asked.formats or FORMATS:
            files = [saved(image, *FORMATS[name]) for image in images]
            uses = contest(files, asked.rounds, asked.crops)
            mine, other = (statistics.median(use.seconds) / asked.crops * 1e3 for use in uses)
            faults = [use.faults / asked.rounds / asked.crops for use in uses]
            pairs = zip(uses[0].seconds, uses[1].seconds, strict=True)
            ratio = statistics.median(b / a for a, b in pairs)
            print(
                f"{name + ' ' + pixels:24} {mine:9.2f} {faults[0]:7.1f} {other:8.2f} "
                f"{faults[1]:7.1f} {ratio:6.2f}"
            )


if __name__ == "__main__":
    main()
