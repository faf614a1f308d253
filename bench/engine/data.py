# SPDX-License-Identifier: Apache-2.0
"""Data sets of raw files for benchmarks: class folders of files whose contents are just bytes.

Everything follows from the parameters, so that two machines make the same data set. Three kinds of
sizes: `fixed` (about 100 KiB each), `lognormal` (508 bytes to 15 MiB, 115 KiB on average) and
`large` (17 MB each).

    python bench/engine/data.py FOLDER --kind fixed --files 4000
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

KINDS = ("fixed", "lognormal", "large")
FORMAT = 1  # raised when the same parameters give other bytes
SMALLEST, LARGEST, MEAN = 508, 15 << 20, 115 << 10  # of lognormal, bytes


@dataclass(frozen=True)
class Recipe:
    kind: str = "fixed"
    files: int = 4000
    classes: int = 10
    seed: int = 1
    extension: str = ".jpg"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}: use one of {', '.join(KINDS)}")
        if not 1 <= self.classes <= self.files:
            raise ValueError(f"{self.files} files cannot fill {self.classes} classes")

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.files}-{self.classes}-{self.seed}"

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Bytes by sample number."""
        random = np.random.Generator(np.random.Philox(self.seed))
        if self.kind == "fixed":
            sizes = random.normal(100 << 10, 5 << 10, self.files)
            return np.clip(np.rint(sizes), 1, None).astype(np.int64)
        if self.kind == "large":
            return np.full(self.files, 17_000_000, dtype=np.int64)
        return lognormal_sizes(random.standard_normal(self.files))

    @property
    def bytes(self) -> int:
        return int(self.sizes.sum())

    def path(self, sample: int) -> str:
        """Sample numbers follow the order of the sorted paths, as loaders number files."""
        of_class = sample * self.classes // self.files
        return f"class{of_class:04d}/{sample:08d}{self.extension}"

    def contents(self, sample: int) -> bytes:
        random = np.random.Generator(np.random.SFC64([self.seed, sample]))
        return random.bytes(int(self.sizes[sample]))


def lognormal_sizes(normal: NDArray[np.float64], sigma: float = 1.0) -> NDArray[np.int64]:
    """Clipped to the limits, shifted until the mean is right; a large set reaches both limits."""
    reach = len(normal) >= 1000

    def sizes(shift: float) -> NDArray[np.int64]:
        drawn = np.clip(np.rint(np.exp(shift + sigma * normal)), SMALLEST, LARGEST)
        if reach:
            drawn[normal.argmin()] = SMALLEST
            drawn[normal.argmax()] = LARGEST
        return drawn.astype(np.int64)

    low, high = np.log(SMALLEST), np.log(LARGEST)
    for _ in range(60):
        middle = (low + high) / 2
        if sizes(middle).mean() < MEAN:
            low = middle
        else:
            high = middle
    return sizes(high)


@dataclass(frozen=True)
class DataSet:
    root: Path
    recipe: Recipe

    @property
    def bytes(self) -> int:
        return self.recipe.bytes

    @property
    def files(self) -> int:
        return self.recipe.files


def marker(root: Path) -> Path:
    """Beside the data set and not in it, where a loader would take it for a sample."""
    return root.with_name(root.name + ".made.json")


def make(folder: Path, recipe: Recipe) -> DataSet:
    """Makes the data set in a folder of its own below `folder`, unless it is there already."""
    root = Path(folder) / recipe.name
    made = {
        "format": FORMAT,
        **asdict(recipe),
        "sizes": hashlib.sha256(recipe.sizes.tobytes()).hexdigest(),
    }
    if root.exists():
        if not marker(root).exists():
            raise FileExistsError(f"{root} is there but was not made by this program: move it away")
        if json.loads(marker(root).read_text("utf-8")) == made:
            return DataSet(root, recipe)
    partial = root.with_name(root.name + ".partial")
    for leftover in (root, partial):
        shutil.rmtree(leftover, ignore_errors=True)
    marker(root).unlink(missing_ok=True)
    for sample in range(recipe.files):
        path = partial / recipe.path(sample)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(recipe.contents(sample))
    # The marker first: a data set without one is taken for somebody else's.
    marker(root).write_text(json.dumps(made) + "\n", "utf-8")
    os.rename(partial, root)
    return DataSet(root, recipe)


def remove(data: DataSet) -> None:
    shutil.rmtree(data.root, ignore_errors=True)
    marker(data.root).unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Make a data set for benchmarks.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kind", choices=KINDS, default="fixed")
    parser.add_argument("--files", type=int, default=4000)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--extension", default=".jpg")
    options = vars(parser.parse_args())
    data = make(options.pop("folder"), Recipe(**options))
    print(f"{data.root}: {data.files} files, {data.bytes} bytes")


if __name__ == "__main__":
    main()
