# SPDX-License-Identifier: Apache-2.0
"""What can be a data set, and how its samples are found and made.

Nothing that a user wrote is bypassed. foreload reads files itself where it is known what the data
set does with them:

- a folder, or a list of files, which C++ lists;
- what `loader.dataset` of a folder is;
- torchvision's ImageFolder and DatasetFolder with `__getitem__` and loader of their own, classes
  that say `foreload_samples = True`, and those with `.samples` and no `__getitem__` at all;
- an object with `locate` and `decode`, which says where a sample is and how it is made;
- torch's Subset and ConcatDataset of these.

Of everything else with `__getitem__` that is called, in worker processes; an IterableDataset is a
stream. Rows in memory (`rows.py`) are known too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from foreload._arguments import path_of
from foreload._packages import class_of
from foreload.data.parts import (
    Files,
    Part,
    Range,
    entries_of,
    filled,
    is_file,
    is_several,
    names_of,
)

WAYS = (
    "give a folder, an object with __getitem__ and __len__, an IterableDataset, rows in memory, or "
    "an object with locate(index), which gives a path or bytes, and decode(bytes, index)"
)

# What a class says whose .samples are all that its __getitem__ reads, and its .loader, .transform
# and .target_transform all that it does.
DECLARATION = "foreload_samples"
# What gives the Parts of a sample by its number, where its path does not say where it is.
PLACES = "foreload_parts"


@dataclass
class Samples:
    """A data set as the loader needs it."""

    dataset: Any  # what the user gave
    folder: str | None = None
    files: list[str] | None = None
    ranges: list[list[Range]] = field(default_factory=list)  # of files; empty: each is a sample
    parts: dict[Any, bool] = field(default_factory=dict)  # names of several; whether it is a file
    part_names: list[str] = field(default_factory=list)  # of ranges, if all samples have the same
    keyed: bool = False  # parts are those of a dict
    blobs: Callable[[int], bytes] | None = None  # where samples are in memory
    called: bool = False  # its own __getitem__ makes the samples
    stream: bool = False  # its own __iter__ does
    count: int | None = None  # None: the listing will tell
    targets: Sequence[Any] | None = None  # class of each sample; None: the listing's labels
    decode: Callable[[Any, int], Any] | None = None  # makes the whole sample
    transform: Any = None
    target_transform: Any = None
    loader: Any = None  # of the user's own; None: images
    as_stored: bool = False  # without a transform: bytes, no images
    image_type: str | None = None  # of the data set's own transform

    @property
    def makes_itself(self) -> bool:
        """Whether the data set gives finished samples, and foreload does nothing to them."""
        return self.called or self.stream

    def check_count(self) -> None:
        """RuntimeError if a data set that is called has another length than it had."""
        if self.called and _length(self.dataset) != self.count:
            raise RuntimeError(
                f"{type(self.dataset).__name__} has {_length(self.dataset):,} samples, and had "
                f"{self.count:,} when the DataLoader was made: make a new DataLoader"
            )


def _is_own(dataset: Any, cls: Any) -> bool:
    """Whether a data set is of this class and gets its samples as that does."""
    return (
        cls is not None
        and isinstance(dataset, cls)
        and all(
            getattr(type(dataset), name, None) is getattr(cls, name, None)
            for name in ("__getitem__", "__getitems__", "__len__", "__getattribute__")
        )
    )


# What torchvision's folder reads in its __getitem__.
_ATTRIBUTES = ("samples", "loader", "transform", "target_transform")


def _is_computed(dataset: Any, name: str) -> bool:
    """Whether asking for an attribute runs code of the user's."""
    return hasattr(getattr(type(dataset), name, None), "__get__")


def _is_pair(entry: Any) -> bool:
    return (
        isinstance(entry, tuple | list)
        and len(entry) == 2
        and isinstance(entry[0], str | os.PathLike)
    )


def _is_torchvision_folder(dataset: Any) -> bool:
    """Whether it is torchvision's folder of images, which foreload reads as that does."""
    folder: Any = sys.modules.get("torchvision.datasets.folder")
    torchvision: Any = sys.modules.get("torchvision")
    return (
        folder is not None
        and _is_own(dataset, folder.DatasetFolder)
        and not any(_is_computed(dataset, name) for name in _ATTRIBUTES)
        and any(dataset.loader is one for one in (folder.default_loader, folder.pil_loader))
        and torchvision.get_image_backend() == "PIL"
    )


def _gets_items(dataset: Any, *instead: str) -> bool:
    """Whether somebody wrote a __getitem__ for it; torch's abstract one does not count, nor that
    of an ancestor of the class that says one of these instead."""
    if any(name in getattr(dataset, "__dict__", ()) for name in instead):
        return False
    for cls in type(dataset).__mro__:
        if any(name in vars(cls) for name in instead):
            return False
        own = cls.__module__.partition(".")[0] not in ("torch", "typing")
        if own and any(name in vars(cls) for name in ("__getitem__", "__getitems__")):
            return True
    return False


def _has_samples(dataset: Any) -> bool:
    """Whether all that is to be known of it is in `.samples`."""
    if _is_torchvision_folder(dataset):
        return True
    declared = getattr(type(dataset), DECLARATION, False) is True
    if _gets_items(dataset, *((DECLARATION,) if declared else ())):
        return False
    samples = getattr(dataset, "samples", None)
    fits = (
        isinstance(samples, Sequence)
        and not isinstance(samples, str)
        and len(samples) > 0
        and _is_pair(samples[0])
        and _is_pair(samples[-1])
    )
    if declared and not fits:
        raise TypeError(
            f"{type(dataset).__name__} says {DECLARATION} = True, but its .samples is no list of "
            "(path, class): make it one, or take the declaration away"
        )
    return fits


def _locates(dataset: Any) -> bool:
    """Whether it says itself where samples are. What it is made of then, decode() says, or a
    transform for each part."""
    if not callable(getattr(dataset, "locate", None)):
        return False
    decodes = callable(getattr(dataset, "decode", None))
    return not _gets_items(dataset, *(("locate", "decode") if decodes else ()))


def _leaves(dataset: Any) -> list[tuple[Any, int]] | None:
    """The data set and number that each sample really has, through Subset and ConcatDataset; None
    if foreload cannot read one of them itself."""
    if _is_own(dataset, class_of("Subset", "torch.utils.data")):
        inner = _leaves(dataset.dataset)
        return None if inner is None else _chosen(dataset, inner)
    if _is_own(dataset, class_of("ConcatDataset", "torch.utils.data")):
        parts = [_leaves(part) for part in dataset.datasets]
        if any(part is None for part in parts):
            return None
        return [leaf for part in parts for leaf in part or []]
    if _locates(dataset):
        return [(dataset, index) for index in range(len(dataset))]
    if _has_samples(dataset):
        return [(dataset, index) for index in range(len(dataset.samples))]
    return None


def _chosen(subset: Any, inner: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """The samples of a Subset."""
    numbers = [int(index) for index in subset.indices]
    for number in numbers:
        if not -len(inner) <= number < len(inner):
            raise IndexError(
                f"{type(subset).__name__} has the index {number:,}, but its data set has "
                f"{len(inner):,} samples: give indices of these"
            )
    return [inner[number] for number in numbers]


class LeafDecoder:
    """decode() of the data set that a sample is of. It can be sent to another process."""

    def __init__(self, leaves: list[tuple[Any, int]]) -> None:
        whole = all(leaf is leaves[0][0] and n == i for i, (leaf, n) in enumerate(leaves))
        self._whole = leaves[0][0] if whole else None  # one data set as it is needs no table
        self._leaves = [] if whole else leaves

    @property
    def decodes(self) -> bool:
        """Whether a data set makes its samples itself."""
        leaves = [self._whole] if self._whole is not None else [leaf for leaf, _ in self._leaves]
        return any(getattr(leaf, "decode", None) is not None for leaf in leaves)

    def _leaf(self, index: int) -> tuple[Any, int]:
        return (self._whole, index) if self._whole is not None else self._leaves[index]

    def files(self, index: int) -> dict[Any, str]:
        """The file of each part of a sample."""
        leaf, number = self._leaf(index)
        return {
            name: os.fspath(entry.path if isinstance(entry, Part) else entry)
            for name, entry in entries_of(leaf.locate(number))
            if is_file(entry)
        }

    def others(self, index: int) -> dict[Any, Any]:
        """The entries of a sample that are no files."""
        leaf, number = self._leaf(index)
        entries = entries_of(leaf.locate(number))
        return {name: entry for name, entry in entries if not is_file(entry)}

    def __call__(self, data: Any, index: int) -> Any:
        """`data`: the bytes of the sample, or those of each of its files."""
        leaf, number = self._leaf(index)
        if isinstance(data, tuple):
            data = filled(leaf.locate(number), data)
        decode = getattr(leaf, "decode", None)
        return data if decode is None else decode(data, number)


def _located(dataset: Any, leaves: list[tuple[Any, int]]) -> Samples:
    """A data set that says itself where samples are."""
    samples = Samples(dataset, count=len(leaves), decode=LeafDecoder(leaves))
    first = leaves[0][0].locate(leaves[0][1])
    if isinstance(first, bytes | bytearray | memoryview):
        samples.blobs = _blobs_of(leaves)
        return samples
    if is_several(first):
        files = Files()
        for leaf, number in leaves:
            who = f"locate({number}) of {type(leaf).__name__}"
            found = leaf.locate(number)
            if not is_several(found):
                raise TypeError(f"{who} gave {type(found).__name__}: give parts for every sample")
            files.add(found, who)
        samples.files, samples.ranges = files.paths, files.ranges
        samples.parts = {name: is_file(entry) for name, entry in entries_of(first)}
        samples.keyed = isinstance(first, Mapping)
        if files.alike and not isinstance(first, Part):
            samples.part_names = names_of(samples.parts)
        return samples
    samples.files = [_path_of_sample(leaf, number) for leaf, number in leaves]
    return samples


def _path_of_sample(leaf: Any, number: int) -> str:
    found = leaf.locate(number)
    if not isinstance(found, str | os.PathLike):
        raise TypeError(
            f"locate({number}) of {type(leaf).__name__} gave {type(found).__name__}: give a path "
            "for every sample, or bytes for every sample, or parts for every sample"
        )
    return os.fspath(found)


def _blobs_of(leaves: list[tuple[Any, int]]) -> Callable[[int], bytes]:
    def blob(index: int) -> bytes:
        leaf, number = leaves[index]
        found = leaf.locate(number)
        if not isinstance(found, bytes | bytearray | memoryview):
            raise TypeError(
                f"locate({number}) of {type(leaf).__name__} gave {type(found).__name__}, but "
                f"locate({leaves[0][1]}) gave bytes: give a path for every sample, or bytes for "
                "every sample"
            )
        return bytes(found)

    return blob


def _listed(dataset: Any, leaves: list[tuple[Any, int]]) -> Samples | None:
    """Data sets with `.samples`; None if what they do with them differs."""
    parts = list({id(leaf): leaf for leaf, _ in leaves}.values())
    for name in ("transform", "target_transform", "loader", "as_stored", "image_type"):
        first = getattr(parts[0], name, None)
        if any(getattr(part, name, None) is not first for part in parts[1:]):
            return None
    pairs = [leaf.samples[index] for leaf, index in leaves]
    files = [os.fspath(path) for path, _ in pairs]
    ranges: list[list[Range]] = []
    if any(getattr(part, PLACES, None) is not None for part in parts):
        files, ranges = _ranges_of(leaves)
    targets: Sequence[Any] = [target for _, target in pairs]
    if all(type(target) is int for target in targets):
        targets = np.asarray(targets, dtype=np.int64)  # type: ignore[assignment]
    return Samples(
        dataset,
        files=files,
        ranges=ranges,
        count=len(pairs),
        targets=targets,
        transform=getattr(parts[0], "transform", None),
        target_transform=getattr(parts[0], "target_transform", None),
        loader=None if _is_torchvision_folder(parts[0]) else getattr(parts[0], "loader", None),
        as_stored=getattr(parts[0], "as_stored", False) is True,
        image_type=getattr(parts[0], "image_type", None),
    )


def _ranges_of(leaves: list[tuple[Any, int]]) -> tuple[list[str], list[list[Range]]]:
    """The files that samples lie in, and where."""
    files = Files()
    for leaf, index in leaves:
        place = getattr(leaf, PLACES, None)
        files.add(Part(leaf.samples[index][0]) if place is None else place(index), "the data set")
    return files.paths, files.ranges


def _read_by_foreload(dataset: Any) -> Samples | None:
    leaves = _leaves(dataset)
    if leaves is None:
        return None
    if not leaves:
        raise ValueError(f"{type(dataset).__name__} has no samples: give a data set that has some")
    kinds = {_locates(leaf) for leaf, _ in leaves}
    if kinds == {True}:
        return _located(dataset, leaves)
    return _listed(dataset, leaves) if kinds == {False} else None


def _length(dataset: Any) -> int | None:
    """Samples of a data set that is called; None if it does not say."""
    if type(dataset) is dict:
        from foreload.data.rows import with_rows

        return len(with_rows(dataset))
    return len(dataset) if hasattr(type(dataset), "__len__") else None


def samples_of(dataset: Any) -> Samples:
    """Find out what kind of data set this is. TypeError names the ways that there are."""
    if isinstance(dataset, str | os.PathLike):
        return Samples(dataset, folder=path_of(dataset), as_stored=True)
    pipes = tuple(class_of(f"{kind}DataPipe", "torch.utils.data") for kind in ("Iter", "Map"))
    if isinstance(dataset, tuple(pipe for pipe in pipes if pipe is not None)):
        raise TypeError(
            f"{type(dataset).__name__} is a DataPipe, which torch's DataLoader shuffles and shards "
            "in a way of its own: give a Dataset or an IterableDataset"
        )
    stream = class_of("IterableDataset", "torch.utils.data")
    if stream is not None and isinstance(dataset, stream):
        return Samples(dataset, stream=True)
    found = _read_by_foreload(dataset)
    if found is not None:
        return found
    if hasattr(type(dataset), "__getitem__"):
        return Samples(dataset, called=True, count=_length(dataset))
    if hasattr(type(dataset), "__iter__"):
        return Samples(dataset, stream=True)
    raise TypeError(f"foreload cannot read samples of a {type(dataset).__name__}: {WAYS}")
