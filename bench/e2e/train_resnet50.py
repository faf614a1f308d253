# SPDX-License-Identifier: Apache-2.0
"""Images per second of a training loop on one GPU, with different loaders in front of it.

    foreload make-images /tmp/images --count 20480 --classes 100 --mean-size 110KB --pixels 500x375
    python bench/e2e/train_resnet50.py /tmp/images --compile --out build/bench/e2e.json

ResNet-50 in bfloat16, channels last, batches of 256. Inputs, one after another in one process:

    none     the same batch on the GPU every step: what the GPU can do
    torch    torch's DataLoader with torchvision (Pillow), 16 workers
    cpu      foreload, decoded by the CPU
    gpu      foreload, decoded by nvJPEG
    hybrid   foreload, a share decoded by each

The first epoch fills caches and is given apart; figures are of the epochs after it. Step times come
from events on the GPU, the use of CPUs from the whole machine's counters.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torchvision

import foreload
from foreload import transforms

INPUTS = ["none", "torch", "cpu", "gpu", "hybrid"]
SIZE = 224


class Tiny(torch.nn.Sequential):
    """Next to nothing to compute, so that the input is what limits."""

    def __init__(self, classes: int) -> None:
        super().__init__(
            torch.nn.Conv2d(3, 16, 7, stride=8),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(16, classes),
        )


def cpu_seconds() -> float:
    """Seconds that all CPUs of the machine have worked."""
    user, nice, system, _, _, interrupt, soft = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    )
    return (user + nice + system + interrupt + soft) / os.sysconf("SC_CLK_TCK")


def foreload_loader(given: argparse.Namespace, decoder: str) -> foreload.DataLoader:
    chain = transforms.Compose(
        [
            transforms.imagenet_train(SIZE, dtype="bfloat16"),
            transforms.ToLayout("channels_last"),
        ]
    )
    return foreload.DataLoader(
        given.folder,
        batch_size=given.batch,
        shuffle=True,
        seed=given.seed,
        drop_last=True,
        transform=chain,
        memory=given.memory,
        device="cuda",
        decoder=decoder,
        num_workers=given.threads,
    )


def torch_loader(given: argparse.Namespace) -> torch.utils.data.DataLoader[Any]:
    v1 = torchvision.transforms
    chain = v1.Compose(
        [
            v1.RandomResizedCrop(SIZE),
            v1.RandomHorizontalFlip(),
            v1.ToTensor(),
            v1.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
        ]
    )
    return torch.utils.data.DataLoader(
        torchvision.datasets.ImageFolder(given.folder, chain),
        batch_size=given.batch,
        shuffle=True,
        drop_last=True,
        num_workers=16,
        pin_memory=True,
        persistent_workers=True,
    )


def epoch_of(kind: str, loader: Any, given: argparse.Namespace) -> Iterator[Any]:
    if kind == "none":
        images = torch.randn(given.batch, 3, SIZE, SIZE, device="cuda", dtype=torch.bfloat16)
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.randint(given.classes, (given.batch,), device="cuda")
        for _ in range(given.steps):
            yield images, labels
    elif kind == "torch":
        for images, labels in loader:
            yield (
                images.to(
                    "cuda", torch.bfloat16, non_blocking=True, memory_format=torch.channels_last
                ),
                labels.to("cuda", non_blocking=True),
            )
    else:
        yield from loader


def make_loader(kind: str, given: argparse.Namespace) -> Any:
    if kind == "none":
        return None
    return torch_loader(given) if kind == "torch" else foreload_loader(given, kind)


class Training:
    """A network and its optimiser; one step at a time."""

    def __init__(self, given: argparse.Namespace) -> None:
        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        made = (
            Tiny(given.classes)
            if given.network == "tiny"
            else torchvision.models.resnet50(num_classes=given.classes)
        )
        self.model = made.to("cuda", torch.bfloat16, memory_format=torch.channels_last)
        self.forward = torch.compile(self.model) if given.compile else self.model
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)

    def step(self, images: Any, labels: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(self.forward(images).float(), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def spread_of(epochs: list[list[Any]]) -> dict[str, float]:
    """Milliseconds from step to step, on the GPU, and from epoch to epoch."""
    steps = sorted(a.elapsed_time(b) for ends in epochs for a, b in pairwise(ends))
    gaps = [a[-1].elapsed_time(b[0]) for a, b in pairwise(epochs)]
    return {
        "median": statistics.median(steps),
        "p99": steps[int(len(steps) * 0.99)],
        "longest": steps[-1],
        "between_epochs": max(gaps, default=0.0),
    }


def measure(kind: str, training: Training, given: argparse.Namespace) -> dict[str, Any]:
    begin = time.perf_counter()
    loader = make_loader(kind, given)
    opened = time.perf_counter() - begin
    figures: dict[str, Any] = {"input": kind, "open_seconds": opened, "epochs": []}
    torch.cuda.reset_peak_memory_stats()
    ends: list[list[Any]] = []  # of steps, by epoch after the first
    epochs = 3 if kind == "none" else 2 if kind == "torch" else given.epochs
    for epoch in range(epochs):
        torch.cuda.synchronize()
        busy, begin = cpu_seconds(), time.perf_counter()
        steps = 0
        if epoch > 0:
            ends.append([])
        for images, labels in epoch_of(kind, loader, given):
            if epoch == 0 and steps == 0:
                torch.cuda.synchronize()
                figures["first_batch_seconds"] = time.perf_counter() - begin
            training.step(images, labels)
            end = torch.cuda.Event(enable_timing=True)
            end.record()
            if epoch > 0:
                ends[-1].append(end)
            steps += 1
        torch.cuda.synchronize()
        seconds = time.perf_counter() - begin
        figures["epochs"].append(
            {
                "images_per_second": steps * given.batch / seconds,
                "cpus": (cpu_seconds() - busy) / seconds,
                "steps": steps,
            }
        )
    later = figures["epochs"][1:]
    figures["images_per_second"] = statistics.median(e["images_per_second"] for e in later)
    figures["cpus"] = statistics.median(e["cpus"] for e in later)
    figures["step_ms"] = spread_of(ends)
    figures["steps_ms"] = [[a.elapsed_time(b) for a, b in pairwise(epoch)] for epoch in ends]
    figures["peak_device_bytes"] = torch.cuda.max_memory_allocated()
    if isinstance(loader, foreload.DataLoader):
        stats = loader.stats()
        names = ("device", "decode_seconds", "decoded_samples", "stages", "threads")
        figures["stats"] = {name: stats[name] for name in names if name in stats}
        figures["waits"] = loader.epoch_stats().get("wait_seconds")
        loader.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=INPUTS)
    parser.add_argument("--network", choices=["resnet50", "tiny"], default="resnet50")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=4, help="of foreload; torch's has 2")
    parser.add_argument("--steps", type=int, default=80, help="of an epoch without input")
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args()
    training = Training(given)
    warm = list(epoch_of("none", None, argparse.Namespace(**vars(given) | {"steps": 3})))
    begin = time.perf_counter()
    for images, labels in warm:
        training.step(images, labels)
    torch.cuda.synchronize()
    print(f"warm after {time.perf_counter() - begin:.1f} s", flush=True)
    about = {
        "gpu": torch.cuda.get_device_name(),
        "cpus": len(os.sched_getaffinity(0)),
        "network": given.network,
        "compiled": given.compile,
        "batch": given.batch,
    }
    results = []
    for kind in given.inputs:
        figures = measure(kind, training, given)
        results.append(figures)
        step = figures["step_ms"]
        print(
            f"{kind:7} {figures['images_per_second']:7.0f} images/s  {figures['cpus']:5.1f} CPUs  "
            f"first batch {figures['first_batch_seconds']:.2f} s  step {step['median']:.1f} ms, "
            f"longest {step['longest'] / step['median']:.2f} x  "
            f"epoch 1 {figures['epochs'][0]['images_per_second']:.0f}",
            flush=True,
        )
        if given.out is not None:
            given.out.parent.mkdir(parents=True, exist_ok=True)
            given.out.write_text(json.dumps(about | {"results": results}) + "\n")


if __name__ == "__main__":
    main()
