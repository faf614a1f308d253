# SPDX-License-Identifier: Apache-2.0
"""The samples of a data set, from a folder or from an index file."""

from __future__ import annotations

import os
from collections.abc import Sequence

from foreload._core import Index

Path = str | os.PathLike[str]


def list_folder(path: Path, extensions: str | Sequence[str] | None = None) -> Index:
    """The samples of a folder, in the order and with the labels of torchvision's ImageFolder.

    Args:
        path: The folder. Its sub-folders are the classes; without any it is flat.
        extensions: Which files are samples: None for images, "any" for every file, or
            extensions such as [".jpg", ".png"] or ".jpg,.png", in any case.
    """
    return Index.from_folder(path, extensions)


def read_index(path: Path) -> Index:
    """The samples of a data set, from an index file written by `Index.save`."""
    return Index.load(path)
