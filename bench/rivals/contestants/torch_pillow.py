# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader with worker processes and Pillow, as most training scripts have it."""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contest
import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, DistributedSampler

MEAN = torch.tensor(contest.MEAN).view(3, 1, 1)
STD = torch.tensor(contest.STD).view(3, 1, 1)


class Folder(Dataset):
    def __init__(self, folder):
        self.paths, self.labels = contest.class_files(folder)

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with Image.open(self.paths[index]) as file:
            image = file.convert("RGB")
        left, top, width, height = contest.random_crop(*image.size, random.uniform)
        image = image.crop((left, top, left + width, top + height))
        image = image.resize((contest.SIDE, contest.SIDE), Image.Resampling.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return pixels.float().div_(255).sub_(MEAN).div_(STD), self.labels[index]


def make(options):
    torch.set_num_threads(1)
    folder = Folder(options.folder)
    sampler = DistributedSampler(folder, num_replicas=1, rank=0, shuffle=True, seed=options.seed)
    loader = DataLoader(
        folder,
        batch_size=options.batch_size,
        sampler=sampler,
        num_workers=options.workers,
        persistent_workers=True,
    )

    def epoch(number):
        sampler.set_epoch(number)
        return (images for images, _ in loader)

    return epoch


if __name__ == "__main__":
    contest.compete(make)
