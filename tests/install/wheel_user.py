# SPDX-License-Identifier: Apache-2.0
"""What somebody does who has just installed a wheel. Run by the environment that has it:

    python wheel_user.py read FOLDER     makes photos in FOLDER, reads them through DataLoader
    python wheel_user.py share FOLDER [TRANSPORT [LAUNCHER...]]
                                         the same photos, by two ranks that act as one cache

Needs numpy and nothing else; prints what it saw as JSON, and stops at the first wrong thing.
"""

import json
import subprocess
import sys
from pathlib import Path

import foreload

PHOTOS = 60
SIZE = 64


PROGRAM = str(Path(sys.prefix) / "bin" / "foreload")


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def read(folder: str) -> dict[str, object]:
    loader = foreload.DataLoader(
        folder,
        batch_size=8,
        shuffle=True,
        seed=0,
        memory="64MiB",
        transform=foreload.transforms.imagenet_train(SIZE),
    )
    shapes, labels, samples = set(), set(), 0
    for images, numbers in loader:
        shapes.add(tuple(images.shape[1:]))
        labels.update(int(number) for number in numbers)
        samples += len(numbers)
    assert shapes == {(3, SIZE, SIZE)}, shapes
    assert labels == {0, 1, 2}, labels
    assert samples == PHOTOS, samples
    return {"samples": samples}


def share(folder: str, transport: str = "auto", *launcher: str) -> dict[str, object]:
    """Together the ranks read every file once, and give each other what they read later."""
    size = sum(file.stat().st_size for file in Path(folder).rglob("*.*") if file.is_file())
    command = [PROGRAM, "read", folder, "--epochs", "3", "--memory", "64MiB", "--json"]
    command += ["--transport", transport]
    report = json.loads(run(*(launcher or (PROGRAM, "launch", "-n", "2", "--")), *command))
    shared = sum(epoch["from"]["peer"] for epoch in report["epochs"])
    assert size <= report["source_bytes"] <= 1.1 * size, (report["source_bytes"], size)
    assert shared >= 0.2 * size, (shared, size)
    return {
        "transport": report["transport"],
        "source_bytes": report["source_bytes"],
        "shared": shared,
    }


def main(verb: str, folder: str, *how: str) -> None:
    if not Path(folder).exists():
        sizes = ("--count", str(PHOTOS), "--mean-size", "20KiB", "--classes", "3")
        run(PROGRAM, "make-images", folder, *sizes)
    told = {"read": read, "share": share}[verb](folder, *how)
    print(json.dumps({"version": foreload.__version__, "module": foreload.__file__, **told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
