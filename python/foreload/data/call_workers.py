# SPDX-License-Identifier: Apache-2.0
"""Batches of a data set that only has `__getitem__`, made in worker processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from foreload.data.calls import CallJob, Calls, fingerprint_of, needs_torch, task_of
from foreload.workers.crew import Crew

if TYPE_CHECKING:
    from foreload.data.map_style import Wanted  # imports torch


class WorkerMaker:
    """Makes batches of a data set in worker processes, which start with the first batch.

    Whoever is free makes the next batch. Where each worker's batches are fixed in advance, as in
    torch's DataLoader, those behind a late one are late too: with every sixteenth sample taking 30
    times as long as the others, 2 and 4 workers made 16 % more batches this way. A worker_init_fn
    is a sign that workers differ, in random numbers of their own for instance: then they take
    turns, so that two runs are the same.

    Args:
        dataset, collate_fn, single, seed: As for CallMaker.
        workers: Number of processes.
        ahead_per_worker: Batches that are asked for ahead, for each of them.
        worker_init_fn, multiprocessing_context: As for torch's DataLoader.
    """

    finished = True
    beyond_the_epoch = True

    def __init__(
        self,
        dataset: Any,
        collate_fn: Callable[[Any], Any] | None,
        single: bool,
        seed: int,
        workers: int,
        ahead_per_worker: int = 2,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
    ) -> None:
        self._workers = workers
        self._submitted = 0
        self._woken = False
        self._dataset = dataset
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        # The batch that is taken is one of these: the others are made while the loop uses it.
        self.ahead = workers * ahead_per_worker + 1
        self._crew = Crew(
            CallJob(Calls(dataset, collate_fn, single, seed)),
            workers,
            seed,
            worker_init_fn,
            multiprocessing_context,
            needs_torch(collate_fn),
            apart=worker_init_fn is not None,
        )

    @property
    def fingerprint(self) -> str:
        """Of what is known without reading samples."""
        return fingerprint_of(self._dataset, len(self._dataset))

    def set_init_fn(self, init_fn: Callable[[int], Any] | None) -> None:
        """Another worker_init_fn."""
        self._crew.set_init_fn(init_fn, apart=init_fn is not None)

    def submit(self, wanted: Wanted) -> int:
        """Begin to make a batch."""
        worker, self._submitted = self._submitted % self._workers, self._submitted + 1
        return self._crew.ask(task_of(wanted), worker)

    def take(self, ticket: int, seconds: float | None) -> Any:
        """The batch, over the memory it was made in."""
        try:
            return self._crew.take(ticket, seconds)
        finally:
            self.seconds = self._crew.seconds
            self.cpu_seconds = self._crew.cpu_seconds

    def drop(self, ticket: int) -> None:
        """It is not made if that has not begun."""
        self._crew.drop(ticket)

    def renew(self) -> None:
        """New processes, which have the data set as it is now. What was asked for is gone."""
        self._crew = self._crew.renewed()
        self._submitted = 0
        if self._woken:  # meanwhile
            self._crew.wake()

    def wake(self) -> None:
        """Whoever waits for a batch gives up."""
        self._woken = True
        self._crew.wake()

    def close(self) -> None:
        """End the processes. Batches that were given stay."""
        self._crew.close()
