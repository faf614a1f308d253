# SPDX-License-Identifier: Apache-2.0
"""Warnings that point at the program, however deep in the package something was noticed."""

from __future__ import annotations

import sys
import warnings


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called foreload."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("foreload."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
