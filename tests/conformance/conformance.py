# SPDX-License-Identifier: Apache-2.0
"""What a case of the conformance suite is, and how one is run.

A case is a function of `make`, which makes loaders: torch's, torchdata's or foreload's. It has one
of three verdicts:

- same: it is run with both loaders, and what it gives must be equal, types included;
- refused: foreload raises an error that names the reason, and docs/pytorch.md says it too;
- differs: foreload does something else, docs/pytorch.md says what, and the case tests that.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.data

import foreload

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "python"))  # what several tests share
DOCUMENT = HERE.parents[1] / "docs" / "pytorch.md"

# In the order of the table.
TOPICS = (
    "construction",
    "length",
    "samplers",
    "batches",
    "data sets",
    "iterable data sets",
    "iteration",
    "workers",
    "randomness",
    "errors",
    "attributes",
    "states",
)

# Seconds that torch's loader waits for workers that do not end by themselves.
torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 1.0

SAME, REFUSED, DIFFERS = "same", "refused", "differs, documented"


class Make:
    """Makes loaders of one kind, without worker processes unless the case asks for some."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self._made: list[Any] = []

    @property
    def mine(self) -> bool:
        """Whether the loaders are foreload's."""
        return self.kind is foreload.DataLoader

    def __call__(self, *given: Any, **named: Any) -> Any:
        if len(given) < 6:
            named.setdefault("num_workers", 0)
            if named["num_workers"] in (1, 2, 3):
                named.setdefault("multiprocessing_context", "fork")
        loader = self.kind(*given, **named)
        self._made.append(loader)
        return loader

    def close(self) -> None:
        """Let everything go that was made."""
        for loader in self._made:
            getattr(loader, "close", lambda: None)()
        self._made.clear()


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    topic: str
    name: str
    label: str  # which of several values it is run with; empty if there is one case only
    verdict: str
    run: Callable[[Make], Any]
    remark: str = ""
    beside: str = "torch"  # whose loader foreload's is compared with
    error: type[Exception] | tuple[type[Exception], ...] = ()  # of what is refused
    match: str = ""  # found in its message
    said: str = ""  # the sentence in docs/pytorch.md
    fault: str = ""  # why foreload does not pass it yet


CASES: dict[str, Case] = {}


def _add(case: Case) -> None:
    key = f"{case.topic}: {case.name}{case.label and ': '}{case.label}"
    assert key not in CASES, f"two cases have the name {key}"
    assert case.topic in TOPICS, case.topic
    CASES[key] = case


class Topic:
    """Registers the cases of a topic; the name of the function is that of the case."""

    def __init__(self, name: str) -> None:
        self.name = name

    def same(
        self,
        remark: str = "",
        beside: str = "torch",
        over: Mapping[str, Any] | None = None,
        fault: str = "",
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Both give the same. `over`: once for each value, which is the second argument."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for label, value in (over or {"": None}).items():
                run = functools.partial(function, value=value) if label else function
                _add(
                    Case(
                        self.name,
                        _title(function),
                        label,
                        SAME,
                        run,
                        remark,
                        beside,
                        fault=fault,
                    )
                )
            return function

        return register

    def refused(
        self,
        error: type[Exception] | tuple[type[Exception], ...],
        match: str,
        said: str,
        remark: str = "",
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """foreload raises this error, and the document has the sentence."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            _add(
                Case(
                    self.name,
                    _title(function),
                    "",
                    REFUSED,
                    function,
                    remark or said,
                    error=error,
                    match=match,
                    said=said,
                )
            )
            return function

        return register

    def differs(
        self, said: str, remark: str = ""
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The case tests what foreload does instead, and the document has the sentence."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            title = _title(function)
            _add(Case(self.name, title, "", DIFFERS, function, remark or said, said=said))
            return function

        return register


# Names that keep their underscores.
_NAMES = (
    *inspect.signature(torch.utils.data.DataLoader.__init__).parameters,
    "default_collate",
    "get_worker_info",
    "set_epoch",
    "snapshot_every_n_steps",
)


def _title(function: Callable[..., Any]) -> str:
    title = function.__name__.replace("_s_", "'s ").replace("_", " ")
    for name in sorted(_NAMES, key=len, reverse=True):
        title = title.replace(name.replace("_", " "), name)
    return title


def load_all() -> dict[str, Case]:
    """All cases, by name, in the order of the table."""
    for path in sorted(HERE.glob("cases_*.py")):
        importlib.import_module(path.stem)
    return dict(sorted(CASES.items(), key=lambda entry: TOPICS.index(entry[1].topic)))


# How a case is run.


def _kind_of(beside: str) -> Any:
    if beside == "torch":
        return torch.utils.data.DataLoader
    return importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader


@contextlib.contextmanager
def _making(kind: Any) -> Iterator[Make]:
    """Every run begins with the same global generators."""
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    torch.manual_seed(5)
    make = Make(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield make
        finally:
            make.close()


def run(case: Case) -> None:
    """Fails with AssertionError unless the case has its verdict."""
    if case.verdict == SAME:
        with _making(_kind_of(case.beside)) as make:
            theirs = case.run(make)
        with _making(foreload.DataLoader) as make:
            mine = case.run(make)
        compare(mine, theirs, "what it gives")
        return
    document = " ".join(DOCUMENT.read_text("utf-8").split())
    assert case.said in document, f"{DOCUMENT.name} does not say: {case.said}"
    with _making(foreload.DataLoader) as make:
        if case.verdict == DIFFERS:
            case.run(make)
            return
        raised: Exception | None = None
        try:
            case.run(make)
        except case.error as error:
            raised = error
        assert raised is not None, "not refused"
        assert case.match in str(raised), f"the error does not name the reason: {raised}"


# For cases.


@dataclass(frozen=True)
class Raised:
    """What a call gives that raises."""

    kind: type[BaseException]
    said: bool = True


def outcome(call: Callable[[], Any], text: str = "") -> Any:
    """What a call gives, or the type that it raises and whether the message has a text of the
    user's."""
    try:
        return call()
    except Exception as error:
        return Raised(type(error), text in str(error))


def warned(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    """What a call gives, and the kinds of warnings that it was given with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = outcome(call)
    return given, sorted({one.category.__name__ for one in caught})


def compare(mine: Any, theirs: Any, where: str = "") -> None:
    """Fails unless types and values are the same all the way down."""
    assert type(mine) is type(theirs), f"{where}: {mine!r} and torch's {theirs!r}"
    if isinstance(mine, torch.Tensor):
        assert mine.dtype == theirs.dtype, f"{where}: {mine.dtype} and torch's {theirs.dtype}"
        assert mine.shape == theirs.shape, f"{where}: {mine.shape} and torch's {theirs.shape}"
        equal = torch.equal(mine, theirs) or torch.allclose(mine, theirs, 0, 0, equal_nan=True)
        assert equal, f"{where}: {mine} and torch's {theirs}"
    elif isinstance(mine, np.ndarray):
        assert mine.dtype == theirs.dtype, f"{where}: {mine.dtype} and torch's {theirs.dtype}"
        assert np.array_equal(mine, theirs), f"{where}: {mine} and torch's {theirs}"
    elif isinstance(mine, Mapping):
        assert list(mine) == list(theirs), f"{where}: {list(mine)} and torch's {list(theirs)}"
        for key in mine:
            compare(mine[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(mine, list | tuple):
        assert len(mine) == len(theirs), f"{where}: {mine!r} and torch's {theirs!r}"
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            compare(one, other, f"{where}[{number}]")
    else:
        assert mine == theirs, f"{where}: {mine!r} and torch's {theirs!r}"


# Data sets that several topics use.


class Items(torch.utils.data.Dataset[Any]):
    """So many samples of a function of their number."""

    def __init__(self, length: int, make: Callable[[int], Any] | None = None) -> None:
        self.length = length
        self.make = make or (lambda index: index)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        return self.make(index)


class Unsized:
    """It has samples but does not say how many."""

    def __init__(self, make: Callable[[Any], Any] | None = None) -> None:
        self.make = make or (lambda index: index)

    def __getitem__(self, index: Any) -> Any:
        return self.make(index)


class Stream(torch.utils.data.IterableDataset[Any]):
    """So many numbers; with `split` each worker gives a share of them."""

    def __init__(
        self, length: int, make: Callable[[int], Any] | None = None, split: bool = True
    ) -> None:
        self.length = length
        self.make = make or (lambda index: index)
        self.split = split

    def numbers(self) -> range:
        info = torch.utils.data.get_worker_info()
        if info is None or not self.split:
            return range(self.length)
        return range(info.id, self.length, info.num_workers)

    def __iter__(self) -> Iterator[Any]:
        return map(self.make, self.numbers())


class SizedStream(Stream):
    """A stream that says how long it is."""

    def __len__(self) -> int:
        return self.length
