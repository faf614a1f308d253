# SPDX-License-Identifier: Apache-2.0
"""Suggestions for keyword arguments that are nearly right, in one place."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from foreload import _core

P = ParamSpec("P")
R = TypeVar("R")


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
