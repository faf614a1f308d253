# SPDX-License-Identifier: Apache-2.0
"""What torch's DataLoader makes of the same files: batches of undecoded samples.

    python bench/engine/torch_baseline.py DATASET --epochs 2 --workers 8

Prints one JSON object per epoch and a last one about the run. Samples are numbered in the order of
their sorted paths and read in the order of DistributedSampler, as foreload does, so the digests of
both can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time

import numpy as np
from waits import timed

try:
    import xxhash
except ImportError:
    xxhash = None

started = time.monotonic()
from torch.utils.data import DataLoader, Dataset, DistributedSampler  # noqa: E402

IMPORT_SECONDS = time.monotonic() - started

Sample = tuple[int, bytes]


def list_files(root: str) -> list[str]:
    """As torchvision's ImageFolder does: folders and names in sorted order, no stat per file."""
    return [
        os.path.join(folder, name)
        for folder, _, names in sorted(os.walk(root))
        for name in sorted(names)
    ]


class Files(Dataset[Sample]):
    def __init__(self, paths: list[str]) -> None:
        self.paths = np.array(paths, dtype=np.bytes_)  # one object: forked workers share it

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Sample:
        with open(self.paths[index], "rb") as file:
            return index, file.read()


def as_list(samples: list[Sample]) -> list[Sample]:
    return samples


def run_epoch(loader: DataLoader[Sample], epoch: int, options: argparse.Namespace) -> dict:
    waits: list[float] = []
    samples = count = 0
    digest = None if xxhash is None or options.no_digest else xxhash.xxh3_64()
    begin = time.monotonic()
    for batch in timed(iter(loader), waits):
        for index, contents in batch:
            samples += 1
            count += len(contents)
            if digest is not None:
                digest.update(int(index).to_bytes(8, "little"))
                digest.update(contents)
        if options.step_ms > 0:
            time.sleep(options.step_ms / 1e3)
    seconds = time.monotonic() - begin
    p50, p99, most = np.percentile(np.array(waits) * 1e3, [50, 99, 100]).tolist()
    return {
        "epoch": epoch,
        "seconds": seconds,
        "samples": samples,
        "bytes": count,
        "wait_fraction": sum(waits) / seconds,
        "batch_wait_ms": {"p50": p50, "p99": p99, "max": most},
        "first_wait_seconds": waits[0],
        "digest": None if digest is None else digest.hexdigest(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Read a folder with torch's DataLoader.")
    parser.add_argument("dataset")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--step-ms", type=float, default=0, help="sleep after every batch")
    parser.add_argument("--no-digest", action="store_true")
    options = parser.parse_args()

    begin = time.monotonic()
    paths = list_files(options.dataset)
    listing_seconds = time.monotonic() - begin
    files = Files(paths)
    sampler = DistributedSampler(files, num_replicas=1, rank=0, shuffle=True, seed=options.seed)
    loader = DataLoader(
        files,
        batch_size=options.batch_size,
        sampler=sampler,
        num_workers=options.workers,
        collate_fn=as_list,
        persistent_workers=options.workers > 0,
    )
    first_batch_seconds = 0.0
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        before = time.monotonic() - begin
        result = run_epoch(loader, epoch, options)
        if epoch == 0:
            first_batch_seconds = before + result["first_wait_seconds"]
        print(json.dumps(result), flush=True)
    kib = sum(
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    summary = {
        "import_seconds": IMPORT_SECONDS,
        "listing_seconds": listing_seconds,
        "first_batch_seconds": first_batch_seconds,
        "peak_rss_bytes": kib << 10,
        "workers": options.workers,
    }
    print(json.dumps(summary), flush=True)


if __name__ == "__main__":
    main()
