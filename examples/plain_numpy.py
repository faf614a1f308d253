# SPDX-License-Identifier: Apache-2.0
"""Logistic regression on images with numpy alone: foreload does not need torch.

    python examples/plain_numpy.py [FOLDER]

Without torch batches are numpy arrays. Where torch is installed, `batch_transform` turns its
tensors into arrays, without copying.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from small_images import make_images

import foreload
from foreload import transforms


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="images-"))
    if len(sys.argv) == 1:
        make_images(folder)
    loader = foreload.DataLoader(
        folder,
        batch_size=16,
        shuffle=True,
        seed=0,
        transform=transforms.Compose(
            [transforms.Resize((16, 16)), transforms.ToDtype("float32", scale=True)]
        ),
        batch_transform=lambda batch: [np.asarray(entry) for entry in batch],
        memory="64MiB",
    )
    classes = len(foreload.list_folder(folder).classes)
    weights = np.zeros((3 * 16 * 16, classes), dtype=np.float32)
    for epoch in range(5):
        right = total = 0
        for images, labels in loader:
            pixels = images.reshape(len(images), -1) - 0.5
            scores = pixels @ weights
            scores = np.exp(scores - scores.max(axis=1, keepdims=True))
            shares = scores / scores.sum(axis=1, keepdims=True)
            right += int((shares.argmax(axis=1) == labels).sum())
            total += len(labels)
            shares[np.arange(len(labels)), labels] -= 1
            weights -= 0.02 * pixels.T @ shares / len(labels)
        print(f"epoch {epoch}: {right / total:.0%} right")
    print({where: amount for where, amount in loader.epoch_stats()["from"].items() if amount})


if __name__ == "__main__":
    main()
