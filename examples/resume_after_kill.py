# SPDX-License-Identifier: Apache-2.0
"""A training run that is killed, twice, and goes on as if nothing had happened.

    python examples/resume_after_kill.py

Each run writes a checkpoint after every batch: where the loader is, and what was learned (here: a
list of what was seen). It is killed without warning in the middle of an epoch; the next run loads
the checkpoint. In the end every sample was seen once in every epoch, in the order of a run that was
never interrupted.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from small_images import make_images

import foreload

EPOCHS, BATCH = 3, 10


def train(folder: Path, checkpoint: Path, die_after: int) -> None:
    """Train to the end, or for so many batches."""
    loader = foreload.DataLoader(
        folder,
        batch_size=BATCH,
        shuffle=True,
        seed=1,
        transform=foreload.transforms.imagenet_train(32),
        return_index=True,
    )
    seen: list[int] = []
    if checkpoint.exists():
        saved = json.loads(checkpoint.read_text())
        seen = saved["seen"]
        loader.load_state_dict(saved["loader"])
    batches = 0
    while loader.state_dict()["epoch"] < EPOCHS:
        for _images, _labels, indices in loader:
            seen.extend(int(index) for index in indices)
            # Written beside and renamed, so that there always is a whole checkpoint.
            beside = checkpoint.with_suffix(".tmp")
            beside.write_text(json.dumps({"loader": loader.state_dict(), "seen": seen}))
            beside.replace(checkpoint)
            batches += 1
            if batches == die_after:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    if len(sys.argv) > 1:
        folder, checkpoint, die_after = sys.argv[1:]
        train(Path(folder), Path(checkpoint), int(die_after))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder, checkpoint = Path(scratch, "images"), Path(scratch, "checkpoint.json")
        make_images(folder)
        for die_after in (7, 9, 0):
            done = subprocess.run([sys.executable, __file__, folder, checkpoint, str(die_after)])
            seen = json.loads(checkpoint.read_text())["seen"]
            how = "was killed" if done.returncode else "ended"
            print(f"run {how} after {len(seen)} samples in all")
        expected = [i for e in range(EPOCHS) for i in foreload.order(96, seed=1, epoch=e).tolist()]
        print("as in one run" if seen == expected else "NOT as in one run")


if __name__ == "__main__":
    main()
