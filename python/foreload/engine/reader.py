# SPDX-License-Identifier: Apache-2.0
"""Batches of bytes, read and cached by the engine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from foreload import _core
from foreload._arguments import MAX_UINT32, whole
from foreload._keywords import takes_settings
from foreload._settings import ReaderSettings
from foreload.cluster.ranks import with_local
from foreload.engine.opening import open_engine
from foreload.reports.verdict import Notices

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        memory: Memory of this machine to keep samples in, like "8GiB"; "auto" is half of what is
            left. Ranks on the machine share it.
        disk: "FOLDER:SIZE" of a disk cache of this machine, or several; the fastest is used first.
            The size "auto" is half of what is free.
        per_rank: Whether `memory` and `disk` are for each rank instead.
        staging: Memory for batches being filled; 0 is 128 MiB.
        index: File that keeps the listing; used if it is there, written if not. None keeps it in
            the first disk cache, if there is one.
        revalidate: List again even if there is an index, for files that were changed in place;
            folders to which files were added are noticed.
        extensions: Which files are samples; those of images if None, every file if empty.
        objective: What reading saves. "time": where the loop would wait for a copy and the source
            is faster, the source is read. "traffic": never while there is a copy.
        on_error: "raise", or "skip": the next good sample of the batch replaces a bad one.
        deadline: Seconds until a read from the source is given up.
        profile: File that `foreload probe` saved, to start from; "none" for none. None takes the
            one in ~/.cache/foreload if it is there.
        first_epoch: The epoch to begin with.
        start: Samples of that epoch that all ranks together have read before.
        rank: The number of this process.
        ranks: How many processes there are; how many share the machine, the environment says.
    """

    @takes_settings(ReaderSettings)
    def __init__(
        self,
        dataset: str | os.PathLike[str],
        *,
        rank: SupportsIndex = 0,
        ranks: SupportsIndex = 1,
        **settings: Unpack[ReaderSettings],
    ) -> None:
        count = whole("ranks", ranks, 1, MAX_UINT32)
        number = whole("rank", rank, 0, count - 1)
        found = with_local(number, count, "arguments")
        given = _core.Settings(
            dataset=dataset, rank=number, ranks=count, ranks_per_node=found.local, **settings
        )
        self._core = open_engine(given, found, None, joins=False)
        self._notices = Notices()

    def __iter__(self) -> Iterator[_core.LoaderBatch]:
        while (batch := self._core.next()) is not None:
            yield batch
        self._notices.losses(json.loads(self._core.run_figures_json()), stacklevel=2)

    def seek(self, epoch: SupportsIndex, start: SupportsIndex = 0) -> None:
        """Go on with `epoch` after `start` of its samples, counted over all ranks."""
        self._core.seek(whole("epoch", epoch), whole("start", start))

    def stats(self) -> dict[str, Any]:
        """Where bytes came from and what went wrong, over the whole run."""
        found: dict[str, Any] = json.loads(self._core.stats_json())
        found |= json.loads(self._core.start_json())
        return found

    def epoch_stats(self) -> dict[str, Any]:
        """The current epoch as far as it has come, or the last one after its end."""
        found: dict[str, Any] = json.loads(self._core.epoch_json())
        return found
