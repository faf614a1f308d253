# SPDX-License-Identifier: Apache-2.0
"""A file decoded by foreload and by Pillow: equal pixels, or both refuse it."""

import io
import struct

import numpy as np
from PIL import Image, ImageOps

from foreload import transforms as t

MODES = ("RGB", "L", "RGBA")


def chain(mode: str, upright: bool):
    return t.Compose([t.Decode(mode, exif_orientation=upright), t.ToLayout("HWC")]).compile()


CHAINS = {(mode, upright): chain(mode, upright) for mode in MODES for upright in (False, True)}


def by_pillow(file: bytes, mode: str, upright: bool) -> np.ndarray | None:
    try:
        with Image.open(io.BytesIO(file)) as image:
            turned = ImageOps.exif_transpose(image) if upright else image
            made = np.asarray(turned.convert(mode))
            return made[:, :, None] if made.ndim == 2 else made
    except Exception:  # Pillow raises many kinds
        return None


def by_foreload(file: bytes, mode: str, upright: bool) -> np.ndarray | str:
    try:
        return CHAINS[mode, upright].run(file, 1, 2, 3)
    except (ValueError, OSError, RuntimeError) as error:
        return str(error)


def check(file: bytes, upright: bool = False) -> None:
    for mode in MODES:
        expected, found = by_pillow(file, mode, upright), by_foreload(file, mode, upright)
        if expected is None:
            assert isinstance(found, str), (mode, file)
        else:
            assert not isinstance(found, str), (mode, found, file)
            assert np.array_equal(found, expected), (mode, file)


def exif(orientation: int, order: str = ">") -> bytes:
    """EXIF metadata that say which way up an image is, and no more."""
    value = struct.pack(order + "HHIHH", 0x0112, 3, 1, orientation, 0)
    head = b"II*\0" if order == "<" else b"MM\0*"
    return head + struct.pack(order + "IH", 8, 1) + value + struct.pack(order + "I", 0)
