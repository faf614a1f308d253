# SPDX-License-Identifier: Apache-2.0
"""What the programs `foreload plot`, `report` and `watch` have in common: what one of them refuses,
bad arguments included, is one line, and its exit status is 2."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from foreload import _core
from foreload._arguments import path_of
from foreload.reports.run_files import Refusal


class Parser(argparse.ArgumentParser):
    """Bad arguments are a Refusal too."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description)
        self.add_argument("--version", action="version", version=f"foreload {_core.__version__}")

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").split("=")[0].split()[0]
        if message.startswith("unrecognized arguments: ") and unknown.startswith("-"):
            near = _core.nearest(unknown, list(self._option_string_actions))
            message = f"unknown option {unknown}" + (f"; did you mean {near}?" if near else "")
        raise Refusal(message)

    def output(self, option: str, file: str) -> Path:
        """A file that can be written when everything is done."""
        path = Path(path_of(file))
        try:
            _core.check_output_file(option, path)
        except ValueError as error:
            raise Refusal(str(error)) from None
        return path


def status_of(
    program: str, run: Callable[[Sequence[str] | None], None], argv: Sequence[str] | None
) -> int:
    """Run a program with these arguments; gives its exit status."""
    try:
        run(argv)
    except Refusal as refusal:
        sys.stderr.write(f"{program}: {refusal}\n")
        return 2
    return 0
