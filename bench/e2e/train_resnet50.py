# SPDX-License-Identifier: Apache-2.0
"""Images per second of a training loop on one GPU, with different loaders in front of it.

    foreload make-images /tmp/images --count 20480 --classes 100 --mean-size 105KB --pixels 487x424
    python bench/e2e/train_resnet50.py /tmp/images --parts eager tiny --out build/e2e/train.json
    python bench/e2e/train_resnet50.py /tmp/images --parts compiled steps --out ...

ResNet-50 in bfloat16, channels last, batches of 256. Inputs:

    none     the same batch on the GPU every step: what the GPU can do
    torch    torch's DataLoader with torchvision (Pillow), 16 workers
    cpu      foreload, decoded by the CPU
    gpu      foreload, decoded by nvJPEG
    hybrid   foreload, a share decoded by each

Parts, and what they take on an H200 with 16 cores:

    eager     120 s  all inputs
    tiny       50 s  all but torch, a network that computes next to nothing
    compiled  170 s  all inputs, with torch.compile
    steps     170 s  compiled, CPU decodes: what makes steps long, one thing changed at a time
    first     120 s  the first epoch, eager and compiled: files cold and warm, memory kept and not,
                     and from a source whose bytes per second are known

The first epoch fills caches and is given apart; figures are of the epochs after it. Nothing waits
for the GPU between epochs; times come from events on it, see steps.py for where they went. Results
are written after each measurement: what a time limit cuts off is missing, the rest is there.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from first_epoch import first_epochs
from inputs import (
    INPUTS,
    Work,
    epochs_of,
    files_of,
    foreload_loader,
    lower_decoders,
    opened_with,
    torch_loader,
)
from machine import Gpu, NoGpu
from networks import Training
from steps import Log, figures_of, record

SECONDS = {"eager": 120, "tiny": 50, "compiled": 170, "steps": 170, "first": 120}


def graphs_compiled() -> int:
    """How often torch.compile has had something to compile."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return 0 if dynamo is None else int(dynamo.counters["stats"]["unique_graphs"])


class Bench:
    """One process's networks and results."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.gpu: Gpu = NoGpu() if given.dry else Gpu()
        self.given = given
        self.work = Work(
            given.folder,
            self.gpu.device,
            given.batch,
            given.size,
            given.classes,
            given.steps,
            given.memory,
            given.workers,
        )
        self.results: dict[str, Any] = {
            "gpu": self.gpu.name,
            "cpus": len(os.sched_getaffinity(0)),
            "torch": torch.__version__,
            "batch": given.batch,
            "network": "tiny" if given.dry else "resnet50",
            "parts": {},
        }
        if given.out is not None and given.out.exists():
            self.results["parts"] = json.loads(given.out.read_text())["parts"]
        self._made: dict[tuple[str, bool], Training] = {}

    @property
    def dataset_bytes(self) -> int:
        return sum(map(os.path.getsize, files_of(self.work.folder)))

    def training(self, network: str, compiled: bool) -> Training:
        """Ready to train: compiled and warm."""
        key = (network, compiled)
        if key not in self._made:
            begin = time.perf_counter()
            name = "tiny" if self.given.dry else network
            made = Training(
                name, self.work.classes, self.gpu.device, compiled and not self.given.dry
            )
            (warm,) = epochs_of("none", None, self.work, 1)
            for _, batch in zip(range(3), warm, strict=False):
                made.step(*batch)
            self.gpu.synchronize()
            how = "compiled" if compiled else "eager"
            print(f"{network}, {how}: warm after {time.perf_counter() - begin:.1f} s", flush=True)
            self._made[key] = made
        return self._made[key]

    def keep(self, part: str, figures: dict[str, Any]) -> None:
        """Print and write what was measured."""
        self.results["parts"].setdefault(part, []).append(figures)
        if "step_ms" in figures:
            step = figures["step_ms"]
            causes = [long["cause"] for long in figures["long_steps"]]
            print(
                f"{part:9} {figures['name']:24} {figures['images_per_second']:7.0f} images/s  "
                f"{figures['cpus']:5.1f} CPUs  first batch {figures['first_batch_seconds']:.2f} s  "
                f"step {step['median']:.1f} ms, longest {step['longest_of_median']:.2f} x  "
                f"epoch 1 {figures['epochs'][0]['images_per_second']:.0f}  long steps "
                f"{ {cause: causes.count(cause) for cause in sorted(set(causes))} }",
                flush=True,
            )
        else:
            print(f"{part:9} {json.dumps(figures)}", flush=True)
        if self.given.out is not None:
            self.given.out.parent.mkdir(parents=True, exist_ok=True)
            unfinished = self.given.out.with_suffix(".part")
            unfinished.write_text(json.dumps(self.results) + "\n")
            unfinished.replace(self.given.out)

    def log_of(self, kind: str, training: Training, epochs: int, loader: Any = None) -> Log:
        batches = epochs_of(kind, loader, self.work, epochs)
        return record(self.gpu, loader, batches, training.step)

    def measure(
        self,
        part: str,
        kind: str,
        training: Training,
        epochs: int,
        name: str | None = None,
        inside: AbstractContextManager[Any] | None = None,
        prepare: Callable[[], object] = lambda: None,
        **settings: Any,
    ) -> dict[str, Any]:
        """One input in front of one network."""
        self.gpu.reset_peak()
        begin = time.perf_counter()
        loader = None
        if kind == "torch":
            loader = torch_loader(self.work)
        elif kind != "none":
            with inside or nullcontext():
                loader = foreload_loader(self.work, kind, **settings)
        opened = time.perf_counter() - begin
        prepare()
        graphs = graphs_compiled()
        log = self.log_of(kind, training, epochs, loader)
        figures = {"name": name or kind, "input": kind, "open_seconds": opened}
        figures |= figures_of(log, self.work.batch)
        figures["peak_device_bytes"] = self.gpu.peak_bytes()
        figures["compiled_meanwhile"] = graphs_compiled() - graphs
        if hasattr(loader, "epoch_stats"):
            stats = loader.stats()
            names = ("device", "decode_seconds", "decoded_samples", "stages", "threads", "source")
            figures["stats"] = {name: stats[name] for name in names if name in stats}
            loader.close()
        self.keep(part, figures)
        return figures


def all_inputs(bench: Bench, part: str, training: Training, epochs: int, without: str) -> None:
    for kind in bench.given.inputs:
        if kind != without:
            bench.measure(part, kind, training, 2 if kind == "torch" else epochs)


def eager(bench: Bench) -> None:
    all_inputs(bench, "eager", bench.training("resnet50", False), bench.given.epochs, "")


def compiled(bench: Bench) -> None:
    all_inputs(bench, "compiled", bench.training("resnet50", True), bench.given.epochs, "")


def tiny(bench: Bench) -> None:
    training = bench.training("tiny", False)
    bench.keep("tiny", {"copy_bytes_per_second": bench.gpu.copy_bytes_per_second()})
    all_inputs(bench, "tiny", training, bench.given.epochs, "torch")


class NoCollection(AbstractContextManager[Any]):
    """Python's garbage collector leaves alone what is there, and rests."""

    def __enter__(self) -> None:
        gc.collect()
        gc.freeze()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.enable()
        gc.unfreeze()


def steps(bench: Bench) -> None:
    """One thing changed at a time. `as it is` comes twice, to see how far apart two runs are."""
    training = bench.training("resnet50", True)
    epochs = bench.given.epochs + 1
    image = 3 * bench.work.size**2
    file = bench.dataset_bytes / len(files_of(bench.work.folder))

    def staged(batches: float) -> AbstractContextManager[Any]:
        bytes = int(batches * bench.work.batch * (file + image))
        return opened_with(staging=max(bytes, 128 << 20))

    bench.measure("steps", "none", training, epochs)
    with NoCollection():
        bench.measure("steps", "none", training, epochs, "none, no collector")
        bench.measure("steps", "cpu", training, epochs, "no collector")
    bench.measure("steps", "cpu", training, epochs, "as it is")
    bench.measure("steps", "cpu", training, epochs, "four batches staged", staged(4.0))
    bench.measure("steps", "cpu", training, epochs, "twelve batches staged", staged(12.5))
    bench.measure("steps", "cpu", training, epochs, "four on the device", prefetch_to_device=4)
    bench.measure(
        "steps", "cpu", training, epochs, "decoders give way", prepare=lambda: lower_decoders(5)
    )
    fewer = max(1, len(os.sched_getaffinity(0)) - 3)
    bench.measure("steps", "cpu", training, epochs, f"{fewer} threads", num_workers=fewer)
    bench.measure("steps", "cpu", training, epochs, "as it is, again")


PARTS: dict[str, Callable[[Bench], None]] = {
    "eager": eager,
    "tiny": tiny,
    "compiled": compiled,
    "steps": steps,
    "first": first_epochs,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--inputs", nargs="+", choices=INPUTS, default=INPUTS)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=4, help="of foreload; torch's has 2")
    parser.add_argument("--steps", type=int, default=80, help="of an epoch without input")
    parser.add_argument("--memory", default="8GiB")
    parser.add_argument("--workers", type=int, default=16, help="of torch's DataLoader")
    parser.add_argument("--source", type=float, default=400e6, help="bytes/s of the slow source")
    parser.add_argument("--touch", type=int, default=1 << 30, help="bytes of fresh memory to time")
    parser.add_argument("--dry", action="store_true", help="try the script where there is no GPU")
    parser.add_argument("--out", type=Path, default=None)
    given = parser.parse_args(arguments)
    about = sum(SECONDS[part] for part in given.parts)
    print(f"{', '.join(given.parts)}: about {about} s on an H200 with 16 cores", flush=True)
    bench = Bench(given)
    for part in given.parts:
        bench.results["parts"].pop(part, None)
        begin = time.perf_counter()
        PARTS[part](bench)
        took = time.perf_counter() - begin
        print(f"{part}: {took:.0f} s, expected {SECONDS[part]} s", flush=True)


if __name__ == "__main__":
    main()
