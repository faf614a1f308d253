# SPDX-License-Identifier: Apache-2.0
"""How a checkpoint comes back to where a sampler of the user's was: exactly, or not at all.

The list of an epoch is drawn as a whole. What the drawing depends on is noted with it: the epoch
of the sampler, its generator, its own state, and the global generators that it used. A restart puts
all that back, draws again, and compares the digest of both lists; another list is an error.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import itertools
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import numpy as np

from foreload._packages import class_of

# A sampler that gives more than this in one epoch, many times the data set, and more than it says,
# is taken for an endless one. So many take a second or two, and less than a gigabyte.
MOST_DRAWN = 1 << 24
MOST_TIMES = 16

Note = dict[str, Any]

_SOME = 4096  # entries between two looks at how many there are


def _chain(sampler: Any) -> list[Any]:
    """The sampler, and what it is made of: a BatchSampler has a sampler inside."""
    found: list[Any] = []
    while sampler is not None and len(found) < 4 and all(sampler is not one for one in found):
        found.append(sampler)
        sampler = getattr(sampler, "sampler", None)
    return found


def _method_owner(sampler: Any, name: str) -> Any:
    return next((cls for cls in type(sampler).__mro__ if name in vars(cls)), None)


def _is_distributed(sampler: Any) -> bool:
    """Whether it is torch's DistributedSampler or torchdata's: rank and epoch say all of it."""
    owner = _method_owner(sampler, "__iter__")
    return owner is not None and owner in (
        class_of("DistributedSampler", "torch.utils.data.distributed"),
        class_of("StatefulDistributedSampler", "torchdata.stateful_dataloader.sampler"),
    )


def _is_plain_batches(sampler: Any) -> bool:
    owner = _method_owner(sampler, "__iter__")
    return owner is not None and owner in (
        class_of("BatchSampler", "torch.utils.data.sampler"),
        class_of("BatchSampler", "torchdata.stateful_dataloader.sampler"),
    )


def _generator(sampler: Any) -> Any:
    generator = getattr(sampler, "generator", None)
    return generator if hasattr(generator, "get_state") else None


def _text(state: Any) -> str:
    """A generator's state, as a checkpoint of any kind can have it."""
    return base64.b64encode(state.numpy().tobytes()).decode()


def _state(text: str) -> Any:
    import torch

    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)


def _globals() -> dict[str, Any]:
    """The global generators."""
    python = random.getstate()
    kind, keys, *rest = np.random.get_state(legacy=True)  # noqa: NPY002
    found: dict[str, Any] = {
        "python": [python[0], list(python[1]), python[2]],
        "numpy": [str(kind), np.asarray(keys).tolist(), *rest],
    }
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = _text(torch.get_rng_state())
    return found


def _set_globals(states: dict[str, Any]) -> None:
    if "python" in states:
        version, words, gauss = states["python"]
        random.setstate((version, tuple(words), gauss))
    if "numpy" in states:
        kind, keys, *rest = states["numpy"]
        np.random.set_state((kind, np.asarray(keys, dtype=np.uint32), *rest))  # noqa: NPY002
    if "torch" in states:
        import torch

        torch.set_rng_state(_state(states["torch"]))


def _digest(drawn: list[Any]) -> str:
    """Of all samples in order, wherever batches end."""
    flat = [entry for batch in drawn for entry in (batch if _is_batch(batch) else (batch,))]
    try:
        data = np.asarray(flat, dtype=np.int64).tobytes()
    except (TypeError, ValueError, OverflowError):
        data = repr(flat).encode()
    return hashlib.sha256(data).hexdigest()[:32]


def _is_batch(entry: Any) -> bool:
    return isinstance(entry, list | np.ndarray)


class SamplerMemory:
    """Draws the lists of a sampler and knows how to draw one again.

    Args:
        sampler: The user's sampler or batch sampler.
        who: Which of both it is, in messages.
        samples: How many the data set has.
    """

    def __init__(self, sampler: Iterable[Any], who: str, samples: int) -> None:
        self._sampler = sampler
        self._samples = samples
        self._who = who
        self._loaded: Note | None = None  # what the next list must be drawn by
        chain = _chain(sampler)
        # These give each rank a list of its own, and a checkpoint may be that of another rank.
        self._by_rank = _is_distributed(chain[-1]) and all(map(_is_plain_batches, chain[:-1]))

    def set_epoch(self, epoch: int) -> None:
        """The sampler's next list is of this epoch."""
        for part in _chain(self._sampler):
            if hasattr(part, "set_epoch"):
                part.set_epoch(epoch)

    def draw(self, entered: bool = False) -> tuple[list[Any], Note]:
        """The list of an epoch, and what a checkpoint must know of it. `entered`: it is gone on
        with in the middle, so it must be the one that was loaded."""
        loaded, self._loaded = self._loaded, None
        note = self._inputs()
        wanted = (loaded or {}).get("digest") if entered else None
        before = _globals()
        try:
            if wanted is not None:
                _set_globals(loaded["globals"])  # type: ignore[index]
            drawn = self._drawn(note, loaded if wanted is not None else None)
            if loaded is not None and wanted is None and not drawn:
                drawn = self._drawn(note, None)  # its state was that of the end of an epoch
            after = _globals()
        finally:
            if wanted is not None:
                _set_globals(before)
        note["globals"] = (
            loaded["globals"]  # type: ignore[index]
            if wanted is not None
            else {name: state for name, state in before.items() if state != after.get(name)}
        )
        note["digest"] = self._identity(drawn)
        if wanted not in (None, note["digest"]) and self._identity(drawn[1:]) == wanted:
            drawn, note["digest"] = drawn[1:], wanted  # its state says nothing of its progress
        if wanted is not None and note["digest"] != wanted:
            raise RuntimeError(
                f"the {self._who} gives another list than the one that the state was taken in: "
                "give it the same arguments, data set and number of ranks as before, or load a "
                "state that was taken between two epochs"
            )
        return drawn, note

    def upcoming(self) -> Note:
        """What the list that is drawn next depends on, as far as anybody can know."""
        if self._loaded is not None:
            return self._loaded
        note = self._inputs()
        if not self._by_rank and hasattr(self._sampler, "state_dict"):
            note["state"] = copy.deepcopy(self._sampler.state_dict())
        return note

    def load(self, note: Any) -> None:
        """The next list is the one of this note, unless the sampler is told otherwise. A ValueError
        if it is none."""
        if not _is_note(note):
            raise ValueError(
                "the state is damaged: its entry 'sampler' does not say where the "
                f"{self._who} was; use another state"
            )
        try:
            self._put_back(note)
        except Exception as error:
            raise ValueError(
                f"the {self._who} cannot be brought to where the state was taken "
                f"({type(error).__name__}: {error}): give it the same arguments as before, or use "
                "another state"
            ) from error
        self._loaded = note

    def _identity(self, drawn: list[Any]) -> str:
        """Of a list, or of what every rank has its own part of."""
        if not self._by_rank:
            return _digest(drawn)
        inner = _chain(self._sampler)[-1]
        names = ("num_replicas", "epoch", "shuffle", "seed", "drop_last", "total_size")
        known = ", ".join(f"{name} {getattr(inner, name, None)}" for name in names)
        return f"{known}, length {sum(len(one) if _is_batch(one) else 1 for one in drawn)}"

    def _inputs(self) -> Note:
        chain = _chain(self._sampler)
        epochs = [getattr(part, "epoch", None) for part in chain]
        generators = [_generator(part) for part in chain]
        return {
            "epochs": [epoch if isinstance(epoch, int) else None for epoch in epochs],
            "generators": [None if one is None else _text(one.get_state()) for one in generators],
        }

    def _put_back(self, note: Note) -> None:
        for part, epoch, text in zip(
            _chain(self._sampler), note["epochs"], note["generators"], strict=False
        ):
            if epoch is not None and hasattr(part, "set_epoch"):
                part.set_epoch(epoch)
            generator = _generator(part)
            if text is not None and generator is not None:
                generator.set_state(_state(text))
        if "state" in note and hasattr(self._sampler, "load_state_dict"):
            self._sampler.load_state_dict(copy.deepcopy(note["state"]))
        elif self._by_rank and hasattr(_chain(self._sampler)[-1], "load_state_dict"):
            _chain(self._sampler)[-1].load_state_dict({"yielded": 0})

    def _drawn(self, note: Note, again: Note | None) -> list[Any]:
        """All that the sampler gives. Of one with a state the state after the first entry is noted:
        before it, some still speak of the epoch before."""
        entries: Iterator[Any] = iter(self._sampler)
        drawn: list[Any] = []
        if again is not None and "first" in again:
            if "iterator" in again:
                entries.load_state_dict(copy.deepcopy(again["iterator"]))  # type: ignore[attr-defined]
            drawn = [again["first"]]
            note |= {key: again[key] for key in ("first", "state", "iterator") if key in again}
        elif not self._by_rank and (
            hasattr(self._sampler, "state_dict") or hasattr(entries, "state_dict")
        ):
            drawn = list(itertools.islice(entries, 1))
            if drawn:
                note["first"] = _plain(drawn[0])
                if hasattr(self._sampler, "state_dict"):
                    note["state"] = copy.deepcopy(self._sampler.state_dict())
                if hasattr(entries, "state_dict"):
                    note["iterator"] = copy.deepcopy(entries.state_dict())
        most = max(MOST_DRAWN, MOST_TIMES * self._samples)
        count, ended = 0, False
        while not ended:
            some = list(itertools.islice(entries, _SOME))
            ended = len(some) < _SOME  # not asked again: some begin anew then
            drawn += some
            count += sum(map(len, some)) if some and _is_batch(some[0]) else len(some)
            if count > most and len(drawn) > self._length():
                raise ValueError(
                    f"the {self._who} did not end after {count:,} samples, and the data set has "
                    f"{self._samples:,}: foreload takes all of an epoch at once, so give a "
                    f"{self._who} that ends, and a __len__ if an epoch is that long"
                )
        return drawn

    def _length(self) -> int:
        """Entries that it says it has."""
        try:
            return len(self._sampler) if isinstance(self._sampler, Sized) else 0
        except (TypeError, NotImplementedError):
            return 0


def _is_note(value: Any) -> bool:
    """Whether it has what a list is drawn by; with the list's digest, what it depended on too."""
    return (
        isinstance(value, Mapping)
        and all(isinstance(value.get(name), list) for name in ("epochs", "generators"))
        and ("digest" not in value or isinstance(value.get("globals"), Mapping))
    )


def _plain(entry: Any) -> Any:
    """An entry as a checkpoint can have it."""
    if _is_batch(entry):
        return [_plain(one) for one in entry]
    return int(entry) if isinstance(entry, np.integer) or hasattr(entry, "item") else entry
