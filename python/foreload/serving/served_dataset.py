# SPDX-License-Identifier: Apache-2.0
"""foreload.open_dataset: a map-style data set whose samples come out of the caches.

The process that opens it has the engine, the caches and a server (server.py). Whoever uses the
data set, this process or a worker process of torch's DataLoader, forked or spawned, asks there for
bytes and makes the samples itself.
"""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from foreload import _core
from foreload._arguments import whole
from foreload._keywords import takes_settings
from foreload._settings import StorageSettings
from foreload.cluster.ranks import Ranks, find_ranks
from foreload.data.parts import split
from foreload.data.samples import samples_of
from foreload.engine.cache import Cache
from foreload.engine.opening import engine_settings, open_engine
from foreload.loader.transform_choice import choose_transform
from foreload.python_transforms.one_sample import OneSample
from foreload.python_transforms.sample_maker import SampleMaker, Task
from foreload.serving.server import Connection, Server

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ServedDataset:
    """What `open_dataset` gives: `dataset[i]` is a sample, as the data set itself would give it.

    It can be used in several threads, in forked processes and, since it can be pickled, in spawned
    ones, for as long as the process lives that opened it.
    """

    def __init__(
        self,
        server: Server,
        one: OneSample,
        targets: Sequence[Any] | None,
        several_parts: bool,
    ) -> None:
        self._server: Server | None = server
        self._address = server.address
        self._count = server.core.samples
        self.classes = [os.fsdecode(name) for name in server.core.classes]
        self._one = one
        self._targets = targets
        self._several_parts = several_parts
        self._own = Connection(self._address)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: SupportsIndex) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[SupportsIndex]) -> list[Any]:
        """Several samples at once; torch's DataLoader asks for a whole batch this way."""
        if len(indices) == 0:
            return []
        numbers = [self._number(index) for index in indices]
        head, whole = self._own.ask(numbers)
        data: Sequence[Any] = [*map(split, whole, head["sizes"])] if self._several_parts else whole
        return [
            self._one(Task(view, name, number, self._label(number, label), self._one.key(number)))
            for view, name, number, label in zip(
                data, head["names"], numbers, head["labels"], strict=True
            )
        ]

    def expect(self, indices: Iterable[SupportsIndex]) -> None:
        """Say which samples will be asked for, in order, so that they are read ahead. It takes a
        list, or a sampler that gives the same list twice. Call it before each epoch, in the
        process that opened the data set; the last call counts."""
        self._own_server().expect([self._number(index) for index in indices])

    def _number(self, index: SupportsIndex) -> int:
        number = whole("index", index, -(2**63))
        if not -self._count <= number < self._count:
            raise IndexError(
                f"index {number:,} is out of range: the data set has {self._count:,} samples"
            )
        return number % self._count

    def _own_server(self) -> Server:
        if self._server is None or os.getpid() != self._server.process:
            raise RuntimeError(
                "expect() and stats() do not work in worker processes: call them in the process "
                "that opened the data set"
            )
        return self._server

    def _label(self, number: int, label: int) -> Any:
        if self._targets is None:
            return label
        found = self._targets[number]
        return int(found) if isinstance(found, np.integer) else found

    def stats(self) -> dict[str, Any]:
        """Where bytes came from, over the whole run. For the process that opened the data set."""
        core = self._own_server().core
        found: dict[str, Any] = json.loads(core.stats_json())
        found |= json.loads(core.start_json())
        return found

    def close(self) -> None:
        """End the engine. After that no process can read samples from it."""
        if self._server is not None:
            self._server.close()

    def __getstate__(self) -> dict[str, Any]:
        # Another process has the address, neither the server nor an open connection.
        return {key: value for key, value in vars(self).items() if key not in ("_server", "_own")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._server = None
        self._own = Connection(self._address)

    def __repr__(self) -> str:
        return f"<foreload dataset: {self._count:,} samples, served by the caches>"


@takes_settings(StorageSettings)
def open_dataset(
    dataset: Any,
    transform: Any = None,
    target_transform: Callable[[Any], Any] | None = None,
    *,
    image_type: str | None = None,
    cache: Cache | None = None,
    **settings: Unpack[StorageSettings],
) -> ServedDataset:
    """A map-style data set for torch's own DataLoader, whose samples come out of the caches.

    Worker processes, forked or spawned, are served by the caches of this process, all at once.
    foreload does not see the order that torch's DataLoader will ask in; `expect()` of what this
    gives tells it, and then samples are read ahead.

    Args:
        dataset, transform, target_transform, image_type: As for `foreload.DataLoader`. A random
            transform takes its random numbers from torch's global state, as torchvision's do.
        memory, disk, per_rank, cache: Where samples are kept, as for `foreload.DataLoader`.
        index, revalidate, extensions, deadline, profile: As for `foreload.Reader`.
    """
    samples = samples_of(dataset)
    if samples.blobs is not None or samples.makes_itself:
        raise TypeError(
            f"open_dataset cannot keep the samples of {type(dataset).__name__}, because it makes "
            "them itself: give torch's DataLoader that data set as it is, or give it "
            "locate(index), which gives a path, and decode(bytes, index)"
        )
    if target_transform is not None:
        samples.target_transform = target_transform
    chosen = choose_transform(samples, transform, image_type)
    # Each rank serves its own workers; the budgets of the machine are for all ranks on it, and so
    # are the folders of its disk caches.
    found = find_ranks()
    ranks = Ranks(0, 1, found.local, found.found, found.local_rank)
    opened = engine_settings(samples, ranks, cache, settings)
    opened.set(batch_size=1, order=_core.OrderSettings("torch").as_given())
    server = Server(open_engine(opened, ranks, cache, joins=False))
    served = ServedDataset(
        server,
        OneSample(
            chosen.chain,
            SampleMaker(samples, chosen.function, chosen.unchanged) if chosen.python else None,
            samples.target_transform,
        ),
        samples.targets,
        bool(samples.parts),
    )
    weakref.finalize(served, server.close)
    return served
