# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on several ranks, on CPUs. Their loaders act as one cache.

    torchrun --nproc-per-node 4 examples/ddp.py [FOLDER]

The only lines that foreload needs are those of its DataLoader: it finds the other ranks through
torch.distributed, and together they read each image from FOLDER once. Without FOLDER it makes a few
images to train on; without torchrun it is one rank.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from small_images import make_images
from torch.nn.parallel import DistributedDataParallel

import foreload

EPOCHS = 3


def train(folder: Path) -> None:
    torch.manual_seed(0)
    loader = foreload.DataLoader(
        folder,
        batch_size=8,
        shuffle=True,
        epochs=EPOCHS,
        memory="64MiB",  # of this machine, shared by its ranks
        transform=foreload.transforms.imagenet_train(32),
    )
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 5, stride=2),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.LazyLinear(4),
    )
    network(torch.zeros(1, 3, 32, 32))  # so that the last layer knows its size
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        right = torch.zeros(2)
        for images, labels in loader:
            scores = model(images)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(scores, labels).backward()
            optimizer.step()
            right += torch.tensor([(scores.argmax(1) == labels).sum().item(), len(labels)])
        dist.all_reduce(right)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: {100 * right[0] / right[1]:.0f} % right", flush=True)
    stats = loader.stats()
    source = torch.tensor([stats["source_bytes"]])
    dist.all_reduce(source)
    if dist.get_rank() == 0:
        print(f"peers over {stats['transport']}; {source.item():,} bytes read from the source")
    dist.barrier()  # each rank keeps samples of the others, so all stay to the end
    loader.close()


def main() -> None:
    if "RANK" not in os.environ:  # not started by torchrun: alone
        os.environ |= {
            "RANK": "0",
            "WORLD_SIZE": "1",
            "MASTER_ADDR": "localhost",
            "MASTER_PORT": "0",
        }
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            shared = [folder]
            dist.broadcast_object_list(shared)  # everybody uses rank 0's
            if dist.get_rank() == 0:
                make_images(Path(folder))
            dist.barrier()
            train(Path(shared[0]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
