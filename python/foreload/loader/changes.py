# SPDX-License-Identifier: Apache-2.0
"""Whether what a loader was made from is still what it was.

Where foreload reads a data set itself, it looks at the Python objects once, when the loader is
made. torch's DataLoader looks at them again in each iteration. So foreload compares when an
iteration begins, and refuses what was changed: it never gives old data in silence. Worker processes
that have a copy of what was changed are replaced, which is what torch's DataLoader does each time.

Lists are compared entry by entry. As most entries are the same objects, a list of a million takes
a few milliseconds.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from enum import Enum
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from foreload._packages import class_of, is_exactly
from foreload.data.parts import Part, entries_of, is_file, is_several
from foreload.data.row_columns import address_of, copied_by_bytes, is_array, is_tensor

# Objects that are looked into at most, of one transform or data set; what is beyond is compared by
# identity. The same goes for entries of a list that has more.
MOST_OBJECTS = 4096
# Numbers of a tensor or an array inside of these whose values are compared. Of larger arrays some
# are, few enough if the array is mapped from a file. torch counts what is done to its tensors.
MOST_NUMBERS = 4096
SOME_NUMBERS = 64
# Samples of a data set that is asked again where they are, when an iteration begins.
MOST_LOCATED = 256

_OPAQUE = (type, FunctionType, BuiltinFunctionType, ModuleType)


class Is:
    """An object that equals itself alone. A method is another object each time it is asked for."""

    __slots__ = ("_it",)

    def __init__(self, it: Any) -> None:
        self._it = it

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Is):
            return False
        method = isinstance(self._it, MethodType)
        return self._it is other._it or (method and bool(self._it == other._it))

    __hash__ = None  # type: ignore[assignment]


class _Unknown:
    """What might be anything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class Changes:
    """What is to stay as it was."""

    def __init__(self) -> None:
        self._watched: list[tuple[str, Callable[[], Any], Any]] = []

    def watch(self, what: str, look: Callable[[], Any]) -> None:
        """`look` gives something that can be compared; a list may be the data set's own."""
        before = look()
        self._watched.append((what, look, list(before) if type(before) is list else before))

    def refuse(self) -> None:
        """RuntimeError if anything is not what it was."""
        for what, look, before in self._watched:
            if not _equal(before, look):
                raise RuntimeError(
                    f"{what} changed after the DataLoader was made: make a new DataLoader"
                )


class Copies:
    """What worker processes have copies of, which they get with the first batch of a loader."""

    def __init__(self, *originals: Any) -> None:
        self._originals = originals
        self._before: Any = None  # nobody has looked

    def outdated(self) -> bool:
        """Whether the originals have changed since this was asked first, or since renew()."""
        if self._before is None:
            self.renew()
            return False
        return not _equal(self._before, self._look)

    def renew(self) -> None:
        """There are new copies."""
        self._before = self._look()

    def _look(self) -> Any:
        try:
            return look_of(self._originals)
        except Exception:  # of a class that lets nobody look into it
            return "hidden"


def _equal(before: Any, look: Callable[[], Any]) -> bool:
    try:
        return bool(before == look())
    except Exception:  # it is gone, or of a kind that cannot be compared with what was there
        return False


def watch_dataset(
    changes: Changes, dataset: Any, translated: bool = False, copied: bool = False
) -> None:
    """Watch all that is known of a data set.

    Args:
        dataset: It.
        translated: Whether its transform was translated, otherwise it is called as it is.
        copied: Whether worker processes have a copy; memory may be moved then to be shared.
    """
    seen: set[int] = set()
    waiting = [dataset]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            waiting += _watch_one(changes, one, translated, copied)


def _watch_one(changes: Changes, dataset: Any, translated: bool, copied: bool) -> list[Any]:
    """Gives what is inside of it, to be watched too."""
    name = type(dataset).__name__
    place = Is if copied else _place
    if _is_a(dataset, "Subset"):
        changes.watch(f"the data set of {name}", lambda: Is(dataset.dataset))
        changes.watch(f"the indices of {name}", lambda: _values(dataset.indices))
        return [dataset.dataset]
    if _is_a(dataset, "ConcatDataset"):
        changes.watch(f"the data sets of {name}", lambda: [*map(Is, dataset.datasets)])
        return list(dataset.datasets)
    if is_exactly(dataset, "TensorDataset", "torch.utils.data"):
        changes.watch("the tensors of TensorDataset", lambda: [*map(place, dataset.tensors)])
    elif is_array(dataset) or is_tensor(dataset):
        changes.watch("the memory, shape or type of the data set", lambda: place(dataset))
    elif type(dataset) is dict:
        changes.watch(
            "the columns of the data set",
            lambda: [(key, place(column)) for key, column in dataset.items()],
        )
    elif type(dataset) in (list, tuple):
        changes.watch("the list", lambda: dataset if copied else [*map(_place, dataset)])
    elif is_exactly(dataset, "Dataset", "datasets.arrow_dataset"):
        changes.watch(
            "the data or the format of the Hugging Face Dataset",
            lambda: (Is(dataset._data), Is(dataset._indices), look_of(dataset.format)),
        )
    elif not copied:
        _watch_files(changes, dataset, translated)
    return []


def _watch_files(changes: Changes, dataset: Any, translated: bool) -> None:
    """A data set whose samples are files."""
    name = type(dataset).__name__
    if callable(getattr(dataset, "locate", None)):
        changes.watch(f"the length of {name}", lambda: len(dataset))
        changes.watch(f"what locate() of {name} gives", lambda: _places(dataset))
        return
    if translated:
        changes.watch(
            f"the transform of {name}", lambda: look_of(getattr(dataset, "transform", None))
        )
    for attribute in ("target_transform", "loader", *(() if translated else ("transform",))):
        changes.watch(f"the {attribute} of {name}", _attribute(dataset, attribute))
    changes.watch(f"the list of samples of {name}", _samples(dataset))


def _attribute(dataset: Any, name: str) -> Callable[[], Is]:
    return lambda: Is(getattr(dataset, name, None))


def _is_a(dataset: Any, name: str) -> bool:
    cls = class_of(name, "torch.utils.data")
    return cls is not None and isinstance(dataset, cls)


def _samples(dataset: Any) -> Callable[[], list[Any]]:
    """Gives the path and class of each sample. A pair that is a list can be changed in place."""
    if all(type(pair) is tuple for pair in dataset.samples):
        return lambda: dataset.samples
    return lambda: [tuple(pair) for pair in dataset.samples]


def _places(dataset: Any) -> list[Any]:
    """Where some samples are, evenly spread over all."""
    length = len(dataset)
    count = min(length, MOST_LOCATED)
    return [_files_of(dataset, number * length // count) for number in range(count)]


def _files_of(dataset: Any, number: int) -> Any:
    """The files of a sample. Other entries are asked for anew whenever the sample is made."""
    try:
        found = dataset.locate(number)
    except Exception:  # who makes the sample is told, if somebody does
        return _Unknown()
    if not is_several(found):
        return os.fspath(found) if is_file(found) else None
    return [
        (name, os.fspath(part.path), part.offset, part.length)
        for name, entry in entries_of(found)
        if is_file(entry)
        for part in (entry if isinstance(entry, Part) else Part(entry),)
    ]


def _values(numbers: Any) -> Any:
    """The numbers as they are now."""
    if isinstance(numbers, np.ndarray) or hasattr(numbers, "data_ptr"):
        array = np.asarray(numbers)
        return array.dtype.str, array.shape, array.tobytes()
    return numbers if type(numbers) in (list, tuple, range) else list(numbers)


def _place(column: Any) -> tuple[Any, ...]:
    """Where the rows of a column are. What they hold may change: it is read in each epoch."""
    if isinstance(column, np.ndarray):
        layout = (address_of(column), column.shape, column.strides, column.dtype)
        return Is(column), layout
    if hasattr(column, "data_ptr") and copied_by_bytes(column):
        layout = (address_of(column), column.shape, column.stride(), column.dtype)
        return Is(column), layout
    return Is(column), len(column)


def look_of(value: Any) -> Any:
    """All that can be changed inside of a transform or a data set, as something that can be
    compared."""
    return _Look().of(value)


class _Look:
    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}

    def of(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str | bytes | Enum | np.generic):
            return type(value), value
        if isinstance(value, os.PathLike):  # Python's own remember what they were asked
            return type(value), os.fspath(value)
        if id(value) in self._objects or len(self._objects) >= MOST_OBJECTS:
            return Is(value)
        self._objects[id(value)] = value
        if isinstance(value, dict):
            if len(value) > MOST_OBJECTS:
                return type(value), dict(value)
            return type(value), [(key, self.of(entry)) for key, entry in value.items()]
        if isinstance(value, list | tuple):
            if len(value) > MOST_OBJECTS:
                return type(value), list(value)
            return type(value), [self.of(entry) for entry in value]
        if isinstance(value, set | frozenset):
            return type(value), set(value)
        if isinstance(value, np.ndarray) or hasattr(type(value), "data_ptr"):
            return self._numbers(value)
        inside = None if isinstance(value, _OPAQUE) else _attributes(value)
        return Is(value) if inside is None else (type(value), self.of(inside))

    def _numbers(self, value: Any) -> Any:
        version = getattr(value, "_version", None)
        on_cpu = isinstance(value, np.ndarray) or copied_by_bytes(value)
        if on_cpu and np.prod(value.shape) <= MOST_NUMBERS:
            return _values(value)
        if isinstance(value, np.ndarray) and not isinstance(value, np.memmap):
            return Is(value), value.shape, value.flat[:: value.size // SOME_NUMBERS].tobytes()
        return Is(value), version


def _attributes(value: Any) -> dict[str, Any] | None:
    """What an object consists of, in a dict, in slots or in the members of a class of C; None where
    nothing of it can be seen."""
    found: dict[str, Any] = {}
    seen = False
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, MemberDescriptorType) and name not in found:
                seen = True
                try:
                    found[name] = member.__get__(value)
                except AttributeError:  # a slot that holds nothing yet
                    continue
    own = getattr(value, "__dict__", None)
    if isinstance(own, dict):
        # A model that has it as a part sets `training`, which no transform uses.
        found |= {name: entry for name, entry in own.items() if name != "training"}
        seen = True
    return found if seen else None
