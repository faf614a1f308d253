# SPDX-License-Identifier: Apache-2.0
"""Images that Python opens: for functions as transforms, and formats that C++ does not decode.

What a file is, its content says. Arrays in .npy files need numpy only, everything else Pillow.
"""

from __future__ import annotations

import importlib.util
import io
from typing import Any

import numpy as np
import numpy.typing as npt

HAVE_PILLOW = importlib.util.find_spec("PIL") is not None

_NPY = b"\x93NUMPY"


class NamedBytes(io.BytesIO):
    """The bytes of a file, open for reading, with its name."""

    def __init__(self, data: bytes | memoryview, name: str) -> None:
        super().__init__(data)
        self.name = name

    def __repr__(self) -> str:
        return repr(self.name)


def open_image(data: Any, name: str, unchanged: bool = False) -> Any:
    """What a function as transform gets: an image of Pillow, as RGB or unchanged as the file has it
    (with alpha, a palette, or grey of 16 bits), or the array of a .npy file."""
    if isinstance(data, np.ndarray):  # decoded already
        return data
    if bytes(data[: len(_NPY)]) == _NPY:
        return np.load(io.BytesIO(data), allow_pickle=False)
    from PIL import Image

    with NamedBytes(data, name) as file, Image.open(file) as image:
        if not unchanged:
            return image.convert("RGB")
        image.load()
        return image


def other_decoder() -> str:
    """Whose pixels decode_other() gives: kept samples are those of this version only."""
    if not HAVE_PILLOW:
        return ""
    import PIL

    return f"Pillow {PIL.__version__}"


def decode_other(data: bytes, mode: str, upright: bool) -> npt.NDArray[np.uint8]:
    """Pixels of a file of another format, as C++ wants them: uint8, H x W (x 3 or 4)."""
    if not HAVE_PILLOW:
        raise ValueError("this format needs Pillow, which is not installed: pip install pillow")
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with io.BytesIO(data) as file, Image.open(file) as image:
            turned = ImageOps.exif_transpose(image) if upright else image
            return np.asarray(turned.convert(mode))
    except UnidentifiedImageError:
        raise ValueError(
            "neither foreload nor Pillow knows this format; convert the file to JPEG or PNG"
        ) from None
