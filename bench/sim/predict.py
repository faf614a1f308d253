# SPDX-License-Identifier: Apache-2.0
"""Predicts real runs on this machine with the simulator, then measures them.

    python bench/sim/predict.py --out build/bench --document docs/performance.md

First the machine is probed: memory, disk, sources and decoding. From that alone each run's epoch
times are simulated. Then every run is done, five times by turns, and the medians are compared. It
takes about twenty minutes on a machine that does nothing else; `--scale 0.1 --rounds 1` tries
it out. --document replaces the section in a document.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "engine"))

from data import Recipe, make  # noqa: E402
from processes import run  # noqa: E402
from programs import default_foreload  # noqa: E402
from slow_disk import SlowDisk  # noqa: E402
from slowfs import SlowFs  # noqa: E402

Json = dict[str, Any]
BATCH = 32
STAGING = 32 << 20  # of a rank that does not decode
DECODE_STAGING = 128 << 20  # what the loader takes by itself where it decodes
DECODED = 3 * 224 * 224 * 4  # bytes of an image then
SOURCE = {"bandwidth": "100MB", "open_ms": 4, "read_ms": 1, "stat_ms": 0.5}
DISK_RATE = 300_000_000  # bytes per second that are read, where the system can limit it
PROBE_SECONDS = 6
PROBED_DECODERS = 5  # runs, one after the other
# Before the probe and before each run: some virtual machines give memory that is free for a few
# seconds back to their host, and to have it again takes longer than all else that a run does with
# it. So everybody finds it gone.
REST_SECONDS = 6
TIMEOUT = 300  # seconds for one run


@dataclass(frozen=True)
class Case:
    name: str
    bound: str  # source, disk or decode
    ranks: int
    memory: float = 0  # shares of the data set that are kept
    disk: float = 0
    step_ms: float = 0  # that the loop computes per batch
    epochs: int = 3

    @property
    def goal(self) -> float:
        return 0.15 if self.bound == "decode" else 0.10


CASES = (
    Case("source, 50 % in memory", "source", 1, memory=0.5),
    Case("source, 100 % in memory", "source", 1, memory=1.02, step_ms=15),
    Case("source, 50 % in memory", "source", 4, memory=0.5),
    Case("source, 100 % in memory", "source", 4, memory=1.02, step_ms=60),
    Case("disk, 50 % in memory, 50 % on disk", "disk", 1, memory=0.5, disk=0.55),
    Case("disk, 100 % on disk", "disk", 1, disk=1.02),
    Case("disk, 100 % on disk", "disk", 4, disk=1.02),
    Case("decoding, 50 % in memory", "decode", 1, memory=0.5),
    Case("decoding, 100 % in memory", "decode", 1, memory=1.02),
    Case("decoding, 100 % in memory", "decode", 4, memory=1.02),
)


@dataclass
class DataSet:
    root: Path  # as runs see it
    index: Path
    bytes: int
    samples: int
    profile: Path  # of the machine, with this source


@dataclass
class Bench:
    foreload: Path
    folder: Path
    disk: SlowDisk
    sets: dict[str, DataSet] = field(default_factory=dict)
    decode_rate: float = 0  # bytes per second of one thread while all CPUs decode
    reports: list[Json] = field(default_factory=list)  # of all ranks of all runs

    def call(self, *arguments: object, slow: bool = False) -> Json:
        command = [str(self.foreload), *map(str, arguments)]
        output, _ = run(self.disk.command(command) if slow else command, TIMEOUT)
        return json.loads(output) if output.lstrip().startswith("{") else {}

    # What is measured before anything is predicted.

    def probe(self, bound: str, root: Path, bytes_: int, samples: int) -> None:
        index = self.folder / f"{bound}.index"
        profile = self.folder / f"{bound}.json"
        self.call("plan", "--dataset", root, "--save-index", index, "--json")
        time.sleep(REST_SECONDS)
        self.call(
            *("probe", "--source", root, "--disk", self.folder, "--index", index),
            *("--seconds", PROBE_SECONDS, "--save", profile, "--json"),
            slow=bound == "disk",
        )
        self.sets[bound] = DataSet(root, index, bytes_, samples, profile)

    def probe_decoding(self, images: Path, bytes_: int) -> None:
        cpus = len(os.sched_getaffinity(0))
        command = [sys.executable, str(HERE / "decode_run.py"), str(images), "--epochs", "6"]
        command += ["--memory", str(2 * bytes_), "--threads", str(cpus)]
        # The first epoch reads as well. Whole runs are faster or slower by some per cent each.
        medians = []
        for _ in range(PROBED_DECODERS):
            time.sleep(REST_SECONDS)
            output, _ = run(command, TIMEOUT)
            epochs = [epoch["seconds"] for epoch in json.loads(output)["epochs"][1:]]
            medians.append(statistics.median(epochs))
        self.decode_rate = bytes_ / statistics.median(medians) / cpus

    # Prediction.

    def scenario(self, case: Case) -> Json:
        data = self.sets[case.bound]
        devices = {
            device["kind"]: device["name"]
            for device in json.loads(data.profile.read_text())["devices"]
        }
        tiers = [{"name": "memory", "capacity": int(case.memory * data.bytes), "device": "memory"}]
        if case.disk:
            tiers.append(
                {"name": "disk", "capacity": int(case.disk * data.bytes), "device": devices["disk"]}
            )
        cluster: Json = {
            "profile": str(data.profile),
            "ranks": case.ranks,
            "ranks_per_node": case.ranks,
            "tiers": tiers,
            "source": {"device": devices["source"]},
            "staging": {"capacity": DECODE_STAGING if case.bound == "decode" else STAGING},
        }
        if case.bound == "decode":
            cpus = len(os.sched_getaffinity(0))
            threads = max(1, cpus // case.ranks)
            cluster["preprocess"] = {
                "rate": self.decode_rate,
                "threads": threads,
                "cpus": cpus,
                "bytes": DECODED,
            }
        step = case.step_ms / 1e3
        batch = BATCH * data.bytes / data.samples
        return {
            "name": case.name,
            "cluster": cluster,
            "dataset": {"index": str(data.index)},
            "training": {
                "epochs": case.epochs,
                "batch_size": BATCH,
                "drop_last": False,
                "compute": batch / step if step else 1e12,
            },
        }

    def predict(self, case: Case) -> list[float]:
        file = self.folder / "scenario.json"
        file.write_text(json.dumps(self.scenario(case), indent=2), "utf-8")
        result = self.call("simulate", file, "--policy", "foreload", "--json")["results"][0]
        return list(result["epoch_seconds"])

    # Measurement.

    def measure(self, case: Case) -> list[float]:
        data = self.sets[case.bound]
        cache = self.folder / "cache"
        meet = self.folder / "meet"
        if case.bound == "decode":
            command = [sys.executable, str(HERE / "decode_run.py"), str(data.root)]
            command += ["--memory", str(int(case.memory * data.bytes)), "--meet", str(meet)]
        else:
            command = [str(self.foreload), "read", str(data.root), "--json", "--no-digest"]
            command += ["--in-step"]
            command += ["--memory", f"{int(case.memory * data.bytes)}B"]
            command += ["--step-ms", str(case.step_ms), "--staging", f"{STAGING}B"]
            if case.disk:
                command += ["--disk", f"{cache}:{int(case.disk * data.bytes)}B"]
        command += ["--index", str(data.index), "--profile", str(data.profile)]
        command += ["--epochs", str(case.epochs), "--batch-size", str(BATCH)]
        if case.ranks > 1:
            command = [str(self.foreload), "launch", "-n", str(case.ranks), "--", *command]
        if case.bound == "disk":
            command = self.disk.command(command)
        time.sleep(REST_SECONDS)
        try:
            output, _ = run(command, TIMEOUT)
        finally:
            shutil.rmtree(cache, ignore_errors=True)
            meet.unlink(missing_ok=True)
        reports = list(objects(output))
        if "ranks" in reports[0]:
            reports = reports[0]["ranks"]
        self.reports.append({"case": case.name, "ranks": reports})
        return job_epochs([[epoch["seconds"] for epoch in report["epochs"]] for report in reports])


def job_epochs(ranks: list[list[float]]) -> list[float]:
    """Seconds of the job's epochs: one is over when the last rank is through with it."""
    ends = [max(sum(epochs[: i + 1]) for epochs in ranks) for i in range(len(ranks[0]))]
    return [end - begin for begin, end in zip([0.0, *ends], ends, strict=False)]


def forget(folder: Path) -> None:
    """Nothing below it is in the page cache any more: as cold as runs will find it, since they
    leave nothing there."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def objects(text: str) -> Iterator[Json]:
    """The JSON objects of a text, one after the other."""
    decoder = json.JSONDecoder()
    at = text.find("{")
    while at >= 0:
        parsed, at = decoder.raw_decode(text, at)
        yield parsed
        at = text.find("{", at)


def make_images(folder: Path, count: int, seed: int) -> int:
    """JPEGs of about 62 KB, 487 x 424, in one class folder; returns their bytes."""
    import numpy as np
    from PIL import Image

    random = np.random.Generator(np.random.Philox(seed))
    target = folder / "class0"
    target.mkdir(parents=True)
    for number in range(count):
        coarse = random.integers(0, 256, (27, 31, 3), dtype=np.uint8)
        image = np.asarray(Image.fromarray(coarse).resize((487, 424), Image.Resampling.BICUBIC))
        noise = random.normal(0, 14, image.shape)
        pixels = np.clip(image + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(target / f"{number:06d}.jpg", quality=80)
    return sum(file.stat().st_size for file in target.iterdir())


@contextmanager
def prepared(bench: Bench, cases: list[Case], scale: float) -> Iterator[None]:
    """Data sets, mounted and probed, for as long as they are needed."""
    bounds = {case.bound for case in cases}
    files = {
        "source": max(BATCH * 8, int(4000 * scale)),
        "disk": max(BATCH * 8, int(6000 * scale)),
    }
    if "disk" in bounds:
        data = make(bench.folder, Recipe(files=files["disk"]))
        forget(data.root)
        bench.probe("disk", data.root, data.bytes, data.files)
    if "decode" in bounds:
        count = max(BATCH * 8, int(7500 * scale))
        images = bench.folder / "images"
        bytes_ = make_images(images, count, seed=1)
        forget(images)
        bench.probe("decode", images, bytes_, count)
        few = bench.folder / "few-images"
        bench.probe_decoding(few, make_images(few, max(BATCH * 4, count // 4), seed=2))
    if "source" not in bounds:
        yield
        return
    data = make(bench.folder, Recipe(files=files["source"], seed=3))
    forget(data.root)
    with SlowFs(data.root, **SOURCE) as slow:
        bench.probe("source", slow.path, data.bytes, data.files)
        yield


SECTION = """## Prediction

`bench/sim/predict.py` (as root: it limits the rate of the disk with a control group) probes the
machine, predicts the epoch times of ten runs with the simulator from that probe alone, and then
measures each of them {rounds} times, by turns: 1 and 4 ranks; a source of 100 MB/s with 5.5 ms a
file; a disk that is read at 300 MB/s; JPEGs decoded and cropped with all CPUs; caches of 50 and
100 %. Ranks wait for each other after each step, as in training, and torch is loaded before the
first epoch. The probe and every run begin after six seconds of rest. In that time this virtual
machine gives free memory back to its host, so that every first epoch has to get it again. The goal
is 10 %, with decoding 15 %{met}.

{table}

"""


def with_section(document: str, section: str) -> str:
    """The document with its section of that heading replaced."""
    heading = section.partition("\n")[0]
    before, found, rest = document.partition(heading + "\n")
    if not found:
        raise ValueError(f"the document has no section '{heading}'")
    _, next_heading, after = rest.partition("\n## ")
    return before + section + (next_heading[1:] + after if next_heading else "")


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def table(
    cases: list[Case], predicted: dict[Case, list[float]], measured: Json
) -> tuple[str, bool]:
    lines = [
        "| limited by | ranks | epoch | predicted | measured: median (least to most) | off by |",
        "|---|---:|---|---:|---:|---:|",
    ]
    good = True
    for case in cases:
        for name, pick in (("first", lambda e: e[0]), ("later", lambda e: statistics.mean(e[1:]))):
            expected = pick(predicted[case])
            real = [pick(epochs) for epochs in measured[case]]
            off = expected / statistics.median(real) - 1
            good = good and abs(off) <= case.goal
            lines.append(
                f"| {case.name} | {case.ranks} | {name} | {expected:.2f} s | {spread(real)} s "
                f"| {off:+.1%} |"
            )
    return "\n".join(lines), good


def main() -> int:
    parser = argparse.ArgumentParser(description="Predict runs, then measure them.")
    parser.add_argument("--foreload", type=Path, default=default_foreload(), help="the program")
    parser.add_argument("--out", type=Path, default=Path("build/bench"), help="for the results")
    parser.add_argument("--document", type=Path, help="whose section is replaced")
    parser.add_argument("--folder", type=Path, help="on the disk to measure; else a temporary one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of files")
    parser.add_argument("--only", choices=("source", "disk", "decode"))
    options = parser.parse_args()
    cases = [case for case in CASES if options.only in (None, case.bound)]
    folder = Path(tempfile.mkdtemp(prefix="foreload-predict-", dir=options.folder))
    bench = Bench(options.foreload, folder, SlowDisk(folder, DISK_RATE))
    try:
        with prepared(bench, cases, options.scale):
            predicted = {case: bench.predict(case) for case in cases}
            measured: dict[Case, list[list[float]]] = {case: [] for case in cases}
            for turn in range(options.rounds):
                for case in cases:
                    measured[case].append(bench.measure(case))
                    print(f"round {turn + 1}: {case.name}, {case.ranks}: {measured[case][-1]}",
                          file=sys.stderr, flush=True)  # fmt: skip
            text, good = table(cases, predicted, measured)
        profiles = {bound: data.profile.read_text("utf-8") for bound, data in bench.sets.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        bench.disk.close()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "prediction.md").write_text(text + "\n", "utf-8")
    rows = [
        {**vars(case), "predicted": predicted[case], "measured": measured[case]} for case in cases
    ]
    (options.out / "prediction.json").write_text(json.dumps(rows, indent=2) + "\n", "utf-8")
    (options.out / "prediction-runs.json").write_text(json.dumps(bench.reports) + "\n", "utf-8")
    for bound, profile in profiles.items():
        (options.out / f"prediction-{bound}-profile.json").write_text(profile, "utf-8")
    if options.document:
        met = ", and was met" if good else ", and was not met everywhere"
        section = SECTION.format(rounds=options.rounds, met=met, table=text)
        document = with_section(options.document.read_text("utf-8"), section)
        options.document.write_text(document, "utf-8")
    print(text)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
