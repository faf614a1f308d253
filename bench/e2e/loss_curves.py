# SPDX-License-Identifier: Apache-2.0
"""Whether a network learns the same from foreload as from torch's DataLoader.

    foreload make-images /tmp/classes --count 5120 --classes 10 --mean-size 110KB --pixels 500x375
    python bench/e2e/loss_curves.py /tmp/classes --out build/bench/losses.json

ResNet-18 in bfloat16 from the same start, on the same order (DistributedSampler's) and the same
transform (resize, centre crop, normalise), twice with torch's DataLoader and once with foreload.
The GPU adds numbers up in no fixed order, so the two runs with torch differ too: by how much is the
noise that foreload's difference is compared with.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torchvision

import foreload
from foreload import transforms


def torch_epochs(given: argparse.Namespace) -> Iterator[Iterator[Any]]:
    v1 = torchvision.transforms
    chain = v1.Compose(
        [
            v1.Resize(256),
            v1.CenterCrop(224),
            v1.ToTensor(),
            v1.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
        ]
    )
    data = torchvision.datasets.ImageFolder(given.folder, chain)
    order = torch.utils.data.DistributedSampler(data, 1, 0, shuffle=True, seed=given.seed)
    loader: Any = torch.utils.data.DataLoader(
        data,
        batch_size=given.batch,
        sampler=order,
        drop_last=True,
        num_workers=16,
        pin_memory=True,
        persistent_workers=True,
    )
    for epoch in range(given.epochs):
        order.set_epoch(epoch)
        yield (
            (
                images.to(
                    "cuda", torch.bfloat16, non_blocking=True, memory_format=torch.channels_last
                ),
                labels.to("cuda", non_blocking=True),
            )
            for images, labels in loader
        )


def foreload_epochs(given: argparse.Namespace) -> Iterator[Iterator[Any]]:
    chain = transforms.Compose(
        [transforms.imagenet_eval(224, dtype="bfloat16"), transforms.ToLayout("channels_last")]
    )
    loader = foreload.DataLoader(
        given.folder,
        batch_size=given.batch,
        shuffle=True,
        seed=given.seed,
        drop_last=True,
        transform=chain,
        memory="4GiB",
        device="cuda",
    )
    for _ in range(given.epochs):
        yield iter(loader)


def train(epochs: Iterator[Iterator[Any]], classes: int) -> dict[str, Any]:
    torch.manual_seed(0)
    model = torchvision.models.resnet18(num_classes=classes)
    model = model.to("cuda", torch.bfloat16, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    losses, right, seen, begin = [], [], [], time.perf_counter()
    for epoch in epochs:
        hits, count = torch.zeros((), device="cuda"), 0
        for images, labels in epoch:
            scores = model(images).float()
            loss = torch.nn.functional.cross_entropy(scores, labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            hits += (scores.argmax(1) == labels).sum()
            count += len(labels)
        right.append(hits.item() / count)
        seen.append(time.perf_counter() - begin)
    return {"losses": [loss.item() for loss in losses], "accuracy": right, "seconds": seen}


def distance(a: list[float], b: list[float]) -> float:
    """Mean difference of two loss curves."""
    return sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    runs = {}
    for name, epochs in (
        ("torch", torch_epochs),
        ("torch again", torch_epochs),
        ("foreload", foreload_epochs),
    ):
        runs[name] = train(epochs(given), given.classes)
        accuracy = ", ".join(f"{share:.1%}" for share in runs[name]["accuracy"])
        print(
            f"{name:12} accuracy by epoch {accuracy}; {runs[name]['seconds'][-1]:.1f} s", flush=True
        )
    noise = distance(runs["torch"]["losses"], runs["torch again"]["losses"])
    found = distance(runs["torch"]["losses"], runs["foreload"]["losses"])
    print(f"mean difference of losses: two runs with torch {noise:.4f}, with foreload {found:.4f}")
    if given.out is not None:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(runs) + "\n")


if __name__ == "__main__":
    main()
