# SPDX-License-Identifier: Apache-2.0
"""How long foreload.DataLoader takes to its first batch in the middle of a long epoch.

foreload_resume.py prepare FOLDER STATE    keeps the listing beside the folder and writes a state
foreload_resume.py resume FOLDER STATE     builds a loader, loads the state and waits for a batch
"""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contest
import torch  # noqa: F401

import foreload


def open_loader(folder):
    return foreload.DataLoader(
        folder,
        batch_size=64,
        shuffle=True,
        seed=0,
        num_workers=2,
        index=folder + ".index",
        transform=foreload.transforms.imagenet_train(contest.SIDE),
    )


def main():
    action, folder, place = sys.argv[1:]
    begin = time.monotonic()
    loader = open_loader(folder)
    made = time.monotonic()
    if action == "prepare":
        state = loader.state_dict()
        state["consumed"] = len(loader) // 2 * loader.batch_size
        Path(place).write_text(json.dumps(state), "utf-8")
        return
    loader.load_state_dict(json.loads(Path(place).read_text("utf-8")))
    images, _ = next(iter(loader))
    end = time.monotonic()
    assert images.shape == (64, 3, contest.SIDE, contest.SIDE)
    result = {"build_seconds": made - begin, "resume_seconds": end - begin}
    print(json.dumps(result | {"state_bytes": Path(place).stat().st_size}), flush=True)


if __name__ == "__main__":
    main()
