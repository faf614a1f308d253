# SPDX-License-Identifier: Apache-2.0
"""Samples of several parts: image and mask, image and boxes, pairs.

`locate(index)` gives a dict or a tuple whose entries are files (a path, or a `Part` of a file) and
anything else, which stays as it is. The engine reads all files of a sample as one. Where all that
is done to them is known to C++, it also deals them out to the parts; here it is done where a data
set makes its samples itself, or a part has a function of Python's.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from foreload import _core, transforms
from foreload._arguments import whole
from foreload._collate import channels_first, tensor

Range = tuple[int, int, int | None]  # number of a file, first byte, bytes (None: to the end)
Key = tuple[int, int, int]


class Part(NamedTuple):
    """Bytes of a file: `length` from `offset` on, None: to its end."""

    path: str | os.PathLike[str]
    offset: int = 0
    length: int | None = None


def is_file(entry: Any) -> bool:
    """Whether an entry of what locate() gives is to be read."""
    return isinstance(entry, str | os.PathLike | Part)


def is_several(located: Any) -> bool:
    """Whether locate() gives more than one path or the bytes themselves."""
    return isinstance(located, Mapping | list | tuple)


def entries_of(located: Any) -> list[tuple[Any, Any]]:
    """Name and value of each entry. A Part alone is a sample of one part without a name."""
    if isinstance(located, Part):
        return [(None, located)]
    return list(located.items() if isinstance(located, Mapping) else enumerate(located))


class MaskOf(NamedTuple):
    """A mask of the picture that is the part `part`: it gets the same crop, flip and rotation, by
    its nearest pixels, and no colours are changed. It must have the size of the picture.

    Args:
        part: The picture's name, or its place in a tuple.
        fill: From 0 to 255: the value of pixels that lie outside of the mask, where the picture is
            padded, turned or moved. Often the value that a loss ignores.
    """

    part: Any
    fill: int = 0


class BadPartError(ValueError):
    """The file of a part cannot be used. `parts` are the names of those that it concerns."""

    def __init__(self, message: str, *parts: Any) -> None:
        super().__init__(message, *parts)
        self.message = message
        self.parts = parts

    def told(self, files: Mapping[Any, str]) -> str:
        """In words, with the names of the files."""
        who = [
            f"part {name!r} ({files[name]})" if name in files else f"part {name!r}"
            for name in self.parts
        ]
        return f"{', mask of '.join(who)}: {self.message}"


class Files:
    """Gathers the files of all samples, each once, and which bytes of them a sample has."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.ranges: list[list[Range]] = []
        self.alike = True  # all samples have the same parts, in the same order
        self._shape: Any = None
        self._numbers: dict[str, int] = {}

    def add(self, located: Any, who: str) -> None:
        """One more sample."""
        ranges: list[Range] = []
        entries = entries_of(located)
        shape = isinstance(located, Mapping), [(name, is_file(entry)) for name, entry in entries]
        self._shape = self._shape or shape
        self.alike = self.alike and shape == self._shape
        for _, entry in entries:
            if not is_file(entry):
                continue
            part = entry if isinstance(entry, Part) else Part(entry)
            path = os.fspath(part.path)
            if part.offset < 0 or (part.length is not None and part.length < 0):
                raise ValueError(f"{who} gave {part!r}: give an offset and a length of 0 or more")
            number = self._numbers.setdefault(path, len(self.paths))
            if number == len(self.paths):
                self.paths.append(path)
            ranges.append((number, part.offset, part.length))
        if not ranges:
            raise TypeError(
                f"{who} gave {located!r}, which names no file: give a path, or a foreload.Part, in "
                "at least one of its entries"
            )
        self.ranges.append(ranges)


def names_of(parts: Mapping[Any, bool]) -> list[str]:
    """What C++ calls the parts that are files; none where it could not tell them apart."""
    names = [str(name) for name, file in parts.items() if file]
    fit = len({*names}) == len(names) and all(name and name.isprintable() for name in names)
    return names if fit else []


def filled(located: Any, data: Sequence[Any]) -> Any:
    """What locate() gave, with the bytes of files in their places."""
    views = iter(data)
    values = [
        (name, bytes(next(views)) if is_file(entry) else entry)
        for name, entry in entries_of(located)
    ]
    if isinstance(located, Part):
        return values[0][1]
    if isinstance(located, Mapping):
        return dict(values)
    return tuple(value for _, value in values)


def split(data: memoryview, sizes: list[int]) -> tuple[memoryview, ...]:
    """The bytes of each part of a sample."""
    ends = itertools.accumulate(sizes, initial=0)
    return tuple(data[first:end] for first, end in itertools.pairwise(ends))


def _check_names(given: list[Any], parts: dict[Any, bool]) -> None:
    """Every transform is for a part that there is, and every file has one."""
    known = ", ".join(map(repr, parts))
    for name in given:
        if name not in parts:
            raise ValueError(
                f"there is a transform for part {name!r}, but locate() gives the parts {known}: "
                "correct the name"
            )
    for name, file in parts.items():
        if file and name not in given:
            raise ValueError(
                f"part {name!r} has no transform: give one, or None to get its bytes as they are"
            )


class PartsTransform:
    """What is done to each part of a sample that has no decode() of its own.

    Args:
        given: In the shape of what locate() gives: a foreload transform, which decodes a picture,
            `MaskOf` such a part, a function of the bytes, or None, which leaves an entry as it is.
        parts: What locate() gives: names, and whether each is a file.
    """

    def __init__(self, given: Any, parts: dict[Any, bool]) -> None:
        _check_names([name for name, _ in entries_of(given)], parts)
        self._parts = parts
        self._functions: dict[Any, Callable[[Any], Any]] = {}
        self._chains: dict[Any, tuple[transforms.Compose, MaskOf | None]] = {}  # pictures first
        masks: dict[Any, MaskOf] = {}
        for name, step in entries_of(given):
            if isinstance(step, MaskOf):
                masks[name] = step
            elif step is not None:
                chain = transforms.native(step)
                if chain is not None:
                    self._chains[name] = (chain, None)
                elif callable(step):
                    self._functions[name] = step
                else:
                    raise TypeError(
                        f"the transform of part {name!r} is {step!r}: give foreload.transforms, "
                        "foreload.MaskOf, a function of the bytes, or None"
                    )
        for name, mask in masks.items():
            if mask.part not in self._chains:
                raise ValueError(
                    f"part {name!r} is {mask!r}, but part {mask.part!r} has no transform of "
                    "foreload.transforms: give it one"
                )
            whole("fill of foreload.MaskOf", mask.fill, 0, 255)
            self._chains[name] = (self._chains[mask.part][0], mask)
        self._compile()
        self.random = any(compiled.random for compiled in self._compiled.values())

    def _compile(self) -> None:
        self._compiled = {name: chain.compile() for name, (chain, _) in self._chains.items()}
        for name, (_, mask) in self._chains.items():
            if mask is not None:
                self._compiled[name] = self._compiled[name].for_masks(int(mask.fill))

    @property
    def native(self) -> bool:
        """Whether C++ can do all of it."""
        pictures = [self._parts[name] for name in self._chains]
        return bool(pictures) and all(pictures) and not self._functions

    def in_cpp(self) -> list[tuple[str, _core.CompiledTransform | None, int | None]]:
        """For the engine: name, what is done to it, and the number of the picture that it is a mask
        of, which comes before it."""
        numbers = {name: number for number, name in enumerate(self._chains)}
        found: list[tuple[str, _core.CompiledTransform | None, int | None]] = [
            (str(name), self._compiled[name], None if mask is None else numbers[mask.part])
            for name, (_, mask) in self._chains.items()
        ]
        left = [name for name, file in self._parts.items() if file and name not in self._chains]
        return [*found, *((str(name), None, None) for name in left)]

    def made_in_cpp(self, name: Any, made: Any) -> Any:
        """One part of all samples of a batch: a tensor, or a list with an entry for each."""
        if name not in self._chains:
            return [*map(bytes, made)]
        if isinstance(made, list):
            return [self._image(name, pixels) for pixels in made]
        return self._image(name, made)

    def __call__(self, sample: Any, key: Key) -> Any:
        """The finished sample. All parts draw the same random numbers."""
        made = dict(entries_of(sample))
        sizes: dict[Any, tuple[int, int]] = {}
        for name in self._chains:
            made[name], sizes[name] = self._picture(name, made[name], key, sizes)
        for name, function in self._functions.items():
            made[name] = function(made[name])
        return made if isinstance(sample, Mapping) else tuple(made.values())

    def _picture(
        self, name: Any, file: bytes, key: Key, sizes: dict[Any, tuple[int, int]]
    ) -> tuple[Any, tuple[int, int]]:
        """A picture or a mask, and the size that its file has."""
        mask = self._chains[name][1]
        try:
            pixels, size = self._compiled[name].run_sized(
                file, *key, None if mask is None else sizes[mask.part]
            )
        except ValueError as error:
            concerned = (name,) if mask is None else (name, mask.part)
            raise BadPartError(str(error), *concerned) from error
        return self._image(name, pixels), size

    def _image(self, name: Any, pixels: Any) -> Any:
        image = tensor(pixels, self._compiled[name].dtype == "bfloat16")
        return channels_first(image) if self._chains[name][0].channels_last else image

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_compiled"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._compile()
