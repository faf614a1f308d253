# SPDX-License-Identifier: Apache-2.0
"""Train a small network with foreload and with torch's DataLoader: the losses are equal.

    python examples/train.py [FOLDER]

Both read the same samples in the same order and use the same transform, a Python function, so that
every loss is equal to the last digit. With `foreload.transforms` instead of the function, foreload
decodes and transforms in C++, which is several times faster.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from small_images import make_images
from torch.utils.data import Dataset, DistributedSampler

import foreload

EPOCHS, BATCH, SEED = 3, 16, 7


def transform(image: Image.Image) -> torch.Tensor:
    """32 x 32 pixels, as floats from -1 to 1."""
    pixels = np.asarray(image.resize((32, 32), Image.Resampling.BILINEAR), dtype=np.float32)
    return torch.from_numpy(pixels / 127.5 - 1).permute(2, 0, 1)


class Images(Dataset):
    """A folder with one sub-folder per class, as torchvision's ImageFolder is one."""

    foreload_samples = True  # __getitem__ opens the file and applies the transform, nothing else

    def __init__(self, folder: Path) -> None:
        classes = sorted(entry.name for entry in folder.iterdir())
        self.samples = [
            (str(path), classes.index(path.parent.name)) for path in sorted(folder.rglob("*.jpg"))
        ]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path, label = self.samples[index]
        with Image.open(path) as image:
            return self.transform(image.convert("RGB")), label


def torch_loader(folder: Path) -> torch.utils.data.DataLoader:
    dataset = Images(folder)
    sampler = DistributedSampler(dataset, num_replicas=1, rank=0, shuffle=True, seed=SEED)
    return torch.utils.data.DataLoader(dataset, batch_size=BATCH, sampler=sampler)


def foreload_loader(folder: Path) -> foreload.DataLoader:
    return foreload.DataLoader(
        Images(folder), batch_size=BATCH, shuffle=True, seed=SEED, memory="64MiB"
    )


def train(loader) -> list[float]:
    """The loss of every step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(128, 4),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for epoch in range(EPOCHS):
        loader.sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="images-"))
    if len(sys.argv) == 1:
        make_images(folder)
    ours = train(foreload_loader(folder))
    theirs = train(torch_loader(folder))
    for step in range(0, len(ours), 3):
        print(f"step {step:3}  foreload {ours[step]!r:22}  torch {theirs[step]!r}")
    print("equal to the last digit" if ours == theirs else "NOT EQUAL")


if __name__ == "__main__":
    main()
