# SPDX-License-Identifier: Apache-2.0
"""GIF files of all kinds, whole and damaged, beside Pillow."""

import io
import random
import struct

import numpy as np
import pytest
from beside_pillow import check
from PIL import Image

from foreload import transforms as t


def codes_of(pixels: bytes, bits: int, rng: random.Random) -> list[tuple[int, int]]:
    """LZW codes, each with its number of bits. The table is cleared now and then, or never."""
    clear, most = 1 << bits, rng.choice((300, 1000, 4096))
    codes, table, size, text = [(clear, bits + 1)], {}, bits + 1, b""
    for pixel in pixels:
        longer = text + bytes([pixel])
        if len(longer) == 1 or longer in table:
            text = longer
            continue
        codes.append((table[text] if len(text) > 1 else text[0], size))
        following = clear + 2 + len(table)
        if following < 4096:
            table[longer] = following
            if following == 1 << size and size < 12:
                size += 1
        if following >= most and most < 4096:
            codes.append((clear, size))
            table, size = {}, bits + 1
        text = longer[-1:]
    if text:
        codes.append((table[text] if len(text) > 1 else text[0], size))
    return codes


def packed(codes: list[tuple[int, int]]) -> bytes:
    value = count = 0
    for code, size in codes:
        value |= code << count
        count += size
    return value.to_bytes((count + 7) // 8, "little")


def blocks(data: bytes, rng: random.Random) -> bytes:
    made = b""
    while data:
        size = rng.choice((255, 255, 1, rng.randrange(1, 256)))
        made += bytes([min(size, len(data))]) + data[:size]
        data = data[size:]
    return made + b"\0"


def palette(rng: random.Random, bits: int) -> bytes:
    if rng.random() < 0.25:
        return bytes(value for grey in range(1 << bits) for value in (grey,) * 3)
    return rng.randbytes(3 << bits)


def extension(rng: random.Random) -> bytes:
    kind = rng.choice(("control", "comment", "loop", "other", "empty"))
    if kind == "control":
        flags = rng.choice((0, 1, 1, 8, 9, 13))
        return b"!\xf9\x04" + bytes([flags, 5, 0, rng.randrange(256)]) + b"\0"
    if kind == "comment":
        return b"!\xfe" + blocks(rng.randbytes(rng.randrange(300)), rng)
    if kind == "loop":
        ends = (b"\x03\x01\x00\x00\x00", b"\0", b"\x01\x01\x00")
        return b"!\xff\x0bNETSCAPE2.0" + rng.choice(ends)
    if kind == "empty":
        return b"!" + bytes([rng.choice((0xF9, 0xFE, 0xFF))]) + b"\0"
    return b"!" + bytes([rng.choice((0x01, 0xFF, 0x77))]) + blocks(rng.randbytes(20), rng)


def random_gif(rng: random.Random) -> bytes:
    width, height = rng.choice((1, 2, 9, 17, 40)), rng.choice((1, 2, 3, 5, 9, 33))
    bits = rng.randrange(1, 9)
    screen_flags, colors = rng.choice((0, bits - 1 | 0x80)), b""
    if screen_flags:
        colors = palette(rng, bits)
    place = rng.choice((0, 0, 3)), rng.choice((0, 0, 4))
    screen = (
        max(0, place[0] + width + rng.choice((0, 0, 0, 5, -1))),
        max(0, place[1] + height + rng.choice((0, 0, 0, 5, -2))),
    )
    frame_flags, own = rng.choice((0, 0x40)), b""
    if rng.random() < 0.5:
        frame_flags |= bits - 1 | 0x80
        own = palette(rng, bits)
    grain = rng.choice((1, 4, 60))
    pixels = [(x // grain + y) % (1 << bits) for y in range(height) for x in range(width)]
    if rng.random() < 0.3:
        pixels = [rng.randrange(1 << bits) for _ in pixels]
    first = max(2, bits) if rng.random() < 0.9 else rng.randrange(bits, 13)
    codes = codes_of(bytes(pixels), first, rng) if first <= 8 else random_codes(rng, first)
    codes.append(((1 << first) + 1, codes[-1][1]))
    file = b"GIF89a" + struct.pack("<HHBBB", *screen, screen_flags, rng.randrange(256), 0) + colors
    file += b"".join(extension(rng) for _ in range(rng.choice((0, 0, 1, 3))))
    file += b"," + struct.pack("<HHHHB", *place, width, height, frame_flags) + own
    return file + bytes([first]) + blocks(packed(codes), rng) + b";"


def random_codes(rng: random.Random, bits: int) -> list[tuple[int, int]]:
    """Mostly nonsense. Codes of more than eight bits lose the upper ones."""
    codes = [(1 << bits, bits + 1)] if rng.random() < 0.8 else []
    size = min(bits + 1, 12) if bits < 12 else 13
    return codes + [(rng.randrange(1 << bits), size) for _ in range(2000)]


def saved_by_pillow(rng: random.Random) -> bytes:
    size = rng.choice((1, 7, 64, 200)), rng.choice((1, 5, 50, 150))
    noise = np.random.default_rng(rng.randrange(1 << 30))
    bands = rng.choice((1, 3))
    image = Image.fromarray(noise.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))
    image = image.convert("L") if bands == 1 else image.quantize(rng.choice((2, 7, 256)))
    options = {"interlace": rng.randrange(2), "optimize": rng.random() < 0.5}
    if rng.random() < 0.4:
        options["transparency"] = rng.randrange(8)
    if rng.random() < 0.3:
        options |= {"save_all": True, "append_images": [image.rotate(90)], "disposal": 2}
    file = io.BytesIO()
    image.save(file, "GIF", **options)
    return file.getvalue()


def change_byte(rng: random.Random, file: bytes) -> bytes:
    at = rng.randrange(6, len(file))
    return file[:at] + bytes([file[at] ^ 1 << rng.randrange(8)]) + file[at + 1 :]


def truncate(rng: random.Random, file: bytes) -> bytes:
    return file[: rng.randrange(6, len(file))]


def append(rng: random.Random, file: bytes) -> bytes:
    # More than Pillow reads at a time: it goes on reading codes behind the end mark.
    return file + rng.randbytes(rng.choice((1, 100, 70_000)))


def cut_out(rng: random.Random, file: bytes) -> bytes:
    begin = rng.randrange(6, len(file))
    return file[:begin] + file[begin + rng.randrange(1, 30) :]


DAMAGES = [change_byte, truncate, append, cut_out]


@pytest.mark.parametrize("seed", range(8))
def test_random_files(seed):
    rng = random.Random(seed)
    for _ in range(60):
        check(random_gif(rng), upright=rng.random() < 0.3)


@pytest.mark.parametrize("seed", range(4))
def test_files_that_pillow_saves(seed):
    rng = random.Random(seed)
    for _ in range(15):
        check(saved_by_pillow(rng))


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_files(damage):
    rng = random.Random(damage.__name__)
    for number in range(200):
        check(damage(rng, random_gif(rng) if number % 4 else saved_by_pillow(rng)))


def test_an_image_of_many_codes():
    rng = random.Random(3)
    pixels = np.random.default_rng(3).integers(0, 256, (500, 600), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "GIF")
    assert len(file.getvalue()) > 3 * 65_536
    check(file.getvalue())
    check(change_byte(rng, file.getvalue()))


def test_every_crop_is_that_of_the_whole():
    file = saved_by_pillow(random.Random(8))
    whole = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    for size in ((1, 1), (1, whole.shape[1]), (whole.shape[0], 1)):
        chain = t.Compose([t.CenterCrop(size), t.ToLayout("HWC")]).compile()
        top, left = round((whole.shape[0] - size[0]) / 2), round((whole.shape[1] - size[1]) / 2)
        expected = whole[top : top + size[0], left : left + size[1]]
        assert np.array_equal(chain.run(file, 1, 2, 3), expected)
