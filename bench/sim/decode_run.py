# SPDX-License-Identifier: Apache-2.0
"""Reads and decodes a folder of images as a training loop would; prints what each epoch took.

One rank of a job where the environment says so: `foreload launch -n 4 -- python decode_run.py ...`.
"""

from __future__ import annotations

import argparse
import json

import foreload


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--index")
    parser.add_argument("--profile")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--memory", type=int, default=0, help="bytes, of the machine")
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args()
    loader = foreload.DataLoader(
        options.folder,
        batch_size=options.batch_size,
        shuffle=True,
        epochs=options.epochs,
        num_workers=options.threads,
        memory=options.memory,
        index=options.index,
        profile=options.profile,
        transform=foreload.transforms.imagenet_train(224),
    )
    epochs = []
    for _ in range(options.epochs):
        for _images, _labels in loader:
            pass
        epochs.append({"seconds": loader.epoch_stats()["seconds"]})
    print(json.dumps({"epochs": epochs}), flush=True)


if __name__ == "__main__":
    main()
