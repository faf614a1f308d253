# SPDX-License-Identifier: Apache-2.0
"""The same with torchdata's StatefulDataLoader: torch's DataLoader that can save its place.

torchdata_resume.py prepare FOLDER STATE   goes half through an epoch, decoding nothing
torchdata_resume.py resume FOLDER STATE    builds a loader, loads the state and waits for a batch
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch_pillow
from torchdata.stateful_dataloader import StatefulDataLoader


class LongFolder(torch_pillow.Folder):
    """Without `decode`, samples that cost nothing."""

    def __init__(self, folder, decode):
        super().__init__(folder)
        # One object each: forked workers share them.
        self.paths = np.array(self.paths, np.bytes_)
        self.labels = np.array(self.labels)
        self.decode = decode

    def __getitem__(self, index):
        return super().__getitem__(index) if self.decode else index


def open_loader(data):
    generator = torch.Generator().manual_seed(0)
    return StatefulDataLoader(
        data, batch_size=64, shuffle=True, num_workers=2, generator=generator, in_order=True
    )


def main():
    action, folder, place = sys.argv[1:]
    torch.set_num_threads(1)
    data = LongFolder(folder, action == "resume")
    begin = time.monotonic()
    loader = open_loader(data)
    made = time.monotonic()
    if action == "prepare":
        half = len(loader) // 2
        for step, _ in enumerate(loader, 1):
            if step == half:
                break
        torch.save(loader.state_dict(), place)
        return
    loader.load_state_dict(torch.load(place, weights_only=False))
    images, _ = next(iter(loader))
    end = time.monotonic()
    assert images.shape == (64, 3, 224, 224)
    result = {"build_seconds": made - begin, "resume_seconds": end - begin}
    print(json.dumps(result | {"state_bytes": Path(place).stat().st_size}), flush=True)


if __name__ == "__main__":
    main()
