# SPDX-License-Identifier: Apache-2.0
"""Batches of bytes, read and cached by the engine."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, SupportsIndex, cast

from foreload import _core
from foreload._arguments import (
    MAX_UINT32,
    Bytes,
    budget,
    maybe_whole,
    one_of,
    path_of,
    seed_word,
    whole,
)
from foreload._keywords import suggests_keywords
from foreload.engine.budgets import Disk, budgets_of
from foreload.planning.weighted_order import WeightedOrder, settings_of
from foreload.reports.verdict import Notices


def profile_of(profile: str | os.PathLike[str] | None) -> str | None:
    """The file to start from, empty for none, None for the default one."""
    if profile is None:
        return None
    return "" if profile == "none" else path_of(profile)


class Reader:
    """Gives the samples of a folder as batches of bytes, epoch after epoch.

    Each `for batch in reader` is one epoch. A batch has `indices`, `labels` (numpy) and `data`, a
    list of read-only memoryviews; keeping a view keeps its batch.

    Args:
        dataset: A folder of samples, or a file list: a text file with one path per line.
        epochs: Number of epochs; None goes on for as long as the loop does.
        batch_size: Samples in a batch.
        drop_last: Whether a last batch that is not full is left out.
        seed: Seed of the shuffle.
        order: "torch", "sequential", "feistel" or a `foreload.WeightedOrder`; see `foreload.order`.
        pad: "repeat" or "truncate"; see `foreload.order`.
        memory: Memory to keep samples in, like "8GiB"; "auto" is half of what is left.
        disk: "FOLDER:SIZE" of a disk cache, or several; the fastest is used first. The size "auto"
            is half of what is free.
        staging: Memory for batches being filled.
        index: File that keeps the listing; used if it is there, written if not. None keeps it in
            the first disk cache, if there is one.
        revalidate: List again even if there is an index, for files that were changed in place;
            folders to which files were added are noticed.
        extensions: Which files are samples; those of images if None, every file if empty.
        on_error: "raise", or "skip": the next good sample of the batch replaces a bad one.
        deadline: Seconds until a read from the source is given up.
        profile: File that `foreload probe` saved, to start from; "none" for none. None takes the
            one in ~/.cache/foreload if it is there.
        first_epoch: The epoch to begin with.
        start: Samples of that epoch that all ranks together have read before.
        rank: The number of this process.
        ranks: How many processes there are.
    """

    @suggests_keywords
    def __init__(
        self,
        dataset: str | os.PathLike[str],
        *,
        epochs: SupportsIndex | None = None,
        batch_size: SupportsIndex = 64,
        drop_last: bool = False,
        seed: SupportsIndex = 0,
        order: str | WeightedOrder = "torch",
        pad: str = "repeat",
        memory: Bytes = 0,
        disk: Disk | Sequence[Disk] | None = None,
        staging: Bytes = "128MiB",
        index: str | os.PathLike[str] | None = None,
        revalidate: bool = False,
        extensions: Sequence[str] | None = None,
        on_error: str = "raise",
        deadline: float = 30.0,
        profile: str | os.PathLike[str] | None = None,
        first_epoch: SupportsIndex = 0,
        start: SupportsIndex = 0,
        rank: SupportsIndex = 0,
        ranks: SupportsIndex = 1,
    ) -> None:
        one_of("on_error", on_error, "raise", "skip")
        if not deadline > 0:
            raise ValueError(f"deadline is {deadline!r}: give seconds above 0")
        count = whole("ranks", ranks, 1, MAX_UINT32)
        budgets = budgets_of(memory, disk)
        self._core = _core.open_loader(
            dataset=path_of(dataset),
            files=[],
            ranges=[],
            extensions=None if extensions is None else list(extensions),
            index="" if index is None else path_of(index),
            revalidate=revalidate,
            rank=whole("rank", rank, 0, count - 1),
            ranks=count,
            order=settings_of(order),
            seed=seed_word(seed),
            pad=pad,
            epochs=maybe_whole("epochs", epochs, 1),
            first_epoch=whole("first_epoch", first_epoch),
            start=whole("start", start),
            batch_size=whole("batch_size", batch_size, 1),
            drop_last=drop_last,
            memory=budgets.memory,
            disks=budgets.disks,
            budgets_why=budgets.why,
            staging=budget("staging", staging),
            skip_bad_samples=on_error == "skip",
            deadline=float(deadline),
            profile=profile_of(profile),
        )
        self._notices = Notices()
        for warning in self._start()["warnings"]:
            warnings.warn(warning, RuntimeWarning, stacklevel=3)

    def __iter__(self) -> Iterator[_core.LoaderBatch]:
        while (batch := self._core.next()) is not None:
            yield batch
        self._notices.losses(json.loads(self._core.run_figures_json()), stacklevel=2)

    def seek(self, epoch: SupportsIndex, start: SupportsIndex = 0) -> None:
        """Go on with `epoch` after `start` of its samples, counted over all ranks."""
        self._core.seek(whole("epoch", epoch), whole("start", start))

    def stats(self) -> dict[str, Any]:
        """Where bytes came from and what went wrong, over the whole run."""
        return cast("dict[str, Any]", json.loads(self._core.stats_json())) | self._start()

    def _start(self) -> dict[str, Any]:
        """How it began: tiers, profile, index, warnings."""
        return cast("dict[str, Any]", json.loads(self._core.start_json()))

    def epoch_stats(self) -> dict[str, Any]:
        """The current epoch as far as it has come, or the last one after its end."""
        return cast("dict[str, Any]", json.loads(self._core.epoch_json()))
