# SPDX-License-Identifier: Apache-2.0
"""Images for the other examples: 96 small ones in four classes, always the same.

python examples/small_images.py FOLDER
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def make_images(folder: Path) -> Path:
    """Write them into a new or empty folder, with the program that comes with foreload."""
    beside = shutil.which("foreload", path=Path(sys.executable).parent)
    command = [beside or "foreload", "make-images", folder, "--count", "96", "--classes", "4"]
    size = ["--mean-size", "3KiB", "--pixels", "56x48"]
    subprocess.run([*command, *size], check=True, stdout=subprocess.DEVNULL)
    return folder


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="images-"))
    make_images(folder)
    print(f"{sum(1 for _ in folder.rglob('*.jpg'))} images in {folder}")


if __name__ == "__main__":
    main()
