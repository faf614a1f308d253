# SPDX-License-Identifier: Apache-2.0
"""What can be a data set, and how its samples are found and made.

A folder is listed by C++. Of an object with `.samples` the paths are taken. An object with
`locate` and `decode` says itself where a sample is and how it is made. Subset and ConcatDataset of
the latter two are taken apart.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foreload._arguments import path_of

WAYS = (
    "give a folder; an object with .samples, a list of (path, class) as torchvision's ImageFolder "
    "has; one with locate(index), which gives a path or bytes, and decode(bytes, index); or a "
    "Subset or ConcatDataset of these"
)


@dataclass
class Samples:
    """A data set as the loader needs it."""

    dataset: Any  # what the user gave
    folder: str | None = None
    files: list[str] | None = None
    blobs: Callable[[int], bytes] | None = None  # where samples are in memory
    count: int | None = None  # None: the listing will tell
    targets: Sequence[Any] | None = None  # class of each sample; None: the listing's labels
    decode: Callable[[bytes, int], Any] | None = None  # makes the whole sample
    transform: Any = None
    target_transform: Any = None
    loader: Any = None  # of the user's own; None: images


def _is_pair(entry: Any) -> bool:
    return (
        isinstance(entry, tuple | list)
        and len(entry) == 2
        and isinstance(entry[0], str | os.PathLike)
    )


def _own_definitions(dataset: Any, name: str) -> list[type]:
    """Classes that define a method, the most derived first; torch's abstract ones do not count."""
    return [
        cls
        for cls in type(dataset).__mro__
        if name in vars(cls) and cls.__module__.partition(".")[0] not in ("torch", "typing")
    ]


def _refuse_override(dataset: Any) -> None:
    definitions = _own_definitions(dataset, "__getitem__")
    if len(definitions) > 1:
        raise TypeError(
            f"{type(dataset).__name__} has .samples, but {definitions[0].__qualname__} overrides "
            f"__getitem__ of {definitions[1].__qualname__}, which foreload would bypass: put what "
            "it does into transform=, collate_fn= or batch_transform=, or implement "
            "locate(index) and decode(bytes, index)"
        )


def _own_loader(dataset: Any) -> Any:
    """The loader of the data set, None where it is torchvision's usual one for images."""
    loader = getattr(dataset, "loader", None)
    usual = getattr(loader, "__name__", "") in ("default_loader", "pil_loader")
    return None if loader is None or usual else loader


def _leaves(dataset: Any) -> list[tuple[Any, int]]:
    """The data set and number that each sample really has, through Subset and ConcatDataset."""
    kind = type(dataset).__name__
    if hasattr(dataset, "indices") and hasattr(dataset, "dataset"):
        _refuse_wrapper(dataset, "Subset")
        inner = _leaves(dataset.dataset)
        return [inner[int(index)] for index in dataset.indices]
    if hasattr(dataset, "datasets") and hasattr(dataset, "cumulative_sizes"):
        _refuse_wrapper(dataset, "ConcatDataset")
        return [leaf for part in dataset.datasets for leaf in _leaves(part)]
    if not _is_leaf(dataset):
        raise TypeError(
            f"foreload cannot see where the samples of a {kind} are{_about(dataset)}: {WAYS}; for "
            "everything else keep torch's DataLoader"
        )
    return [(dataset, index) for index in range(_length(dataset))]


def _about(dataset: Any) -> str:
    """What is known about data sets that others have."""
    names = {cls.__name__ for cls in type(dataset).__mro__}
    if "IterableDataset" in names:
        return ", because a stream has no samples with numbers"
    if hasattr(dataset, "features") and hasattr(dataset, "column_names"):
        return ", because they lie in Arrow files, which foreload does not read yet"
    if isinstance(dataset, dict | list | tuple) or hasattr(dataset, "__array__"):
        return ", because what is in memory already needs no loader that reads files"
    if hasattr(dataset, "tensors"):
        return ", because tensors that are in memory need no loader that reads files"
    return ""


def _refuse_wrapper(dataset: Any, name: str) -> None:
    if len(_own_definitions(dataset, "__getitem__")) > 0 and type(dataset).__name__ != name:
        raise TypeError(
            f"{type(dataset).__name__} overrides __getitem__ of {name}, which foreload would "
            f"bypass: {WAYS}"
        )


def _is_leaf(dataset: Any) -> bool:
    if callable(getattr(dataset, "locate", None)) and callable(getattr(dataset, "decode", None)):
        return True
    samples = getattr(dataset, "samples", None)
    return isinstance(samples, Sequence) and not isinstance(samples, str) and all_pairs(samples)


def all_pairs(samples: Sequence[Any]) -> bool:
    """Whether the first and the last entry are (path, class)."""
    return len(samples) > 0 and _is_pair(samples[0]) and _is_pair(samples[-1])


def _length(dataset: Any) -> int:
    if callable(getattr(dataset, "locate", None)):
        return len(dataset)
    return len(dataset.samples)


class LeafDecoder:
    """decode() of the data set that a sample is of. It can be sent to another process."""

    def __init__(self, leaves: list[tuple[Any, int]]) -> None:
        whole = all(leaf is leaves[0][0] and n == i for i, (leaf, n) in enumerate(leaves))
        self._whole = leaves[0][0] if whole else None  # one data set as it is needs no table
        self._leaves = [] if whole else leaves

    def __call__(self, data: bytes, index: int) -> Any:
        leaf, number = (self._whole, index) if self._whole is not None else self._leaves[index]
        return leaf.decode(data, number)


def _located(dataset: Any, leaves: list[tuple[Any, int]]) -> Samples:
    """A data set that says itself where samples are."""

    def blob(index: int) -> bytes:
        leaf, number = leaves[index]
        found = leaf.locate(number)
        if not isinstance(found, bytes | bytearray | memoryview):
            raise TypeError(
                f"locate({number}) gave {type(found).__name__}, but locate({leaves[0][1]}) gave "
                "bytes: give a path for every sample, or bytes for every sample"
            )
        return bytes(found)

    samples = Samples(dataset, count=len(leaves), decode=LeafDecoder(leaves))
    first = leaves[0][0].locate(leaves[0][1])
    if isinstance(first, bytes | bytearray | memoryview):
        samples.blobs = blob
        return samples
    files = []
    for leaf, number in leaves:
        found = leaf.locate(number)
        if not isinstance(found, str | os.PathLike):
            raise TypeError(
                f"locate({number}) of {type(leaf).__name__} gave {type(found).__name__}: "
                "give a path for every sample, or bytes for every sample"
            )
        files.append(os.fspath(found))
    samples.files = files
    return samples


def _same(leaves: list[tuple[Any, int]], name: str) -> Any:
    """What all data sets of a ConcatDataset have in common."""
    parts = list({id(leaf): leaf for leaf, _ in leaves}.values())
    first = getattr(parts[0], name, None)
    for part in parts[1:]:
        if getattr(part, name, None) != first:
            raise ValueError(
                f"the data sets that are joined have different .{name}: give the DataLoader one "
                "transform= for all, or use one loader for each"
            )
    return first


def samples_of(dataset: Any) -> Samples:
    """Find out what kind of data set this is. TypeError names the ways that there are."""
    if isinstance(dataset, str | os.PathLike):
        return Samples(dataset, folder=path_of(dataset))
    leaves = _leaves(dataset)
    if not leaves:
        raise ValueError("the data set has no samples: give at least one")
    kinds = {callable(getattr(leaf, "locate", None)) for leaf, _ in leaves}
    if len(kinds) > 1:
        raise TypeError(f"data sets with locate() and with .samples cannot be joined: {WAYS}")
    if kinds == {True}:
        return _located(dataset, leaves)
    for leaf in {id(leaf): leaf for leaf, _ in leaves}.values():
        _refuse_override(leaf)
    pairs = [leaf.samples[index] for leaf, index in leaves]
    targets: Sequence[Any] = [target for _, target in pairs]
    if all(type(target) is int for target in targets):
        targets = np.asarray(targets, dtype=np.int64)  # type: ignore[assignment]
    loaders = _same(leaves, "loader")
    return Samples(
        dataset,
        files=[os.fspath(path) for path, _ in pairs],
        count=len(pairs),
        targets=targets,
        transform=_same(leaves, "transform"),
        target_transform=_same(leaves, "target_transform"),
        loader=None if loaders is None else _own_loader(leaves[0][0]),
    )
