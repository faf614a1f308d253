# SPDX-License-Identifier: Apache-2.0
"""Classes of packages that a program may use or not: nothing is imported to ask for them."""

from __future__ import annotations

import sys
from typing import Any


def class_of(name: str, module: str) -> Any:
    """A class of a package, None if the program does not use that package."""
    return getattr(sys.modules.get(module), name, None)


def is_exactly(value: Any, name: str, module: str) -> bool:
    """Whether it is of that class and of none that is derived from it."""
    return type(value) is class_of(name, module)
