# SPDX-License-Identifier: Apache-2.0
"""The record of a run as the loop's thread sees it, for pages and for `foreload watch`."""

from __future__ import annotations

import json
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

from foreload import _core
from foreload._arguments import path_of
from foreload.reports.run_files import PLACES

Json = dict[str, Any]


def output_file(name: str, path: str | os.PathLike[str]) -> str:
    """The path with ~ expanded; refused if no file can be written there."""
    file = path_of(path)
    _core.check_output_file(name, file)
    return file


def run_file_of(path: str | os.PathLike[str] | None, rank: int, ranks: int) -> str:
    """The run file of a rank, "" for none. Ranks must not write to the same file."""
    if path is None:
        return ""
    file = output_file("run_file", path)
    return file if ranks == 1 else f"{file}.{rank}"


def samples_in(batch: Any) -> int:
    """How many samples a batch has, judged by its first part."""
    while isinstance(batch, Mapping | Sequence) and not isinstance(batch, str | bytes) and batch:
        first = next(iter(batch.values())) if isinstance(batch, Mapping) else batch[0]
        if not hasattr(first, "__len__") or isinstance(first, str | bytes):
            break
        batch = first
    try:
        return len(batch)
    except TypeError:
        return 1


class Counting(Protocol):
    """Who can be asked how it does."""

    def epoch_stats(self) -> Json: ...
    def stats(self) -> Json: ...


_UNCOUNTED = SimpleNamespace(epoch_stats=dict, stats=dict)  # a loader that cannot be asked


def _close(record: _core.RunRecord) -> None:
    try:
        record.close()
    except OSError as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)


class RunLog:
    """Notes each batch, and now and then how the loader does. For the loop's thread.

    Args:
        file: Where to write; "" keeps the last lines in memory only.
        header: What ran.
    """

    def __init__(self, file: str, header: Json) -> None:
        self._record = _core.RunRecord(file, json.dumps(header))
        self._inside = False
        self._epoch = 0  # that was begun last, and
        self._samples = 0  # what the loop got of it
        self._close = weakref.finalize(self, _close, self._record)

    def begin(self, loader: Counting, epoch: int, batches: int, ago: float = 0.0) -> None:
        """The loop asked for the first of so many batches (0: nobody knows) so many seconds ago."""
        self._record.begin_epoch(epoch, batches, json.dumps(loader.stats()), ago)
        self._inside = True
        self._epoch, self._samples = epoch, 0

    def batch(self, loader: Counting, waited: float, samples: int) -> None:
        """The loop waited so many seconds for so many samples."""
        self._samples += samples
        wanted = self._record.batch(waited, samples)
        if wanted:
            stats = loader.stats() if wanted > 1 else None
            self._write(self._record.tell, loader.epoch_stats(), stats)

    def end(self, loader: Counting) -> None:
        """The epoch is over."""
        self._inside = False
        self._write(self._record.end_epoch, loader.epoch_stats(), loader.stats())

    def uncounted(self) -> Json:
        """What epoch_stats() says of an epoch in which nothing was read: the same keys as ever."""
        return {
            "epoch": self._epoch,
            "samples": self._samples,
            "bytes": 0,
            "from": dict.fromkeys(PLACES, 0),
            "same_host_bytes": 0,
            "counters": {},
        }

    def text(self, loader: Counting) -> str:
        """What a run file would say up to now."""
        if self._inside:
            self._write(self._record.moment, loader.epoch_stats(), loader.stats())
        return self._record.text

    def close(self) -> None:
        """The loader is closed. One that was forgotten, or is left when the process ends, counts as
        closed too."""
        self._close()

    def _write(self, line: Callable[[str, str], None], epoch: Json, stats: Json | None) -> None:
        """A disk that is full is no reason to end a training run."""
        try:
            line(json.dumps(epoch), "" if stats is None else json.dumps(stats))
        except OSError as error:
            warnings.warn(f"{error} The run goes on without it.", RuntimeWarning, stacklevel=6)


class RecordedLoader:
    """What `record()` gives: the batches of a loader, in its order."""

    def __init__(self, loader: Iterable[Any], file: str | os.PathLike[str], name: str) -> None:
        self.loader = loader
        self._epoch = 0
        header: Json = {"made_by": name, "rank": 0, "ranks": 1}
        dataset = getattr(loader, "dataset", None)
        if dataset is not None:
            header["dataset"] = str(getattr(dataset, "root", type(dataset).__name__))
            if hasattr(dataset, "__len__"):
                header["samples"] = len(dataset)
        for key in ("batch_size", "num_workers"):
            if isinstance(getattr(loader, key, None), int):
                header[key] = getattr(loader, key)
        self._log = RunLog(output_file("run file", file), header)

    def __iter__(self) -> Iterator[Any]:
        asked = time.perf_counter()  # starting workers is waiting, too
        self._log.begin(_UNCOUNTED, self._epoch, self._known_length())
        self._epoch += 1
        for batch in self.loader:
            self._log.batch(_UNCOUNTED, time.perf_counter() - asked, samples_in(batch))
            yield batch
            asked = time.perf_counter()
        self._log.end(_UNCOUNTED)

    def __len__(self) -> int:
        return len(self.loader)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.loader, name)

    def _known_length(self) -> int:
        try:
            return len(self)
        except TypeError:
            return 0


def record(
    loader: Iterable[Any], file: str | os.PathLike[str], name: str = "torch DataLoader"
) -> RecordedLoader:
    """Record how long a loop waits for another loader, to compare it with foreload's.

    `for batch in foreload.record(torch_loader, "torch.jsonl")` gives the same batches; `foreload
    report foreload.jsonl torch.jsonl --out page.html` shows two runs side by side.

    Args:
        loader: torch's DataLoader, or anything else that gives batches.
        file: The run file to write.
        name: What made the batches, for the page.
    """
    return RecordedLoader(loader, file, name)
