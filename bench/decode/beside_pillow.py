# SPDX-License-Identifier: Apache-2.0
"""Training samples a second of one thread, foreload and Pillow in turn, by kind of file.

Needs the package, and its own program:
    cmake --preset release
    cmake --build --preset release --target one_thread
    .venv/bin/python bench/decode/beside_pillow.py

Both make the same samples: RandomResizedCrop to 224 with the same crops, and a flip. A round is
CPU time of one thread; rounds alternate, and the ratio is the median over pairs of rounds. The sums
of all pixels must agree. Page faults are those of a sample. Both use the allocator of the C library
as it is, unless LD_PRELOAD says otherwise.
"""

import argparse
import io
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image, features

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "decode"))
from pillow_reference import StepRandom, random_resized_crop_box  # noqa: E402

PROGRAM = ROOT / "build" / "release" / "bench" / "decode" / "one_thread"
SIZES = [(500, 400), (1000, 1500), (2000, 1500)]
KINDS = {
    "baseline": {"subsampling": 2},
    "baseline 4:4:4": {"subsampling": 0},
    "restarts": {"subsampling": 2, "restart_marker_rows": 1},
    "progressive": {"subsampling": 2, "progressive": True},
    "progressive 4:4:4": {"subsampling": 0, "progressive": True},
    "grey": {"mode": "L"},
    "CMYK": {"mode": "CMYK"},
    "PNG": {"kind": "PNG"},
    "PNG with alpha": {"kind": "PNG", "mode": "RGBA"},
    "WebP": {"kind": "WEBP"},
    "WebP, lossless": {"kind": "WEBP", "lossless": True, "method": 1},
}


def photo(folder: Path, width: int, height: int) -> Image.Image:
    """One that foreload makes, scaled to the size."""
    command = [ROOT / ".venv" / "bin" / "foreload", "make-images", folder, "--count", "1"]
    command += ["--classes", "1", "--pixels", f"{width}x{height}"]
    subprocess.run(command, check=True, capture_output=True)
    with Image.open(next(folder.rglob("*.jpg"))) as image:
        return image.convert("RGB").resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, mode: str = "RGB", kind: str = "JPEG", **options) -> bytes:
    file = io.BytesIO()
    image.convert(mode).save(file, kind, quality=90, **options)
    return file.getvalue()


def of_pillow(data: bytes, positions: range) -> tuple[float, int, int]:
    """Seconds, page faults, sum of all pixels."""
    draws = []
    with Image.open(io.BytesIO(data)) as image:
        for position in positions:
            box = random_resized_crop_box({}, *image.size, StepRandom(0, 0, position, 0))
            draws.append((box, StepRandom(0, 0, position, 1).unit() < 0.5))
    total = 0
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    begin = time.thread_time()
    for (left, top, width, height), flip in draws:
        with Image.open(io.BytesIO(data)) as image:
            sample = image.convert("RGB").crop((left, top, left + width, top + height))
        sample = sample.resize((224, 224), Image.Resampling.BILINEAR)
        if flip:
            sample = sample.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        total += int(np.asarray(sample).sum(dtype=np.uint64))
    took = time.thread_time() - begin
    return took, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--samples", type=int, default=24, help="in a round, at 500 x 400")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    options = parser.parse_args()
    allocator = os.environ.get("LD_PRELOAD") or " ".join(os.confstr("CS_GNU_LIBC_VERSION").split())
    names = ("libjpeg_turbo", "zlib", "webp")
    libraries = ", ".join(f"{name} {features.version(name)}" for name in names)
    print(f"Pillow with {libraries}; allocator of both: {allocator}")
    print(f"{'kind':28} {'KiB':>5} {'foreload':>9} {'Pillow':>9} {'ratio':>6}   page faults")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {}
        for width, height in SIZES:
            image = photo(folder / f"{width}", width, height)
            for kind in options.kinds:
                files[f"{kind}, {width} x {height}"] = encoded(image, **KINDS[kind])
        paths = [folder / f"{number}.jpg" for number in range(len(files))]
        for path, data in zip(paths, files.values(), strict=True):
            path.write_bytes(data)
        with subprocess.Popen(
            [PROGRAM, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as ours:
            for number, (kind, data) in enumerate(files.items()):
                samples = options.samples if "500 x" in kind else max(1, options.samples // 6)
                pairs = []
                for turn in range(options.rounds + 1):
                    positions = range(turn * samples, (turn + 1) * samples)
                    ours.stdin.write(f"{number} {positions.start} {samples}\n")
                    ours.stdin.flush()
                    mine = [int(word) for word in ours.stdout.readline().split()]
                    theirs = of_pillow(data, positions)
                    if mine[2] != theirs[2]:
                        sys.exit(f"{kind}: the samples are not the same")
                    if turn > 0:  # the first one warms up
                        pairs.append((mine[0] / 1e9, theirs[0], mine[1], theirs[1]))
                middle = [
                    statistics.median(column) / samples for column in zip(*pairs, strict=True)
                ]
                ratio = statistics.median(theirs / mine for mine, theirs, *_ in pairs)
                print(
                    f"{kind:28} {len(data) >> 10:5} {middle[0] * 1e3:6.2f} ms"
                    f" {middle[1] * 1e3:6.2f} ms {ratio:6.2f}   {middle[2]:.0f}, {middle[3]:.0f}",
                    flush=True,
                )
            ours.stdin.close()


if __name__ == "__main__":
    main()
