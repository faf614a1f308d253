# SPDX-License-Identifier: Apache-2.0
"""foreload beside other loaders, on two cores: decoding, memory, slow storage, resume.

    python bench/rivals/run.py [decode memory slow resume] --out build/bench-rivals

Rivals come from the environments that install.py made; one that is missing or fails is named in the
tables. Writes OUT/NAME.md and OUT/NAME.json, OUT/performance.md with all tables, and, with
--picture, a picture of them; --document replaces the section in a document. About eleven minutes in
all.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engine"))

import install
from processes import run as run_process
from programs import default_foreload
from report import Report
from results import (
    BARE,
    FAST,
    FORELOAD,
    THROWN,
    TORCH,
    Goals,
    Json,
    decode_goals,
    decode_report,
    median,
    memory_report,
    picture,
    rate,
    resume_report,
    section,
    slow_report,
    with_section,
)
from slowfs import SlowFs

HERE = Path(__file__).resolve().parent
SLOW = {"bandwidth": "60MB", "open_ms": 4, "read_ms": 1, "stat_ms": 0.5}
SLOW_BYTES = 60e6
QUALITY = 94
TORCH_8 = "torch DataLoader, 8 workers"

Contestants = dict[str, tuple[str | None, Callable[[], Json]]]  # environment (None: ours), a run


@dataclass
class Bench:
    folder: Path  # for data
    rounds: int
    files: int
    resume_samples: int
    foreload: Path
    bare_loop: Path
    slowfs: Path | None
    environments: Path
    photos: Path = Path()
    bytes: int = 0
    goals: Goals = field(default_factory=Goals)
    reports: list[Report] = field(default_factory=list)
    decoded: dict[str, list[Json]] = field(default_factory=dict)
    slowly: dict[str, list[Json]] = field(default_factory=dict)

    def make_photos(self) -> None:
        self.photos = self.folder / "photos"
        command = [str(self.foreload), "make-images", str(self.photos), "--json"]
        command += ["--count", str(self.files), "--mean-size", "103KiB", "--seed", "1"]
        made = json.loads(run_process(command, 600)[0])
        self.bytes = made["bytes"]
        print(f"[rivals] {made['files']} photos, mean {made['mean_bytes'] / 1024:.0f} KiB, "
              f"{made['mean_pixels']} pixels, quality {made['quality']}", flush=True)  # fmt: skip

    def python(self, environment: str | None) -> str:
        if environment is None:
            return sys.executable
        return str(install.python_of(environment, self.environments))

    def script(self, environment: str | None, script: str, *arguments: object) -> list[str]:
        path = HERE / "contestants" / f"{script}.py"
        return [self.python(environment), str(path), *map(str, arguments)]

    def result(self, command: list[str], watch_every: float = 0) -> Json:
        """Runs a contestant with all files in the page cache; its last line is its result."""
        for path in [*self.photos.rglob("*.jpg"), *self.folder.glob("*.beton")]:
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass
        output, measured = run_process(command, 600, watch_every)
        return json.loads(output.splitlines()[-1]) | measured

    def take_turns(
        self, contestants: Contestants, rounds: int | None = None
    ) -> tuple[dict[str, list[Json]], dict[str, str]]:
        """Every contestant once a round, each round begun by another; and who could not run."""
        absent: dict[str, str] = {}
        for name, (environment, _) in contestants.items():
            if environment and (reason := install.failure_of(environment, self.environments)):
                absent[name] = reason
        names = [name for name in contestants if name not in absent]
        runs: dict[str, list[Json]] = {name: [] for name in names}
        for turn in range(rounds or self.rounds):
            first = turn % max(1, len(names))
            for name in names[first:] + names[:first]:
                if name in absent:
                    continue
                print(f"[rivals] round {turn + 1}: {name}", flush=True)
                try:
                    runs[name].append(contestants[name][1]())
                except RuntimeError as error:
                    absent[name] = str(error).splitlines()[-1][-200:]
                    print(f"[rivals] {name}: {error}", file=sys.stderr, flush=True)
        return {name: of_one for name, of_one in runs.items() if of_one}, absent

    def versions(self, environment: str) -> str:
        if install.failure_of(environment, self.environments):
            return ""
        return install.versions_of(environment, self.environments)


def decode(bench: Bench) -> None:
    beton = bench.folder / "photos.beton"
    if not install.failure_of("ffcv", bench.environments):
        try:
            run_process(
                bench.script(
                    "ffcv", "ffcv_loader", "write", bench.photos, beton, "--quality", QUALITY
                ),
                600,
            )
        except RuntimeError as error:
            print(f"[rivals] FFCV's data set: {error}", file=sys.stderr, flush=True)

    def of(
        environment: str | None, script: str, *more: object, data: Path = bench.photos
    ) -> Callable[[], Json]:
        return lambda: bench.result(bench.script(environment, script, data, *more))

    def bare(places: int) -> Callable[[], Json]:
        command = [str(bench.bare_loop), str(bench.photos), "2", "2", str(places)]
        return lambda: bench.result(command)

    contestants: Contestants = {
        FORELOAD: (None, of(None, "foreload_loader")),
        FAST: (None, of(None, "foreload_loader", "--fast")),
        BARE: (None, bare(256)),
        THROWN: (None, bare(1)),
        "DALI, CPU operators": ("dali", of("dali", "dali")),
        TORCH: ("torch", of("torch", "torch_pillow")),
        "tf.data, antialias": ("tensorflow", of("tensorflow", "tf_data")),
        "tf.data, no antialias": ("tensorflow", of("tensorflow", "tf_data", "--no-antialias")),
        "FFCV": ("ffcv", of("ffcv", "ffcv_loader", data=beton)),
        "SPDL": ("spdl", of("spdl", "spdl_pipeline")),
    }
    runs, absent = bench.take_turns(contestants)
    remarks = {
        BARE: "no loader: files in memory, same kernels and crops",
        THROWN: "the same, each result over the last one in the cache",
        FAST: "decodes at a fraction of the size where that is enough",
        "DALI, CPU operators": bench.versions("dali"),
        TORCH: bench.versions("torch"),
        "tf.data, antialias": bench.versions("tensorflow"),
        "tf.data, no antialias": "easier work: no antialiasing",
        "FFCV": f"{bench.versions('ffcv')}; data set rewritten first; easier work: no antialiasing",
        "SPDL": f"{bench.versions('spdl')}; ffmpeg's scaler",
    }
    report = decode_report(runs, absent, remarks, bench.files)
    report.runs = [{"contestant": name, "result": run} for name in runs for run in runs[name]]
    bench.reports.append(report)
    bench.decoded = runs
    decode_goals(runs, bench.goals)


def memory(bench: Bench) -> None:
    def watched(environment: str | None, script: str) -> Callable[[], Json]:
        command = bench.script(environment, script, bench.photos, "--epochs", 1)
        return lambda: bench.result(command, watch_every=0.1)

    contestants: Contestants = {
        FORELOAD: (None, watched(None, "foreload_loader")),
        TORCH: ("torch", watched("torch", "torch_pillow")),
    }
    runs, _ = bench.take_turns(contestants, rounds=1)
    bench.reports.append(memory_report(runs, bench.goals))


def slow(bench: Bench) -> None:
    with SlowFs(bench.photos, bench.slowfs, **SLOW) as mounted:
        ours = bench.script(None, "foreload_loader", mounted.path, "--epochs", 5)
        ours += ["--memory", str(2 * bench.bytes)]
        theirs = bench.script("torch", "torch_pillow", mounted.path, "--epochs", 5, "--workers", 8)

        def counted(command: list[str]) -> Json:
            mounted.reset()
            output, measured = run_process(command, 600)
            result = json.loads(output.splitlines()[-1]) | measured
            return result | {"read_bytes": mounted.counters()["read_bytes"]}

        contestants: Contestants = {
            FORELOAD: (None, lambda: counted(ours)),
            TORCH_8: ("torch", lambda: counted(theirs)),
        }
        runs, _ = bench.take_turns(contestants, rounds=1)
    cached = median(bench.decoded.get(FORELOAD), rate)
    bench.reports.append(slow_report(runs, bench.bytes, SLOW_BYTES, cached, bench.goals))
    bench.reports[-1].runs = [
        {"contestant": name, "result": run} for name in runs for run in runs[name]
    ]
    bench.slowly = runs


def link_many(photos: list[Path], folder: Path, count: int) -> None:
    """A data set of any length in little space: names for the same files, in a thousand classes."""
    classes = min(1000, count)
    inside = [folder / f"class{number:04}" for number in range(classes)]
    for path in inside:
        path.mkdir(parents=True)
    for number in range(count):
        os.link(
            photos[number % len(photos)], inside[number * classes // count] / f"{number:08}.jpg"
        )


def resume(bench: Bench) -> None:
    many = bench.folder / "many"
    count = bench.resume_samples
    link_many(sorted(bench.photos.rglob("*.jpg")), many, count)

    def of(environment: str | None, script: str) -> Callable[[], Json]:
        state = bench.folder / f"{script}.state"

        def once() -> Json:
            if not state.exists():
                run_process(bench.script(environment, script, "prepare", many, state), 600)
            return bench.result(bench.script(environment, script, "resume", many, state))

        return once

    contestants: Contestants = {
        FORELOAD: (None, of(None, "foreload_resume")),
        "torchdata StatefulDataLoader, 2 workers": ("torch", of("torch", "torchdata_resume")),
    }
    runs, absent = bench.take_turns(contestants, rounds=2)
    subprocess.run(["rm", "-rf", str(many)], check=False)  # quicker than one file at a time
    bench.reports.append(resume_report(runs, count, absent, bench.goals))


def machine_line(bench: Bench) -> str:
    model = "unknown processor"
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores ({model}), {bench.files:,} photos of "
        f"{bench.bytes / bench.files / 1024:.0f} KiB, {bench.rounds} rounds; load "
        f"{load:.1f} at the end."
    )


EXPERIMENTS = {"decode": decode, "memory": memory, "slow": slow, "resume": resume}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run foreload beside its rivals.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--out", type=Path, default=Path("build/bench-rivals"))
    parser.add_argument("--picture", type=Path, help="like docs/rivals.svg")
    parser.add_argument("--document", type=Path, help="whose section is replaced")
    parser.add_argument("--folder", type=Path, help="for data; else a temporary one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=4000, help="less only to try it out")
    parser.add_argument("--resume-samples", type=int, default=1_281_167)
    parser.add_argument("--foreload", type=Path, default=default_foreload(), help="the program")
    built = HERE.parents[1] / "build" / "release" / "bench" / "rivals" / "bare_loop"
    parser.add_argument("--bare-loop", type=Path, default=built, help="the program")
    parser.add_argument("--slowfs", type=Path, help="the program")
    parser.add_argument("--environments", type=Path, default=install.FOLDER)
    options = parser.parse_args()
    unknown = sorted(set(options.names) - EXPERIMENTS.keys())
    if unknown or options.rounds < 1:
        parser.error(f"no such experiments: {', '.join(unknown)}" if unknown else "nothing to run")
    if os.getloadavg()[0] > 0.5:
        print(f"[rivals] the machine is busy (load {os.getloadavg()[0]:.1f}): figures are worth "
              "little", file=sys.stderr, flush=True)  # fmt: skip

    failed = 0
    with ExitStack() as stack:
        folder = options.folder or Path(tempfile.mkdtemp(prefix="foreload-rivals-"))
        if not options.folder:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(
            folder, options.rounds, options.files, options.resume_samples, options.foreload,
            options.bare_loop, options.slowfs, options.environments,
        )  # fmt: skip
        bench.make_photos()
        for name in options.names or EXPERIMENTS:
            try:
                EXPERIMENTS[name](bench)
            except RuntimeError as error:
                print(f"[rivals] {name}: {error}", file=sys.stderr, flush=True)
                failed += 1
        bench.reports.append(bench.goals.report())
        for report in bench.reports:
            if options.files < 4000:
                report.notes.append(f"Tried out with {options.files} files: no result.")
            report.write(options.out)
            print(report.markdown(), flush=True)
        text = section(bench.reports, machine_line(bench))
        (options.out / "performance.md").write_text(text, "utf-8")
        if options.document:
            document = with_section(options.document.read_text("utf-8"), text)
            options.document.write_text(document, "utf-8")
        if options.picture and bench.decoded:
            picture(bench.decoded, bench.slowly, options.picture)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
