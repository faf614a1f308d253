# SPDX-License-Identifier: Apache-2.0
"""`loader.dataset` of a folder: what torchvision's ImageFolder has, from the listing of C++."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, SupportsIndex

from foreload import _core
from foreload._arguments import whole
from foreload._torch_base import DatasetBase
from foreload.python_transforms.one_sample import OneSample
from foreload.python_transforms.sample_maker import Task


class FolderDataset(DatasetBase):  # type: ignore[misc]
    """A map-style data set: `len`, `classes`, `targets`, and samples by their numbers.

    A sample is what the loader would make of it; random transforms draw from torch's global state.
    It is also a path, the one that the loader was given. A loader of a part of it (torch's Subset)
    reads files as that of the whole does.
    """

    foreload_samples = True
    as_stored = True  # without a transform, a sample is the bytes of its file

    def __init__(
        self,
        path: str,
        root: str,
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
        self._folder = root  # that names are relative to
        self._index: Any = index  # a copy in another process has the names instead
        self._one = one
        self.classes = list(index.classes)
        self.class_to_idx = {name: number for number, name in enumerate(self.classes)}

    @functools.cached_property
    def targets(self) -> list[int]:
        """Class of each sample."""
        labels: list[int] = self._index.labels.tolist()
        return labels

    @functools.cached_property
    def _names(self) -> list[str]:
        return list(self._index.names)

    @functools.cached_property
    def samples(self) -> list[tuple[str, int]]:
        """Path and class of each sample."""
        return [
            (os.path.join(self._folder, name), label)
            for name, label in zip(self._names, self.targets, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, index: SupportsIndex) -> Any:
        number = whole("index", index, -(2**63))
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number:,} is outside 0 .. {len(self) - 1:,}")
        number %= len(self)
        path = os.path.join(self._folder, self._names[number])
        data = Path(path).read_bytes()
        return self._one(Task(data, path, number, self.targets[number], self._one.key(number)))

    def __getstate__(self) -> dict[str, Any]:
        state = {"targets": self.targets, "_names": self._names} | vars(self)
        del state["_index"]
        state.pop("samples", None)  # the names say it
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._index = self._names

    def __fspath__(self) -> str:
        return self.root

    def __repr__(self) -> str:
        return f"<foreload folder {self.root}: {len(self):,} samples>"
