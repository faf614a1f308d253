# SPDX-License-Identifier: Apache-2.0
"""foreload.DataLoader with its default settings; --fast decodes at a fraction of the size."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import contest
import torch  # noqa: F401  batches are its tensors; its import is not foreload's time

import foreload
from foreload import transforms


def add_options(parser):
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--memory", type=int, default=0, help="bytes of samples to keep")


def make(options):
    chain = transforms.imagenet_train(contest.SIDE)
    if options.fast:
        chain = transforms.Compose([transforms.Decode(fast=True), *chain.transforms])
    loader = foreload.DataLoader(
        options.folder,
        batch_size=options.batch_size,
        shuffle=True,
        seed=options.seed,
        num_workers=options.workers,
        transform=chain,
        memory=f"{options.memory}B",
    )
    return lambda number: (images for images, _ in loader)


if __name__ == "__main__":
    contest.compete(make, add_options)
