# SPDX-License-Identifier: Apache-2.0
"""Trains on images with one process per GPU. foreload decodes batches and puts them on the GPU.

    torchrun --nproc-per-node 8 examples/train_ddp.py /data/imagenet/train --arch resnet50 \\
        --epochs 90 --memory 200GiB --checkpoint run.pt

If it is started again with the same checkpoint, it goes on at the step where it was, also with
another number of processes. Without arguments it makes a few images and trains a small network on
them, on the CPU if there is no GPU.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from small_images import make_images

import foreload
from foreload import transforms


def small_network(classes: int) -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, stride=4),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, stride=2),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, classes),
    )


def make_network(arch: str, classes: int) -> torch.nn.Module:
    if arch == "small":
        return small_network(classes)
    import torchvision

    return torchvision.models.get_model(arch, num_classes=classes)


def save(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loader) -> None:
    """The loader's state is a few hundred bytes and the same on every rank."""
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": loader.state_dict(),
    }
    beside = path.with_name(path.name + ".tmp")
    torch.save(state, beside)
    beside.replace(path)


def train(given: argparse.Namespace) -> None:
    on_gpu = torch.cuda.is_available()
    local = int(os.environ.get("LOCAL_RANK", "0"))
    device = torch.device("cuda", local) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    several = int(os.environ.get("WORLD_SIZE", "1")) > 1
    if several:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    first = not several or dist.get_rank() == 0

    dtype = torch.bfloat16 if on_gpu else torch.float32
    loader = foreload.DataLoader(
        given.folder,
        batch_size=given.batch,
        shuffle=True,
        seed=0,
        drop_last=True,
        transform=transforms.Compose(
            [
                transforms.imagenet_train(224, dtype=dtype),
                transforms.ToLayout("channels_last"),
            ]
        ),
        memory=given.memory,
        device=device if on_gpu else None,  # images travel as bytes and become bfloat16 there
        decoder=given.decoder,
    )
    model = make_network(given.arch, given.classes)
    model = model.to(device, dtype, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=given.lr, momentum=0.9, weight_decay=1e-4)
    if given.checkpoint is not None and given.checkpoint.exists():
        state = torch.load(given.checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
    parallel = torch.nn.parallel.DistributedDataParallel(model) if several else model

    for epoch in range(loader.state_dict()["epoch"], given.epochs):
        begin, images_seen = time.perf_counter(), 0
        for step, (images, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(parallel(images).float(), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            images_seen += len(labels)
            if first and given.checkpoint is not None and (step + 1) % given.save_every == 0:
                save(given.checkpoint, model, optimizer, loader)
        if first:
            rate = images_seen / (time.perf_counter() - begin)
            print(f"epoch {epoch}: loss {loss.item():.3f}, {rate:.0f} images/s on each rank")
            if given.checkpoint is not None:
                save(given.checkpoint, model, optimizer, loader)
    if several:
        dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--arch", default="small", help="'small', or a network of torchvision")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256, help="of each process")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--memory", default="0B", help="of each machine, to keep samples in")
    parser.add_argument("--decoder", default="cpu", help="'cpu', 'gpu' or 'hybrid'")
    parser.add_argument("--checkpoint", type=Path, default=None)
    parser.add_argument("--save-every", type=int, default=500)
    given = parser.parse_args()
    if given.folder is not None:
        train(given)
        return
    with tempfile.TemporaryDirectory() as folder:
        given.folder, given.batch, given.classes = str(make_images(Path(folder))), 16, 4
        train(given)


if __name__ == "__main__":
    main()
