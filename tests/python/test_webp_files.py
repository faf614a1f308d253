# SPDX-License-Identifier: Apache-2.0
"""WebP files of all kinds, whole and damaged, beside Pillow."""

import io
import random
import struct

import numpy as np
import pytest
from beside_pillow import check, exif
from PIL import Image

from foreload import transforms as t


def picture(rng: random.Random, size: tuple[int, int], alpha: bool) -> Image.Image:
    """Slopes and edges with some noise, so that colours differ from pixel to pixel."""
    noise = np.random.default_rng(rng.randrange(1 << 30))
    x, y = np.meshgrid(np.arange(size[0]), np.arange(size[1]))
    bands = [
        (x * noise.integers(1, 9) + y * noise.integers(1, 9) + (x // 5 + y // 3) % 2 * 90) % 256
        for _ in range(4 if alpha else 3)
    ]
    pixels = np.stack(bands, 2) // 2 + noise.integers(0, 128, (size[1], size[0], len(bands)))
    return Image.fromarray(pixels.astype(np.uint8))


def webp(image: Image.Image, **options) -> bytes:
    file = io.BytesIO()
    image.save(file, "WEBP", **options)
    return file.getvalue()


def random_webp(rng: random.Random) -> bytes:
    size = rng.choice((1, 2, 3, 15, 16, 17, 40, 65)), rng.choice((1, 2, 5, 16, 31, 50))
    alpha = rng.random() < 0.4
    options = {"lossless": rng.random() < 0.3, "quality": rng.choice((5, 50, 80, 100)), "method": 0}
    if rng.random() < 0.2:
        options["exif"] = exif(rng.randrange(1, 9))
    if rng.random() < 0.15:
        more = [picture(rng, size, alpha) for _ in range(2)]
        options |= {"save_all": True, "append_images": more, "minimize_size": rng.random() < 0.5}
    return webp(picture(rng, size, alpha), **options)


def change_byte(rng: random.Random, file: bytes) -> bytes:
    at = rng.randrange(16, len(file))
    return file[:at] + bytes([file[at] ^ 1 << rng.randrange(8)]) + file[at + 1 :]


def change_size(rng: random.Random, file: bytes) -> bytes:
    """The size that the file, or its first chunk, declares."""
    at = rng.choice((4, 16))
    size = struct.unpack("<I", file[at : at + 4])[0] + rng.choice((-20, -2, -1, 1, 2, 3, 8))
    return file[:at] + struct.pack("<I", max(0, size)) + file[at + 4 :]


def truncate(rng: random.Random, file: bytes) -> bytes:
    return file[: rng.randrange(16, len(file))]


def shorten(rng: random.Random, file: bytes) -> bytes:
    """Pixels are missing, and the sizes hide it."""
    if file[12:16] == b"VP8X":
        return file
    body = file[20 : rng.randrange(20, len(file))]
    body += b"\0" * (len(body) % 2)
    chunk = file[12:16] + struct.pack("<I", len(body)) + body
    return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk


def append(rng: random.Random, file: bytes) -> bytes:
    return file + rng.randbytes(9)


DAMAGES = [change_byte, change_size, truncate, shorten, append]


@pytest.mark.parametrize("seed", range(8))
def test_random_files(seed):
    rng = random.Random(seed)
    for _ in range(25):
        check(random_webp(rng), upright=rng.random() < 0.5)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_files(damage):
    rng = random.Random(damage.__name__)
    for _ in range(80):
        check(damage(rng, random_webp(rng)))


METADATA = {
    "none": {},
    "exif": {"exif": exif(6)},
    "exif with a prefix": {"exif": b"Exif\0\0" + exif(8, "<")},
    "nonsense in exif": {"exif": b"nonsense"},
    "nonsense orientation": {"exif": exif(9)},
    "xmp": {"xmp": b'<x tiff:Orientation="5"/>'},
    "xmp and exif": {"xmp": b'<x tiff:Orientation="5"/>', "exif": exif(3)},
    "profile": {"icc_profile": bytes(100)},
}


@pytest.mark.parametrize("kind", METADATA)
@pytest.mark.parametrize("lossless", [False, True])
def test_orientation(kind, lossless):
    image = picture(random.Random(kind), (13, 9), alpha=False)
    for upright in (False, True):
        check(webp(image, lossless=lossless, **METADATA[kind]), upright)


def test_the_first_frame_may_be_smaller_than_the_image():
    rng = random.Random(7)
    still = webp(picture(rng, (20, 16), False), quality=70)
    for alpha in (0, 0x10):
        for x, y in ((0, 0), (4, 2), (10, 8)):
            head = struct.pack("<I", x // 2)[:3] + struct.pack("<I", y // 2)[:3]
            head += struct.pack("<I", 19)[:3] + struct.pack("<I", 15)[:3] + bytes(4)
            chunks = b"".join(
                name + struct.pack("<I", len(body)) + body
                for name, body in (
                    (b"VP8X", bytes([2 | alpha, 0, 0, 0, 39, 0, 0, 29, 0, 0])),
                    (b"ANIM", bytes(6)),
                    (b"ANMF", head + still[12:]),
                )
            )
            check(b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WEBP" + chunks)


@pytest.mark.parametrize("lossless", [False, True])
@pytest.mark.parametrize("quality", [10, 60, 95])
def test_every_crop_is_that_of_the_whole(lossless, quality):
    # Colours are smoothed across the edges of a crop.
    image = picture(random.Random(quality), (37, 35), alpha=False)
    file = webp(image, lossless=lossless, quality=quality)
    whole = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    for height in (1, 2, 3, 6, 17, 34):
        for width in (1, 2, 5, 18, 36):
            chain = t.Compose([t.CenterCrop((height, width)), t.ToLayout("HWC")]).compile()
            top, left = round((35 - height) / 2), round((37 - width) / 2)
            expected = whole[top : top + height, left : left + width]
            assert np.array_equal(chain.run(file, 1, 2, 3), expected), (width, height)
