# SPDX-License-Identifier: Apache-2.0
"""`loader.dataset` of a folder: what torchvision's ImageFolder has, from the index of C++."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, SupportsIndex

from foreload import _core
from foreload._arguments import whole
from foreload._torch_base import DatasetBase
from foreload.data.parts import Part
from foreload.python_transforms.one_sample import OneSample
from foreload.python_transforms.sample_maker import Task


class FolderDataset(DatasetBase):  # type: ignore[misc]
    """A map-style data set: `len`, `classes`, `targets`, and samples by their numbers.

    A sample is what the loader would make of it; random transforms draw from torch's global state.
    Its bytes are read as the index says, from whatever store, also where it was sent to another
    process. It is also a path, the one that the loader was given. A loader of a part of it (torch's
    Subset) reads files as that of the whole does.
    """

    foreload_samples = True
    as_stored = True  # without a transform, a sample is the bytes of its file

    def __init__(
        self,
        path: str,
        store: str,
        index: _core.Index,
        one: OneSample,
        transform: Any,
        target_transform: Callable[[Any], Any] | None,
        image_type: str | None,
    ) -> None:
        self.root = path
        self.transform = transform
        self.target_transform = target_transform
        self.image_type = image_type
        self._store = store  # that objects are in
        self._index = index
        self._one = one
        self.classes = list(index.classes)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

    @functools.cached_property
    def targets(self) -> list[int]:
        """Class of each sample."""
        labels: list[int] = self._index.labels.tolist()
        return labels

    @functools.cached_property
    def samples(self) -> list[tuple[str, int]]:
        """Path and class of each sample; in an archive, as if that were a folder."""
        if not self._index.plain:
            return [self._path_and_class(number) for number in range(len(self))]
        paths = [os.path.join(self._store, name) for name in self._index.names]
        return list(zip(paths, self.targets, strict=True))

    def _path_and_class(self, number: int) -> tuple[str, int]:
        name, label, parts = self._index.sample(number)
        holder = parts[0][0]
        return os.path.join(self._store, *((name,) if name == holder else (holder, name))), label

    @property
    def foreload_parts(self) -> Callable[[int], tuple[Part, ...]] | None:
        """Gives where a sample lies in the files of its store; None: each is a file of its own."""
        return None if self._index.plain else self._parts_of

    def _parts_of(self, number: int) -> tuple[Part, ...]:
        _, _, parts = self._index.sample(number)
        return tuple(
            Part(os.path.join(self._store, holder), first, length)
            for holder, first, length in parts
        )

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, index: SupportsIndex) -> Any:
        number = whole("index", index, -(2**63))
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number:,} is outside 0 .. {len(self) - 1:,}")
        number %= len(self)
        path, label = self._path_and_class(number)
        data = self._index.read(number, self._store)
        return self._one(Task(data, path, number, label, self._one.key(number)))

    def __getstate__(self) -> dict[str, Any]:
        # The index says what the lists say, in less room.
        return {
            key: value for key, value in vars(self).items() if key not in ("targets", "samples")
        }

    def __fspath__(self) -> str:
        return self.root

    def __repr__(self) -> str:
        return f"<foreload folder {self.root}: {len(self):,} samples>"
