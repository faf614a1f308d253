# SPDX-License-Identifier: Apache-2.0
"""The same with torchdata's StatefulDataLoader: torch's DataLoader that can save its place.

torchdata_resume.py prepare LIST STATE   goes half through an epoch, decoding nothing
torchdata_resume.py resume LIST STATE    builds a loader, loads the state and waits for a batch
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import torch_pillow
from torchdata.stateful_dataloader import StatefulDataLoader


class Listed(torch_pillow.Folder):
    """The files of a list; without `decode`, samples that cost nothing."""

    def __init__(self, paths, decode):
        folder = Path(paths).parent
        lines = Path(paths).read_text("utf-8").splitlines()
        # One object: forked workers share it.
        self.paths = np.array([str(folder / line.partition("\t")[0]) for line in lines], np.bytes_)
        self.labels = np.zeros(len(lines), np.int64)
        self.decode = decode

    def __getitem__(self, index):
        return super().__getitem__(index) if self.decode else index


def open_loader(data):
    generator = torch.Generator().manual_seed(0)
    return StatefulDataLoader(
        data, batch_size=64, shuffle=True, num_workers=2, generator=generator, in_order=True
    )


def main():
    action, paths, place = sys.argv[1:]
    torch.set_num_threads(1)
    data = Listed(paths, action == "resume")
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
