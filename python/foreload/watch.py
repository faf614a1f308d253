# SPDX-License-Identifier: Apache-2.0
"""A running job in the terminal: `foreload watch RUN_FILE [MORE ...]`.

It only reads what the job appends to its run files, so it can be started and ended at any time, on
any machine that sees the files. On a terminal the picture is drawn again every second; elsewhere
one line is written for each rank.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from foreload import _core
from foreload.reports.program import Parser, status_of
from foreload.reports.run_files import PLACES, Epoch, Moment, Refusal, check_format, not_a_run_file

_TAIL = 1 << 17  # bytes at the end of a file that are enough to know how it stands
_PATIENCE = 5.0  # seconds without a line, at least, until that is worth a word
_BAR = 24

Json = dict[str, Any]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _numbers_here() -> str:
    """Whose process numbers are valid here: a container has its own."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


class Follower:
    """Reads a run file as it grows."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.about: Json = {}
        self.moment: Moment | None = None
        self.before: Moment | None = None  # the moment before
        self.epoch: Epoch | None = None  # the last that has ended
        self.closed = False  # the loader, or the process has ended in good order
        self.changed = 0.0  # when the file was written last
        self._offset = 0
        self._rest = b""
        self._inode = 0

    def update(self) -> None:
        """Read what is new. A file that was begun anew is read from its start."""
        try:
            with self.file.open("rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_ino != self._inode or status.st_size < self._offset:
                    self._begin(stream.readline(), status.st_ino)
                    self._offset = stream.tell()
                    if status.st_size - _TAIL > self._offset:
                        stream.seek(status.st_size - _TAIL)
                        stream.readline()  # most likely the end of one
                        self._offset = stream.tell()
                stream.seek(self._offset)
                new = stream.read()
        except OSError as error:
            raise Refusal(f"cannot read {self.file}: {error.strerror}") from None
        self.changed = status.st_mtime
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            self._take(line)

    def _begin(self, header: bytes, inode: int) -> None:
        self._inode, self._rest = inode, b""
        self.moment = self.before = self.epoch = None
        self.closed = False
        try:
            self.about = json.loads(header)
            check_format(str(self.file), self.about["foreload_run"])
        except (KeyError, RecursionError, TypeError, ValueError):
            raise not_a_run_file(str(self.file)) from None

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
            if record.get("kind") == "moment":
                self.before, self.moment = self.moment, Moment.of(record)
            elif record.get("kind") == "end":
                self.closed = True
            elif "seconds" in record:
                self.epoch = Epoch.of(record, 0.0)
        except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
            return  # a torn line, or one of a later foreload

    @property
    def rank(self) -> int:
        """Whose file it is."""
        return int(self.about.get("rank", 0))

    @property
    def finished(self) -> bool:
        """Whether the last epoch has ended."""
        epochs = self.about.get("epochs")
        return epochs is not None and self.epoch is not None and self.epoch.number + 1 >= epochs

    @property
    def process_ended(self) -> bool:
        """Whether the process that wrote it is gone; only the same machine can tell."""
        process = self.about.get("process", {})
        here = {"host": socket.gethostname(), "numbers": _numbers_here()}
        if not process.get("numbers") or any(process.get(key) != here[key] for key in here):
            return False
        return not Path("/proc", str(process["number"])).exists()

    def silence(self, now: float) -> float | None:
        """Seconds without news, if they are many."""
        usual = 1.0
        if self.moment is not None:
            usual = self.moment.at - self.before.at if self.before else self.moment.at / 300
        quiet = now - self.changed
        return quiet if quiet > max(_PATIENCE, 3 * min(usual, 15.0)) else None


class Figures:
    """What is shown of a rank, as text."""

    def __init__(self, follower: Follower, now: float) -> None:
        moment, epoch = follower.moment, follower.epoch
        self.rank = follower.rank
        self.epoch = self.batches = self.samples_rate = self.mb_rate = self.waited = "–"
        self.share = 0.0
        self.places: dict[str, int] = {}
        self.caches: list[str] = []
        self.stages: list[str] = []
        self.verdict = "no batch yet"
        self.losses: list[str] = []
        # A line about an epoch is newer than the moments in it.
        if epoch is not None and (
            moment is None or moment.at <= epoch.begin + epoch.seconds + 0.001
        ):
            self._of_epoch(epoch)
        if moment is not None:
            self._caches(follower.about, moment.kept_bytes)
            if self.epoch == "–":
                self._of_moment(moment, follower.before)
        silence = follower.silence(now)
        self.news = ""
        if follower.finished:
            self.news = "finished"
        elif follower.closed:
            self.news = "closed"
        elif follower.process_ended:
            self.news = "its process has ended without closing the loader"
        elif silence is not None:
            self.news = f"no news for {silence:.0f} s"

    def _of_epoch(self, epoch: Epoch) -> None:
        self.epoch = str(epoch.number)
        self.batches = "done"
        self.share = 1.0
        seconds = max(epoch.seconds, 1e-9)
        self._rates(epoch.samples / seconds, epoch.bytes / seconds, epoch.wait_share)
        self.places = epoch.placed
        self.stages = [f"{name} {_percent(stage.busy)}" for name, stage in epoch.stages.items()]
        self.verdict, self.losses = epoch.verdict.text, epoch.verdict.losses

    def _of_moment(self, moment: Moment, before: Moment | None) -> None:
        self.epoch = str(moment.epoch)
        self.batches = (
            f"{moment.batches:,}/{moment.in_all:,}" if moment.in_all else f"{moment.batches:,}"
        )
        self.share = moment.batches / moment.in_all if moment.in_all else 0.0
        at, samples, amount = (before.at, before.samples, before.bytes) if before else (0.0, 0, 0)
        seconds = max(moment.at - at, 1e-9)
        rate = (moment.samples - samples) / seconds, (moment.bytes - amount) / seconds
        self._rates(*rate, moment.waited)
        placed = before.placed if before else dict.fromkeys(PLACES, 0)
        self.places = {place: moment.placed[place] - placed[place] for place in PLACES}
        self.stages = [f"{name} {_percent(stage.busy)}" for name, stage in moment.stages.items()]
        self.verdict = moment.verdict or f"waited {_percent(moment.waited)} of the time"
        self.losses = moment.losses

    def _rates(self, samples: float, amount: float, waited: float) -> None:
        self.samples_rate = f"{samples:,.0f}"
        self.mb_rate = f"{amount / 1e6:,.1f}"
        self.waited = _percent(waited)

    def _caches(self, about: Json, kept: Sequence[int]) -> None:
        for tier, amount in zip(about.get("tiers", []), kept, strict=False):
            room = int(tier["bytes"])
            if room > 0:
                self.caches.append(
                    f"{tier['name']} {_core.format_bytes(amount)} of {_core.format_bytes(room)}"
                )

    @property
    def sources(self) -> str:
        """Where bytes came from, as shares."""
        everything = sum(self.places.values())
        shares = [
            f"{place} {_percent(amount / everything)}"
            for place, amount in self.places.items()
            if amount
        ]
        return " ".join(shares) or "–"

    def line(self) -> str:
        """All of it in one line."""
        parts = [
            f"rank {self.rank}: epoch {self.epoch}, batches {self.batches}",
            f"{self.samples_rate} samples/s",
            f"{self.mb_rate} MB/s",
            f"waited {self.waited}",
            f"from {self.sources}",
            *self.caches,
        ]
        return "; ".join(filter(None, [", ".join(parts), self.verdict, *self.losses, self.news]))


def one_rank(name: str, about: Json, figures: Figures) -> list[str]:
    """The picture of a job of one rank, line by line."""
    bar = "#" * round(figures.share * _BAR)
    about_run = [str(about[key]) for key in ("made_by", "dataset") if about.get(key)]
    lines = [
        "  ".join([name, *about_run]),
        f"epoch {figures.epoch} [{bar:<{_BAR}}] {figures.batches}  {figures.news}".rstrip(),
        "",
        figures.verdict,
        *(f"LOST: {loss}" for loss in figures.losses),
        "",
        f"rate    {figures.samples_rate} samples/s, {figures.mb_rate} MB/s",
        f"waited  {figures.waited} of the time since the last news",
        f"from    {figures.sources}",
    ]
    if figures.caches:
        lines.append(f"kept    {', '.join(figures.caches)}")
    if figures.stages:
        lines.append(f"busy    {', '.join(figures.stages)}")
    return lines


def many_ranks(name: str, about: Json, all_figures: Sequence[Figures]) -> list[str]:
    """The picture of a job of several ranks: a row for each."""
    columns = ("rank", "epoch", "batches", "samples/s", "MB/s", "waited", "from", "news")
    rows = [
        (
            str(figures.rank), figures.epoch, figures.batches, figures.samples_rate,
            figures.mb_rate, figures.waited, figures.sources, figures.news,
        )
        for figures in all_figures
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]

    def lined(row: Sequence[str]) -> str:
        cells = [
            text.ljust(width) if i >= 6 else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    said = dict.fromkeys(f"rank {figures.rank}: {figures.verdict}" for figures in all_figures)
    lost = [f"LOST: rank {f.rank}: {loss}" for f in all_figures for loss in f.losses]
    caches = [f"rank {f.rank} keeps {', '.join(f.caches)}" for f in all_figures if f.caches]
    title = "  ".join([name, str(about.get("dataset", "")), f"{len(rows)} ranks"])
    return [title, "", lined(columns), *map(lined, rows), "", *said, *lost, *caches]


def files_of(given: Sequence[str]) -> list[Path]:
    """The files to follow: of rank 0's, or of the name that all ranks' begin with, all ranks'."""
    found: list[Path] = []
    for name in given:
        path = Path(name).expanduser()
        stem = path if not path.exists() else None
        if path.exists() and path.suffix == ".0":
            stem = path.with_suffix("")
        siblings = []
        if stem is not None and stem.parent.is_dir():
            pattern = re.compile(re.escape(stem.name) + r"\.(\d+)")
            numbered = [(pattern.fullmatch(file.name), file) for file in stem.parent.iterdir()]
            siblings = [
                file
                for _, file in sorted((int(match[1]), file) for match, file in numbered if match)
            ]
        found += siblings or [path]
    return list(dict.fromkeys(found))


def draw(followers: Sequence[Follower], names: str, now: float) -> list[str]:
    """What a terminal shows."""
    figures = [Figures(follower, now) for follower in followers]
    if len(figures) == 1:
        return one_rank(names, followers[0].about, figures[0])
    return many_ranks(names, followers[0].about, figures)


def _fit(lines: Sequence[str], columns: int, rows: int) -> list[str]:
    """Cut to what a terminal has; long sentences go on in the next line."""
    fitted: list[str] = []
    for line in lines:
        while len(line) > columns:
            cut = line.rfind(" ", columns // 2, columns)
            cut = columns if cut < 0 else cut
            fitted.append(line[:cut])
            line = "    " + line[cut:].lstrip()
        fitted.append(line)
    return fitted[: max(1, rows - 1)]


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _follow(followers: Sequence[Follower], names: str, every: float) -> None:
    """Draws until Ctrl-C, on a screen of its own, so that the terminal is as it was afterwards."""
    signal.signal(signal.SIGTERM, _stop)
    out = sys.stdout
    lines: list[str] = []
    out.write("\x1b[?1049h\x1b[?25l")
    try:
        while True:
            for follower in followers:
                follower.update()
            size = shutil.get_terminal_size()
            lines = draw(followers, names, time.time())
            fitted = _fit(lines, size.columns, size.lines)
            out.write("\x1b[H" + "".join(f"{line}\x1b[K\r\n" for line in fitted) + "\x1b[J")
            out.flush()
            time.sleep(every)
    except KeyboardInterrupt:
        pass
    finally:
        out.write("\x1b[?25h\x1b[?1049l")
        out.write("".join(f"{line}\n" for line in lines))
        out.flush()


def _run(argv: Sequence[str] | None) -> None:
    parser = Parser(
        prog="foreload watch",
        description="Show a running job: what limits it, rates, waits, caches; several ranks as "
        "rows. Ends with Ctrl-C.",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN_FILE", help="what the job writes; RUN_FILE.0 finds others"
    )
    parser.add_argument("--once", action="store_true", help="write a line for each rank, and end")
    arguments = parser.parse_args(argv)
    followers = [Follower(file) for file in files_of(arguments.runs)]
    for follower in followers:
        follower.update()
    if arguments.once or not sys.stdout.isatty():
        for follower in followers:
            sys.stdout.write(Figures(follower, time.time()).line() + "\n")
        return
    _follow(followers, " ".join(arguments.runs), 1.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run `foreload watch` with these arguments; gives its exit status."""
    try:
        return status_of("foreload watch", _run, argv)
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
