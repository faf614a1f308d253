# SPDX-License-Identifier: Apache-2.0
"""PNG files of all kinds, whole and damaged, beside Pillow."""

import random
import struct
import zlib
from collections.abc import Callable

import pytest
from beside_pillow import check, exif

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:PIL.*")

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {
    GREY: (1, 2, 4, 8, 16),
    RGB: (8, 16),
    PALETTE: (1, 2, 4, 8),
    GREY_ALPHA: (8, 16),
    RGBA: (8, 16),
}
KINDS = [(color, depth) for color, depths in DEPTHS.items() for depth in depths]
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
ADAM7 += [(0, 1, 1, 2)]
SIGNATURE = b"\x89PNG\r\n\x1a\n"

Chunk = tuple[bytes, bytes]


def joined(chunks: list[Chunk]) -> bytes:
    """A file of chunks with right lengths and checksums."""
    file = SIGNATURE
    for name, body in chunks:
        file += struct.pack(">I", len(body)) + name + body
        file += struct.pack(">I", zlib.crc32(name + body))
    return file


def header(size: tuple[int, int], color: int, depth: int, interlaced: bool) -> Chunk:
    return b"IHDR", struct.pack(">IIBBBBB", *size, depth, color, 0, 0, int(interlaced))


def filtered(
    rng: random.Random, size: tuple[int, int], color: int, depth: int, interlaced: bool
) -> bytes:
    """Rows of random bytes behind random filters: what they show does not matter."""
    raw = b""
    for left, top, right, down in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        columns = len(range(left, size[0], right))
        if columns:
            row = (columns * CHANNELS[color] * depth + 7) // 8
            for _ in range(top, size[1], down):
                raw += bytes([rng.randrange(5)]) + rng.randbytes(row)
    return raw


def parts(rng: random.Random, data: bytes, name: bytes = b"IDAT") -> list[Chunk]:
    """Cut into chunks, of which some may be empty."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 4))))
    return [(name, data[a:b]) for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


def random_png(rng: random.Random) -> list[Chunk]:
    color, depth = rng.choice(KINDS)
    size = rng.choice((1, 2, 3, 5, 9, 17, 40)), rng.choice((1, 2, 4, 7, 8, 23))
    interlaced = rng.random() < 0.3
    chunks = [header(size, color, depth, interlaced)]
    if color == PALETTE and rng.random() < 0.95:
        chunks.append((b"PLTE", rng.randbytes(3 * rng.choice((1, 1 << depth, 256)))))
    elif rng.random() < 0.1:
        chunks.append((b"PLTE", rng.randbytes(12)))
    if rng.random() < 0.4:
        body = {
            GREY: struct.pack(">H", rng.choice((0, 1, 3, 255, 300))),
            RGB: rng.randbytes(6),
            PALETTE: rng.choice((b"\xff\0\xff", b"\0", b"\xff\0\n", rng.randbytes(5), b"")),
        }.get(color, rng.randbytes(2))
        place = rng.choice((len(chunks), len(chunks), 0))
        chunks.insert(place, (b"tRNS", body))
    if rng.random() < 0.3:
        chunks.insert(rng.randrange(len(chunks) + 1), rng.choice(NOTES))
    pixels = zlib.compress(filtered(rng, size, color, depth, interlaced), rng.choice((0, 1, 6)))
    chunks += parts(rng, pixels)
    if rng.random() < 0.2:
        chunks.append(rng.choice([*NOTES, (b"tRNS", rng.randbytes(6))]))
    return [*chunks, (b"IEND", b"")]


NOTES: list[Chunk] = [
    (b"gAMA", struct.pack(">I", 45455)),
    (b"gAMA", b"\0"),
    (b"cHRM", bytes(32)),
    (b"cHRM", bytes(31)),
    (b"sRGB", b"\0"),
    (b"pHYs", bytes(9)),
    (b"pHYs", bytes(8)),
    (b"tEXt", b"Title\0a picture"),
    (b"tEXt", b"no value"),
    (b"tEXt", b""),
    (b"zTXt", b"Title\0\0" + zlib.compress(b"a picture")),
    (b"zTXt", b"Title\0\0nonsense"),
    (b"zTXt", b"Title\0\1" + zlib.compress(b"a picture")),
    (b"zTXt", b"Title\0\0" + zlib.compress(bytes(1 << 20))),
    (b"zTXt", b"Title\0\0" + zlib.compress(bytes((1 << 20) + 1))),
    (b"iTXt", b"Title\0\0\0en\0\0a picture"),
    (b"iTXt", b"Title\0\1\0en\0\0" + zlib.compress(bytes(2 << 20))),
    (b"iTXt", b"Title\0\1\1en\0\0what"),
    (b"iCCP", b"profile\0\0" + zlib.compress(bytes(300))),
    (b"iCCP", b"profile\0\1" + zlib.compress(bytes(300))),
    (b"iCCP", b"profile\0"),
    (b"iCCP", b"profile\0\0nonsense"),
    (b"ABCD", b"critical, and nobody knows it"),
    (b"abcd", b"ancillary"),
    (b"a_1d", b"an odd name"),
    (b"ab d", b"no name"),
    (b"IDAT", b""),
    (b"IEND", b""),
    (b"acTL", struct.pack(">II", 1, 0)),
    (b"acTL", struct.pack(">II", 3, 0)),
    (b"acTL", b"\0\0\0"),
    (b"fcTL", struct.pack(">IIIIIHHBB", 0, 2, 1, 0, 0, 1, 1, 0, 0)),
    (b"fcTL", struct.pack(">IIIIIHHBB", 1, 1, 1, 0, 0, 1, 1, 0, 0)),
    (b"fdAT", struct.pack(">I", 1) + zlib.compress(bytes(8))),
]


# What may be done to a file.


def change_byte(rng: random.Random, file: bytes) -> bytes:
    at = rng.randrange(len(SIGNATURE), len(file))
    return file[:at] + bytes([file[at] ^ 1 << rng.randrange(8)]) + file[at + 1 :]


def truncate(rng: random.Random, file: bytes) -> bytes:
    return file[: rng.randrange(len(SIGNATURE), len(file))]


def truncate_end(rng: random.Random, file: bytes) -> bytes:
    return file[: len(file) - rng.randrange(1, 40)]


def drop_bytes(rng: random.Random, file: bytes) -> bytes:
    at = rng.randrange(len(SIGNATURE), len(file))
    return file[:at] + file[at + rng.randrange(1, 9) :]


def insert_bytes(rng: random.Random, file: bytes) -> bytes:
    at = rng.randrange(len(SIGNATURE), len(file) + 1)
    return file[:at] + rng.randbytes(rng.randrange(1, 9)) + file[at:]


def append(rng: random.Random, file: bytes) -> bytes:
    return file + rng.randbytes(20)


DAMAGES: list[Callable[[random.Random, bytes], bytes]] = [
    change_byte, truncate, truncate_end, drop_bytes, insert_bytes, append,
]  # fmt: skip


def change_pixels(rng: random.Random, chunks: list[Chunk]) -> list[Chunk]:
    """Damages the compressed data and computes the checksums anew."""
    damaged = list(chunks)
    at = rng.choice([i for i, (name, _) in enumerate(chunks) if name == b"IDAT"])
    body = damaged[at][1]
    kind = rng.randrange(6)
    if kind == 0 and body:
        place = rng.randrange(len(body))
        body = body[:place] + bytes([body[place] ^ 1 << rng.randrange(8)]) + body[place + 1 :]
    elif kind == 1:
        body = body[: len(body) - rng.randrange(1, 9)]
    elif kind == 2:
        body += rng.randbytes(4)
    elif kind == 3:
        del damaged[at]
        return damaged
    elif kind == 4 and len(body) > 1:  # another window: 256 bytes to 32 KiB
        first = rng.randrange(8) << 4 | 8
        body = bytes([first, (31 - first * 256 % 31) % 31]) + body[2:]
    else:
        damaged.insert(at, rng.choice(NOTES))
        return damaged
    damaged[at] = damaged[at][0], body
    return damaged


def change_chunks(rng: random.Random, chunks: list[Chunk]) -> list[Chunk]:
    changed = list(chunks)
    kind = rng.randrange(4)
    if kind == 0:
        changed.insert(rng.randrange(len(changed) + 1), changed[rng.randrange(len(changed))])
    elif kind == 1:
        del changed[rng.randrange(len(changed))]
    elif kind == 2:
        changed.insert(rng.randrange(len(changed) + 1), rng.choice(NOTES))
    else:
        at = rng.randrange(len(changed))
        name, body = changed[at]
        kept = 8 if name == b"IHDR" else 0  # a size of many millions of pixels takes long
        body = body[:kept] + change_byte(rng, SIGNATURE + body[kept:])[8:] if body else b"\0"
        changed[at] = name, body
    return changed


@pytest.mark.parametrize("seed", range(8))
def test_random_files(seed):
    rng = random.Random(seed)
    for _ in range(60):
        check(joined(random_png(rng)))


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damaged_files(damage):
    rng = random.Random(damage.__name__)
    for _ in range(150):
        check(damage(rng, joined(random_png(rng))))


@pytest.mark.parametrize("change", [change_pixels, change_chunks])
def test_files_with_other_chunks(change):
    rng = random.Random(change.__name__)
    for _ in range(400):
        check(joined(change(rng, random_png(rng))))


def test_checksum_split_from_the_pixels():
    # Pillow does not wait for a checksum that comes in a chunk of its own.
    rng = random.Random(1)
    size = (9, 5)
    pixels = zlib.compress(filtered(rng, size, RGB, 8, False))
    for wrong in (pixels[-4:], b"\0\0\0\0", b""):
        for end in (pixels[:-4] + wrong, b""):
            pieces = [(b"IDAT", end)] if end else [(b"IDAT", pixels[:-4]), (b"IDAT", wrong)]
            check(joined([header(size, RGB, 8, False), *pieces, (b"IEND", b"")]))


@pytest.mark.parametrize("missing", [0, 1, 3, 5])
@pytest.mark.parametrize("interlaced", [False, True])
def test_rows_that_are_missing(missing, interlaced):
    rng = random.Random(2)
    size = (9, 11)
    raw = filtered(rng, size, RGB, 8, interlaced)
    short = zlib.compress(raw[: len(raw) - missing * (9 * 3 + 1)])
    long = zlib.compress(raw + raw[: missing * 20])
    for data in (short, long, zlib.compress(raw[:-1])):
        check(joined([header(size, RGB, 8, interlaced), (b"IDAT", data), (b"IEND", b"")]))


def test_pixels_in_many_large_pieces():
    rng = random.Random(3)
    size = (300, 250)
    data = zlib.compress(filtered(rng, size, RGB, 8, False), 0)
    head = header(size, RGB, 8, False)
    halves = [(b"IDAT", data[:65536]), (b"IDAT", data[65536:])]
    for pieces in (parts(rng, data), [(b"IDAT", data)], halves):
        file = joined([head, *pieces, (b"IEND", b"")])
        check(file)
        check(file[:-8000])
        check(change_byte(rng, file))


def frame(number: int, width: int, height: int, x: int = 0, y: int = 0) -> Chunk:
    return b"fcTL", struct.pack(">IIIIIHHBB", number, width, height, x, y, 1, 1, 0, 0)


@pytest.mark.parametrize(("color", "depth"), KINDS)
@pytest.mark.parametrize("interlaced", [False, True])
def test_the_first_frame_of_an_animation(color, depth, interlaced):
    rng = random.Random(color * 100 + depth)
    head = header((12, 10), color, depth, interlaced)
    palette = [(b"PLTE", rng.randbytes(3 << min(depth, 8)))] if color == PALETTE else []
    small = zlib.compress(filtered(rng, (5, 4), color, depth, interlaced))
    whole = zlib.compress(filtered(rng, (12, 10), color, depth, interlaced))
    count = b"acTL", struct.pack(">II", 2, 0)
    for chunks in (
        [count, frame(0, 5, 4, 3, 2), (b"IDAT", small), frame(1, 5, 4)],
        [count, (b"IDAT", whole), frame(0, 5, 4), (b"fdAT", struct.pack(">I", 1) + small)],
        [count, frame(0, 5, 4, 7, 6), (b"fdAT", struct.pack(">I", 1) + small)],
        [count, frame(0, 5, 4, 7, 6), (b"fdAT", struct.pack(">I", 2) + small)],
        [count, frame(0, 5, 4, 8, 6), (b"IDAT", small)],
        [frame(0, 5, 4, 7, 6), (b"IDAT", small[:9]), (b"fdAT", struct.pack(">I", 1) + small[9:])],
    ):
        check(joined([head, *palette, *chunks, (b"IEND", b"")]))


# Which way up.


def profile(block: bytes) -> bytes:
    """As ImageMagick writes EXIF metadata."""
    digits = block.hex()
    lines = "\n".join(digits[i : i + 72] for i in range(0, len(digits), 72))
    return f"\nexif\n{len(block):8}\n{lines}\n".encode()


XMP = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><r tiff:Orientation="%d"/></x:xmpmeta>'
XMP_TAG = b"<tiff:Orientation>%d</tiff:Orientation>"
KEY = b"Raw profile type exif\0"
ORIENTATIONS: dict[str, list[Chunk]] = {
    "none": [],
    "exif": [(b"eXIf", exif(6))],
    "exif of the other order": [(b"eXIf", exif(8, "<"))],
    "exif with a prefix": [(b"eXIf", b"Exif\0\0" + exif(6))],
    "exif twice": [(b"eXIf", exif(3)), (b"eXIf", exif(6))],
    "empty exif": [(b"eXIf", b"")],
    "nonsense in exif": [(b"eXIf", b"nonsense")],
    "nonsense orientation": [(b"eXIf", exif(9))],
    "profile": [(b"tEXt", KEY + profile(exif(6)))],
    "profile with a prefix": [(b"tEXt", KEY + profile(b"Exif\0\0" + exif(7)))],
    "compressed profile": [(b"zTXt", KEY + b"\0" + zlib.compress(profile(exif(5))))],
    "damaged profile": [(b"zTXt", KEY + b"\0nonsense")],
    "international profile": [(b"iTXt", KEY + b"\0\0en\0\0" + profile(exif(2)))],
    "profile that is no hexadecimal": [(b"tEXt", KEY + b"\nexif\n  3\nxyz\n")],
    "profile with spaces": [(b"tEXt", KEY + profile(exif(4)).replace(b"01", b" 01 "))],
    "profile without lines": [(b"tEXt", KEY + b"abc")],
    "exif and profile": [(b"tEXt", KEY + profile(exif(3))), (b"eXIf", exif(6))],
    "exif as text": [(b"tEXt", b"exif\0" + exif(6))],
    "xmp": [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP % 6)],
    "xmp tag": [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP_TAG % 8)],
    "compressed xmp": [(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(XMP % 5))],
    "xmp of no known text": [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0\xff" + XMP % 6)],
    "xmp as text": [(b"tEXt", b"XML:com.adobe.xmp\0" + XMP % 6)],
    "cut xmp": [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0" + XMP % 6)],
    "nonsense in xmp": [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP % 9)],
    "xmp and exif": [(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP % 3), (b"eXIf", exif(6))],
    "xmp and exif of nothing": [
        (b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + XMP % 3),
        (b"eXIf", b"MM\0*\0\0\0\x08\0\0\0\0\0\0"),
    ],
}


@pytest.mark.parametrize("kind", ORIENTATIONS)
def test_orientation(kind):
    rng = random.Random(kind)
    size = (9, 5)
    head = header(size, RGB, 8, False)
    data = b"IDAT", zlib.compress(filtered(rng, size, RGB, 8, False))
    notes = ORIENTATIONS[kind]
    for chunks in ([head, *notes, data], [head, data, *notes], [*notes, head, data]):
        check(joined([*chunks, (b"IEND", b"")]), upright=True)
        check(joined([*chunks, (b"IEND", b"")]), upright=False)
