# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments: suggestions for those that are nearly right, and settings that travel as one
mapping and are listed one by one all the same."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

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
    signature = inspect.signature(function)
    parameters = signature.parameters.values()
    if any(entry.kind is entry.VAR_KEYWORD for entry in parameters):
        return function
    return _checked(function, signature)


def takes_settings(settings: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For a function with `**settings: Unpack[...]` of this TypedDict: its signature lists them
    with the defaults of the engine, and an unknown one is answered with the nearest."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        defaults = _core.setting_defaults()
        *own, _ = signature.parameters.values()
        listed = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation
            )
            for name, annotation in _annotations(settings).items()
        ]
        return _checked(function, signature.replace(parameters=[*own, *listed]))

    return decorate


def _annotations(settings: type) -> dict[str, str]:
    """Names and types of a TypedDict, those that it inherits included."""
    found: dict[str, Any] = settings.__annotations__
    return {name: getattr(kind, "__forward_arg__", kind) for name, kind in found.items()}


def _checked(function: Callable[P, R], signature: inspect.Signature) -> Callable[P, R]:
    known = [name for name in signature.parameters if name != "self"]
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

    checked.__signature__ = signature  # type: ignore[attr-defined]
    return checked
