# SPDX-License-Identifier: Apache-2.0
"""Reads and decodes a folder of images as a training loop would; prints what each epoch took.

One rank of a job where the environment says so: `foreload launch -n 4 -- python decode_run.py ...`.
Ranks stay in step, as training keeps them: after each batch they add up a number.
"""

from __future__ import annotations

import argparse
import json
import os

import torch  # here: programs that train have it long before their first batch
import torch.distributed

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
    parser.add_argument("--meet", help="a file that is not there yet, for several ranks")
    options = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks > 1:
        torch.distributed.init_process_group(
            "gloo",
            init_method=f"file://{options.meet}",
            rank=int(os.environ["RANK"]),
            world_size=ranks,
        )
    gradient = torch.zeros(1)
    loader = foreload.DataLoader(
        options.folder,
        batch_size=options.batch_size,
        shuffle=True,
        epochs=options.epochs,
        num_workers=options.threads,
        memory=f"{options.memory}B",
        index=options.index,
        profile=options.profile,
        transform=foreload.transforms.imagenet_train(224),
    )
    epochs = []
    for _ in range(options.epochs):
        for _images, _labels in loader:
            if ranks > 1:
                torch.distributed.all_reduce(gradient)
        epochs.append({"seconds": loader.epoch_stats()["seconds"]})
    print(json.dumps({"epochs": epochs}), flush=True)


if __name__ == "__main__":
    main()
