# SPDX-License-Identifier: Apache-2.0
"""Suggestions for keyword arguments and names that are nearly right, in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

from foreload import _core

P = ParamSpec("P")
R = TypeVar("R")


def unknown_name(module: str, name: str, known: Sequence[str], instead: Mapping[str, str]) -> str:
    """What to say of a name that a module has not: what to use, or the nearest name."""
    said = f"module {module!r} has no attribute {name!r}"
    if name.startswith("_"):
        return said
    if name in instead:
        return f"{said}: {instead[name]}"
    near = _core.nearest(name, list(known))
    return said + (f"; did you mean {near!r}?" if near else "")


def suggests_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """The same function (or __init__), whose TypeError for an unknown keyword names the nearest."""
    parameters = inspect.signature(function).parameters.values()
    if any(entry.kind is entry.VAR_KEYWORD for entry in parameters):
        return function
    known = [entry.name for entry in parameters if entry.name != "self"]
    name = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for given in kwargs:
            if given in known:
                continue
            near = _core.nearest(given, known)
            raise TypeError(
                f"{name}() got an unexpected keyword argument '{given}'"
                + (f"; did you mean '{near}'?" if near else "")
            )
        return function(*args, **kwargs)

    return checked
