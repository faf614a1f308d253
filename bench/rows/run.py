# SPDX-License-Identifier: Apache-2.0
"""Rows in memory and in mapped files: foreload beside torch's DataLoader.

All contestants take turns in one process, a second each, so that whatever else the machine does
meets them alike. Medians of all rounds are shown, ratios first.

    .venv/bin/python bench/rows/run.py --out build/bench-rows
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import foreload

# Batches that were made while others had their turn, and are not counted.
MADE_AHEAD = 10

Case = tuple[Any, Any]  # what foreload gets, and what torch gets


class Columns(Dataset[dict[str, Any]]):
    """A table as one writes it for torch."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {name: column[index] for name, column in self.columns.items()}


def images(rows: int) -> np.ndarray[Any, Any]:
    """Pixels of so many images of CIFAR's size."""
    return np.random.default_rng(0).integers(0, 256, (rows, 32, 32, 3), dtype=np.uint8)


def cifar(folder: Path) -> Case:
    """50,000 images and labels in tensors."""
    dataset = TensorDataset(torch.from_numpy(images(50_000)), torch.arange(50_000) % 10)
    return dataset, dataset


def memmap(folder: Path) -> Case:
    """A file of 2 GB, in the page cache."""
    rows = 2 * 10**9 // 3072
    file = folder / "rows.npy"
    if not file.exists():
        array = np.lib.format.open_memmap(file, "w+", np.uint8, (rows, 32, 32, 3))
        for first in range(0, rows, 50_000):
            part = array[first : first + 50_000]
            part[:] = images(len(part))
        array.flush()
    mapped = np.load(file, mmap_mode="r+")
    mapped.sum()
    return mapped, mapped


def hugging_face(folder: Path) -> Case:
    """Tokens, a mask and a label, in the format of torch."""
    from datasets import Dataset as HuggingFace

    random = np.random.default_rng(0)
    tokens = random.integers(0, 30_000, (20_000, 128))
    dataset = HuggingFace.from_dict(
        {"input_ids": tokens, "attention_mask": tokens > 99, "label": tokens[:, 0] % 2}
    ).with_format("torch")
    return dataset, dataset


def table(folder: Path) -> Case:
    """Ten columns of numbers."""
    random = np.random.default_rng(0)
    kinds = ["f4", "f8", "i4", "i8", "u1"] * 2
    columns = {
        f"column{at}": random.integers(0, 200, 200_000).astype(kind)
        for at, kind in enumerate(kinds)
    }
    return pa.table(columns), Columns(columns)


CASES: dict[str, Callable[[Path], Case]] = {
    "cifar": cifar,
    "memmap": memmap,
    "hugging-face": hugging_face,
    "table": table,
}


def foreload_batches(dataset: Any, batch_size: int) -> Iterator[Any]:
    """Epoch after epoch."""
    loader = foreload.DataLoader(dataset, batch_size, shuffle=True, seed=0, drop_last=True)
    while True:
        yield from loader


def torch_batches(dataset: Any, batch_size: int, workers: int) -> Iterator[Any]:
    """The same order of magnitude from torch."""
    loader = DataLoader(
        dataset,
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    while True:
        yield from loader


def measure(case: Case, batch_size: int, turn: float, rounds: int) -> dict[str, list[float]]:
    """Samples a second of each contestant in each round."""
    contestants = {
        "foreload": foreload_batches(case[0], batch_size),
        "torch, 0 workers": torch_batches(case[1], batch_size, 0),
        "torch, 2 workers": torch_batches(case[1], batch_size, 2),
    }
    rates: dict[str, list[float]] = {name: [] for name in contestants}
    for round_ in range(rounds + 1):
        for name, stream in contestants.items():
            for _ in range(MADE_AHEAD):
                next(stream)
            batches = 0
            begin = time.perf_counter()
            while (seconds := time.perf_counter() - begin) < turn:
                next(stream)
                batches += 1
            if round_ > 0:  # the first one warms up
                rates[name].append(batches * batch_size / seconds)
    return rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/bench-rows"))
    parser.add_argument("--cases", nargs="+", choices=[*CASES], default=[*CASES])
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in arguments.cases:
        case = CASES[name](arguments.out)
        rates = measure(case, arguments.batch_size, arguments.seconds, arguments.rounds)
        results[name] = rates
        middle = {who: statistics.median(each) for who, each in rates.items()}
        ratios = ", ".join(
            f"{middle['foreload'] / middle[who]:.1f} x {who}" for who in middle if who != "foreload"
        )
        shown = "; ".join(
            f"{who} {middle[who]:,.0f}/s ({min(each):,.0f} to {max(each):,.0f})"
            for who, each in rates.items()
        )
        print(f"{name}: {ratios}\n  {shown}", flush=True)
    (arguments.out / "rows.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
