# SPDX-License-Identifier: Apache-2.0
"""Images for the other examples: four classes of coloured patterns, always the same ones.

    python examples/small_images.py FOLDER

`foreload make-images FOLDER` writes photo-like ones of any number and size.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image


def make_images(folder: Path, count: int = 96, seed: int = 0) -> Path:
    """Write `count` JPEG files in class folders, unless they are there."""
    random = np.random.default_rng(seed)
    for number in range(count):
        label = number % 4
        colour = np.eye(4, 3)[label] * 120
        coarse = random.uniform(0, 100, (6, 6, 3)) + colour
        target = folder / f"class{label}" / f"{number:05}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        side = int(random.integers(40, 64))
        Image.fromarray(coarse.astype(np.uint8)).resize((side, side + 8)).save(target)
    return folder


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="images-"))
    make_images(folder)
    print(f"{sum(1 for _ in folder.rglob('*.jpg'))} images in {folder}")


if __name__ == "__main__":
    main()
