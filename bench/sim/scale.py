# SPDX-License-Identifier: Apache-2.0
"""The scale study of docs/scale.md: 8 to 16,384 ranks, three data sets, one large file system.

    python bench/sim/scale.py --out build/scale      # tables and SVG pictures, about ten minutes
    python bench/sim/scale.py --document docs/scale.md   # and into the document and beside it

A job that is too large to be simulated whole is made smaller in two ways, which leave rates and
steps as they are:

  a slice   1/k of the ranks with 1/k of the data set, and of the file system's curve both the
            readers and the rate: what the rest of the machine would do is the same k - 1 times
  a part    1/f of the data set, of all caches and of the memory for batches ahead: an epoch has
            fewer steps, so its time is multiplied by f

`--check` runs jobs that can be simulated whole in both ways and prints how far they are apart.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "engine"))

from programs import default_foreload

Json = dict[str, Any]

RANKS = (8, 64, 256, 1024, 4096, 16384)
RANKS_PER_NODE = 8
COMPUTE = 250e6  # bytes per second of a rank
BATCH = 32
EPOCHS = 3
MEMORY = 512e9  # of a node, for samples
DISK = 8e12
STAGING = 1e9  # of a rank
# Readers and bytes per second: one stream gets 200 MB/s, 8,192 get it all.
FILE_SYSTEM = ((1, 200e6), (64, 12e9), (512, 90e9), (8192, 1e12), (65536, 1e12))
MOST_RANKS = 128  # in one simulation
MOST_READS = 300_000
LEAST_STEPS = 48


@dataclass(frozen=True)
class DataSet:
    name: str
    samples: int
    mean: int
    sigma: int

    @property
    def bytes(self) -> float:
        return float(self.samples) * self.mean


DATA_SETS = (
    DataSet("ImageNet-1k", 1_281_167, 107_700, 50_000),
    DataSet("ImageNet-22k", 14_197_122, 107_700, 50_000),
    DataSet("100 TB", 100_000_000, 1_000_000, 300_000),
)


@dataclass(frozen=True)
class Size:
    """How a job is made smaller."""

    slice: int = 1
    part: int = 1


def size_for(data: DataSet, ranks: int) -> Size:
    slice_ = max(1, ranks // MOST_RANKS)
    samples = data.samples // slice_
    part = math.ceil(samples * EPOCHS / MOST_READS)
    most = samples // (ranks // slice_ * BATCH * LEAST_STEPS)
    return Size(slice_, max(1, min(part, most)))


def scenario(data: DataSet, ranks: int, size: Size) -> Json:
    smaller = size.slice * size.part
    curve = [[max(1, readers / size.slice), rate / size.slice] for readers, rate in FILE_SYSTEM]
    curve = [point for i, point in enumerate(curve) if i == 0 or point[0] > curve[i - 1][0]]
    curve[0] = [1, min(200e6, curve[0][1] * size.slice)] if size.slice > 1 else curve[0]
    return {
        "name": f"{data.name}, {ranks} ranks",
        "cluster": {
            "ranks": ranks // size.slice,
            "ranks_per_node": RANKS_PER_NODE,
            "tiers": [
                {"name": "memory", "capacity": int(MEMORY / size.part), "curve": 200e9},
                {
                    "name": "disk",
                    "capacity": int(DISK / size.part),
                    "curve": [[1, 2e9], [16, 20e9]],
                    "latency": 1e-4,
                    "write": 8e9,
                },
            ],
            "source": {"curve": curve, "latency": {"mean": 0.002, "spread": 0.5}},
            "network": {"rate": 50e9, "latency": 5e-6},
            "staging": {"capacity": int(max(STAGING / size.part, 8 * BATCH * data.mean))},
        },
        "dataset": {"samples": data.samples // smaller, "mean": data.mean, "sigma": data.sigma},
        "training": {"epochs": EPOCHS, "batch_size": BATCH, "compute": COMPUTE},
    }


@dataclass
class Row:
    data: DataSet
    ranks: int
    size: Size
    first: float  # seconds
    later: float
    compute: float  # seconds of an epoch without waiting
    source: list[float]  # bytes per second, first epoch and later ones
    own: float  # shares of reads in later epochs
    peer: float


def run(program: Path, data: DataSet, ranks: int, size: Size) -> Row:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(scenario(data, ranks, size), file)
        file.flush()
        command = [
            str(program),
            "simulate",
            file.name,
            "--policy",
            "lower_bound,foreload",
            "--json",
        ]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    bound, ours = json.loads(output)["results"]
    epochs = [seconds * size.part for seconds in ours["epoch_seconds"]]
    later = sum(epochs[1:]) / len(epochs[1:])
    whole = size.slice * size.part
    total = ours["source_bytes"] * whole
    first_bytes = min(total, data.bytes)
    hits = ours["hits"]
    later_reads = sum(hits.values()) * (EPOCHS - 1) / EPOCHS
    return Row(
        data,
        ranks,
        size,
        epochs[0],
        later,
        bound["seconds"] * size.part / EPOCHS,
        [first_bytes / epochs[0], (total - first_bytes) / (EPOCHS - 1) / later],
        (hits["memory"] + hits["disk"]) / later_reads,
        hits["peer"] / later_reads,
    )


def bytes_text(value: float) -> str:
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return f"{value / scale:.3g} {unit}"
    return f"{value:.0f} B"


def epoch_table(rows: list[Row]) -> str:
    lines = [
        "| data set | ranks | simulated | first epoch | later | computing alone "
        "| source, first | source, later | later reads from own caches / peers |",
        "|---|---:|---|---:|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        how = "whole" if row.size == Size() else f"1/{row.size.slice}, 1/{row.size.part}"
        shares = f"{row.own:.0%} / {row.peer:.0%}"
        lines.append(
            f"| {row.data.name} | {row.ranks:,} | {how} | {row.first:.3g} s | {row.later:.3g} s "
            f"| {row.compute:.3g} s | {bytes_text(row.source[0])}/s "
            f"| {bytes_text(row.source[1])}/s | {shares} |"
        )
    return "\n".join(lines)


# What a rank has to know. Bytes per sample and per peer, as the code has them.
INDEX = 24 + 30  # offset, size, version, label; and a name of 30 bytes
SIZES = 8
PLACEMENT = 4 + 1 + 1  # rank, tier, second tier
PERMUTATIONS = 2 * 4  # this epoch and the next
POLICY_BITS = 5  # with two tiers
PEER = 72 + 32 + 168  # state, queue, limiter
TABLE_MOST = 3 << 30


def memory(data: DataSet, ranks: int, epochs: int = 90) -> Json:
    reader = 1 if ranks < 256 else 2 if ranks < 65536 else 4
    table = data.samples * reader * epochs
    fits = table <= TABLE_MOST
    return {
        "index": data.samples * INDEX,
        "plan": data.samples * (SIZES + PLACEMENT) + (table if fits else TABLE_MOST),
        "order": data.samples * PERMUTATIONS,
        "policy": data.samples * POLICY_BITS / 8 + ranks * PEER,
        "rows": epochs if fits else TABLE_MOST // (data.samples * reader),
    }


def memory_table() -> str:
    lines = [
        "| data set | ranks | index | plan | orders | policy | epochs counted |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for data in DATA_SETS:
        for ranks in (64, 1024, 16384):
            need = memory(data, ranks)
            parts = [bytes_text(need[key]) for key in ("index", "plan", "order", "policy")]
            lines.append(f"| {data.name} | {ranks:,} | {' | '.join(parts)} | {need['rows']} |")
    return "\n".join(lines)


def plan_table(program: Path) -> str:
    """Planning for real; what is too large for this machine is left out."""
    lines = ["| data set | ranks | epochs | planning | peak memory |", "|---|---:|---:|---:|---:|"]
    jobs = [(data, ranks) for data in DATA_SETS for ranks in (64, 1024, 16384)]
    for data, ranks in jobs:
        epochs = 90 if data.samples < 2_000_000 else 10
        memory_of_rank = MEMORY / RANKS_PER_NODE
        command = [str(program), "plan", "--json", "--samples", str(data.samples)]
        command += ["--mean-size", f"{data.mean}B", "--ranks", str(ranks)]
        command += ["--epochs", str(epochs), "--memory", f"{int(memory_of_rank)}B"]
        if data.samples > 20_000_000:
            command += ["--order", "feistel"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            lines.append(f"| {data.name} | {ranks:,} | {epochs} | {done.stderr.strip()} | |")
            continue
        plan = json.loads(done.stdout)
        lines.append(
            f"| {data.name} | {ranks:,} | {epochs} | {plan['plan_seconds']:.1f} s "
            f"| {bytes_text(plan['peak_rss_bytes'])} |"
        )
    return "\n".join(lines)


def check_table(program: Path) -> str:
    """Jobs that can be simulated whole, and smaller."""
    small = DataSet("120,000 of ImageNet-1k", 120_000, 107_700, 50_000)
    large = DataSet("120,000 of 100 TB", 120_000, 1_000_000, 300_000)
    lines = [
        "| data set | ranks | slice, part | first epoch | off by | later | off by |",
        "|---|---:|---|---:|---:|---:|---:|",
    ]
    for data, ranks, sizes in (
        (small, 64, (Size(8), Size(1, 4), Size(4, 2))),
        (small, 256, (Size(4), Size(16))),
        (large, 64, (Size(8), Size(1, 4), Size(4, 2))),
    ):
        whole = run(program, data, ranks, Size())
        for size in (Size(), *sizes):
            row = whole if size == Size() else run(program, data, ranks, size)
            lines.append(
                f"| {data.name} | {ranks} | 1/{size.slice}, 1/{size.part} | {row.first:.3g} s "
                f"| {row.first / whole.first - 1:+.1%} | {row.later:.3g} s "
                f"| {row.later / whole.later - 1:+.1%} |"
            )
    return "\n".join(lines)


def with_table(document: str, heading: str, table: str) -> str:
    """The document with the first table below a heading replaced."""
    before, found, after = document.partition(heading + "\n")
    text, first, rest = after.partition("\n|")
    if not found or not first:
        raise ValueError(f"the document has no table below '{heading}'")
    _, end, rest = rest.partition("\n\n")
    return before + found + text + "\n" + table + end + rest


def draw(rows: list[Row], out: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "foreload"  # the same picture from the same figures
    from matplotlib import pyplot

    def save(name: str) -> None:
        pyplot.savefig(out / name, metadata={"Date": None})
        pyplot.close()

    figure, axes = pyplot.subplots(1, len(DATA_SETS), figsize=(11, 3.4), layout="constrained")
    for axis, data in zip(axes, DATA_SETS, strict=True):
        own = [row for row in rows if row.data is data]
        ranks = [row.ranks for row in own]
        axis.loglog(ranks, [row.first for row in own], "o-", label="first epoch")
        axis.loglog(ranks, [row.later for row in own], "s-", label="later epochs")
        axis.loglog(ranks, [row.compute for row in own], "k:", label="computing alone")
        axis.set_title(data.name)
        axis.set_xlabel("ranks")
    axes[0].set_ylabel("seconds")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save("scale_epochs.svg")

    _, axis = pyplot.subplots(figsize=(8, 3.4), layout="constrained")
    for data in DATA_SETS:
        own = [row for row in rows if row.data is data]
        ranks = [row.ranks for row in own]
        (line,) = axis.loglog(ranks, [row.source[0] / 1e9 for row in own], "o-", label=data.name)
        later = [max(row.source[1] / 1e9, 1e-3) for row in own]
        axis.loglog(ranks, later, "s--", color=line.get_color())
    axis.loglog(RANKS, [COMPUTE * ranks / 1e9 for ranks in RANKS], "k:", label="consumed")
    axis.set_xlabel("ranks")
    axis.set_ylabel("GB/s from the source")
    axis.legend(
        title="solid: first epoch,\ndashed: later ones",
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
    )
    save("scale_source.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description="The scale study.")
    parser.add_argument("--foreload", type=Path, default=default_foreload(), help="the program")
    parser.add_argument("--out", type=Path, default=Path("build/scale"))
    parser.add_argument("--document", type=Path, help="whose tables and pictures are replaced")
    parser.add_argument("--check", action="store_true", help="only compare whole and smaller jobs")
    parser.add_argument("--plan", action="store_true", help="only time planning")
    options = parser.parse_args()
    if options.check:
        return print(check_table(options.foreload))
    if options.plan:
        return print(plan_table(options.foreload))
    options.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for data in DATA_SETS:
        for ranks in RANKS:
            rows.append(run(options.foreload, data, ranks, size_for(data, ranks)))
            print(rows[-1], file=sys.stderr, flush=True)
    text = "\n\n".join((epoch_table(rows), memory_table()))
    (options.out / "scale.md").write_text(text + "\n", "utf-8")
    draw(rows, options.out)
    if options.document:
        document = options.document.read_text("utf-8")
        document = with_table(document, "## Epochs and source", epoch_table(rows))
        document = with_table(document, "## Memory and metadata of a rank", memory_table())
        options.document.write_text(document, "utf-8")
        draw(rows, options.document.parent)
    print(text)
    return None


if __name__ == "__main__":
    main()
