# SPDX-License-Identifier: Apache-2.0
"""Writes data/: small odd images, and in expected.txt what Pillow makes of each of them.

Needs Pillow, and cjpeg and jpegtran from libjpeg-turbo. The files that are committed were made with
Pillow 13.0.0. Running it again with another Pillow shows in the diff of expected.txt what changed.

A line of expected.txt is: file, what was asked for, width, height, FNV-1a of the pixels; or: file,
what was asked for, "error".
"""

import io
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

from PIL import Image, ImageOps

DATA = Path(__file__).parent / "data"
SHRINKS = {"half": 2, "quarter": 4, "eighth": 8}


def picture(mode: str, width: int, height: int) -> Image.Image:
    """Edges in all directions, slopes, and a little noise, so that mistakes show."""
    pixels = bytearray()
    noise = 12345
    for y in range(height):
        for x in range(width):
            noise = (noise * 1103515245 + 12345) & 0x7FFFFFFF
            grain = noise >> 26
            edge = 90 if (x // 5 + y // 7) % 2 else 0
            slope = 255 * x // max(1, width - 1), 255 * y // max(1, height - 1)
            color = (slope[0] // 2 + edge + grain, 220 - slope[1] // 2 - edge + grain)
            blue = 255 if (x - width // 2) ** 2 + (y - height // 2) ** 2 < 60 else grain * 3
            pixels += bytes(min(255, max(0, value)) for value in (*color, blue))
    image = Image.frombytes("RGB", (width, height), bytes(pixels))
    return image if mode == "RGB" else image.convert(mode)


# JPEG.


def jpeg(mode: str = "RGB", width: int = 45, height: int = 35, **options) -> bytes:
    out = io.BytesIO()
    picture(mode, width, height).save(out, "JPEG", **{"quality": 85, **options})
    return out.getvalue()


def tool(command: list[str], data: bytes) -> bytes:
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def cjpeg(*options: str, width: int = 45, height: int = 35) -> bytes:
    ppm = io.BytesIO()
    picture("RGB", width, height).save(ppm, "PPM")
    return tool(["cjpeg", "-quality", "85", *options], ppm.getvalue())


def separate_scans() -> bytes:
    script = DATA / "scans.tmp"
    script.write_text("0;\n1;\n2;\n")
    made = tool(["jpegtran", "-scans", str(script)], jpeg(subsampling=2))
    script.unlink()
    return made


def first_scans(data: bytes, count: int) -> bytes:
    """The first scans of a progressive image, ended properly."""
    starts = [match.start() for match in re.finditer(rb"\xff\xda", data)]
    tables = data.rfind(b"\xff\xc4", 0, starts[count])
    cut = tables if tables > starts[count - 1] else starts[count]
    return data[:cut] + b"\xff\xd9"


def without_segments(data: bytes, marker: int) -> bytes:
    kept, at = bytearray(data[:2]), 2
    while data[at + 1] != 0xDA:
        end = at + 2 + struct.unpack(">H", data[at + 2 : at + 4])[0]
        if data[at + 1] != marker:
            kept += data[at:end]
        at = end
    return bytes(kept) + data[at:]


def with_segment(data: bytes, marker: int, body: bytes) -> bytes:
    return data[:2] + bytes([0xFF, marker]) + struct.pack(">H", len(body) + 2) + body + data[2:]


def exif(orientation: int, order: str = "<", kind: int = 3, count: int = 1) -> bytes:
    value = struct.pack(order + ("HH" if kind == 3 else "I"), *([orientation, 0][: 5 - kind]))
    entry = struct.pack(order + "HHI", 0x0112, kind, count) + value
    head = b"II*\0" if order == "<" else b"MM\0*"
    return head + struct.pack(order + "IH", 8, 1) + entry + struct.pack(order + "I", 0)


def exif_elsewhere(kind: int, value: bytes) -> bytes:
    """One orientation whose value lies behind the directory."""
    entry = struct.pack("<HHII", 0x0112, kind, 1, 26)
    return b"II*\0" + struct.pack("<IH", 8, 1) + entry + struct.pack("<I", 0) + value


def exif_of_two() -> bytes:
    """Two orientations; the first one counts."""
    entries = b"".join(struct.pack("<HHIHH", 0x0112, 3, 1, value, 0) for value in (6, 3))
    return b"II*\0" + struct.pack("<IH", 8, 2) + entries + struct.pack("<I", 0)


def lossless(mode: str, restart: bool = False) -> bytes:
    """A lossless image (SOF3), which Pillow reads and does not write. Differences to the pixel on
    the left are coded by their number of bits, for which all codes are of four bits."""
    image = picture(mode, 45, 35)
    channels = len(mode) if mode != "L" else 1
    rows = list(image.tobytes())
    bits = ""
    body = bytearray()
    width = image.width * channels

    def flush() -> None:
        nonlocal bits
        bits += "1" * (-len(bits) % 8)
        for at in range(0, len(bits), 8):
            byte = int(bits[at : at + 8], 2)
            body.extend([byte, 0] if byte == 0xFF else [byte])
        bits = ""

    for y in range(image.height):
        if restart and y > 0:
            flush()
            body.extend([0xFF, 0xD0 + (y - 1) % 8])
        for x in range(width):
            if x >= channels:
                before = rows[y * width + x - channels]
            elif y > 0 and not restart:
                before = rows[(y - 1) * width + x]
            else:
                before = 128
            difference = rows[y * width + x] - before
            size = abs(difference).bit_length()
            low = difference if difference > 0 else difference + (1 << size) - 1
            bits += f"{size:04b}" + (f"{low:0{size}b}" if size else "")
    flush()
    table = bytes([0, 0, 0, 0, 10, *[0] * 12, *range(10)])
    ids = [82, 71, 66][:channels]  # R, G, B: no transform of colours
    frame = struct.pack(">BHHB", 8, image.height, image.width, channels)
    frame += b"".join(bytes([number, 0x11, 0]) for number in ids)
    scan = bytes([channels]) + b"".join(bytes([number, 0]) for number in ids) + bytes([1, 0, 0])
    made = b"\xff\xd8"
    segments = [(0xC4, table), (0xC3, frame), (0xDA, scan)]
    if restart:
        segments.insert(0, (0xDD, struct.pack(">H", image.width)))
    for marker, content in segments:
        made += bytes([0xFF, marker]) + struct.pack(">H", len(content) + 2) + content
    return made + bytes(body) + b"\xff\xd9"


def marked(data: bytes, marker: int) -> bytes:
    """With a marker in the middle of the scan."""
    middle = (data.index(b"\xff\xda") + len(data)) // 2
    return data[:middle] + bytes([0xFF, marker]) + data[middle:]


def ycck() -> bytes:
    """Pillow writes CMYK only; the Adobe segment says how to read the same bytes otherwise."""
    data = bytearray(jpeg("CMYK"))
    adobe = data.index(b"Adobe")
    data[adobe + 11] = 2
    return bytes(data)


def damaged(data: bytes) -> bytes:
    body = bytearray(data)
    scan = data.index(b"\xff\xda") + 14
    for at in range(scan + 200, len(data) - 100, 97):
        if 0xFF not in body[at - 1 : at + 2]:
            body[at] ^= 0x15
    return bytes(body)


def jpegs() -> dict[str, bytes]:
    plain = jpeg(subsampling=2)
    progressive = jpeg(subsampling=2, progressive=True)
    oriented = jpeg(width=21, height=14, subsampling=2)
    files = {
        "444": jpeg(subsampling=0),
        "422": jpeg(subsampling=1),
        "420": plain,
        "440": cjpeg("-sample", "1x2"),
        "411": cjpeg("-sample", "4x1"),
        "410": cjpeg("-sample", "4x2"),
        "311": cjpeg("-sample", "3x1"),
        "mixed_sampling": cjpeg("-sample", "2x2,1x2,2x1"),
        "progressive_444": jpeg(subsampling=0, progressive=True),
        "progressive_420": progressive,
        "progressive_first_scans": first_scans(progressive, 3),
        "separate_scans": separate_scans(),
        "arithmetic": cjpeg("-arithmetic", "-sample", "2x2"),
        "grey": jpeg("L"),
        "grey_progressive": jpeg("L", progressive=True),
        "cmyk": jpeg("CMYK"),
        "cmyk_progressive": jpeg("CMYK", progressive=True),
        "cmyk_without_adobe": without_segments(jpeg("CMYK"), 0xEE),
        "ycck": ycck(),
        "rgb_colors": jpeg(keep_rgb=True),
        "restart_blocks": jpeg(subsampling=2, restart_marker_blocks=2),
        "restart_rows": jpeg(subsampling=1, restart_marker_rows=1),
        "low_quality": jpeg(subsampling=2, quality=5),
        "best_quality": jpeg(subsampling=2, quality=100),
        "without_huffman_tables": without_segments(plain, 0xC4),
        "1x1": jpeg(width=1, height=1, subsampling=2),
        "1x40": jpeg(width=1, height=40, subsampling=2),
        "40x1": jpeg(width=40, height=1, subsampling=2),
        "2x2": jpeg(width=2, height=2, subsampling=2),
        "17x33": jpeg(width=17, height=33, subsampling=1),
        "16x16": jpeg(width=16, height=16, subsampling=2),
        "65500x2": jpeg("L", width=65500, height=2, quality=2),
        "trailing_bytes": plain + b"these belong to nobody\xff\xd8\xff",
        "fill_bytes": plain[:2] + b"\xff\xff\xff" + plain[2:],
        "junk_between_segments": plain[:20] + b"junk" + plain[20:],
        "early_end": plain[:-300] + b"\xff\xd9",
        "damaged": damaged(jpeg(subsampling=2, width=90, height=70)),
        "damaged_restart": damaged(jpeg(width=90, height=70, restart_marker_blocks=4)),
        "truncated": plain[: len(plain) * 2 // 3],
        "truncated_in_header": plain[:100],
        "truncated_before_end_marker": plain[:-2],
        "truncated_last_byte": plain[:-1],
        "truncated_progressive": progressive[:-40],
        "truncated_progressive_end_marker": progressive[:-2],
        "two_channels": plain[: plain.index(b"\xff\xc0") + 9]
        + b"\x02"
        + plain[plain.index(b"\xff\xc0") + 10 :],
        "xmp_orientation": with_segment(
            oriented, 0xE1, b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="6"/>'
        ),
        "exif_long_type": with_segment(oriented, 0xE1, b"Exif\0\0" + exif(8, kind=4)),
        "exif_nonsense": with_segment(oriented, 0xE1, b"Exif\0\0" + exif(9)),
        "exif_after_xmp": with_segment(
            with_segment(oriented, 0xE1, b"Exif\0\0" + exif(3)),
            0xE1,
            b"http://ns.adobe.com/xap/1.0/\0<tiff:Orientation>6</tiff:Orientation>",
        ),
        "exif_in_two_segments": with_segment(
            with_segment(oriented, 0xE1, b"Exif\0\0" + exif(6)[13:]),
            0xE1,
            b"Exif\0\0" + exif(6)[:13],
        ),
        "exif_count_2": with_segment(oriented, 0xE1, b"Exif\0\0" + exif(6, count=2)),
        "exif_count_0": with_segment(oriented, 0xE1, b"Exif\0\0" + exif(6, count=0)),
        "exif_prefix_twice": with_segment(oriented, 0xE1, b"Exif\0\0Exif\0\0" + exif(6)),
        "exif_prefix_thrice": with_segment(oriented, 0xE1, b"Exif\0\0" * 3 + exif(6)),
        "exif_odd_order": with_segment(oriented, 0xE1, b"Exif\0\0MM*\0" + exif(6, order=">")[4:]),
        "exif_rational": with_segment(
            oriented, 0xE1, b"Exif\0\0" + exif_elsewhere(5, struct.pack("<II", 12, 2))
        ),
        "exif_double": with_segment(
            oriented, 0xE1, b"Exif\0\0" + exif_elsewhere(12, struct.pack("<d", 6))
        ),
        "exif_value_missing": with_segment(
            oriented, 0xE1, b"Exif\0\0" + exif_elsewhere(12, b"\0\0\0")
        ),
        "exif_text_type": with_segment(oriented, 0xE1, b"Exif\0\0" + exif(0x36, kind=4)),
        "exif_two_entries": with_segment(oriented, 0xE1, b"Exif\0\0" + exif_of_two()),
        "exif_not_tiff": with_segment(oriented, 0xE1, b"Exif\0\0not a block of TIFF"),
        "exif_not_tiff_with_resolution": with_segment(
            jpeg(width=21, height=14, dpi=(72, 72)), 0xE1, b"Exif\0\0not a block of TIFF"
        ),
        "lossless_rgb": lossless("RGB"),
        "lossless_grey": lossless("L"),
        "lossless_restart": lossless("RGB", restart=True),
        "lossless_truncated": lossless("RGB")[:-100],
        "frame_in_scan": marked(plain, 0xC0),
        "scan_in_scan": marked(plain, 0xDA),
        "comment_in_scan": marked(plain, 0xFE),
        "restart_in_scan": marked(plain, 0xD3),
        "unknown_marker_in_scan": marked(plain, 0x47),
        "frame_in_progressive_scan": marked(progressive, 0xC2),
        "frame_behind_scan": plain[:-2] + b"\xff\xc0\xff\xd9",
        "tables_first": b"\xff\xd8\xff\xd9" + plain,
        "empty_segment": plain[:2] + b"\xff\xe5\0\1" + plain[2:],
        "unknown_marker_in_header": plain[:2] + b"\xff\x01" + plain[2:],
        "short_jfif": with_segment(plain, 0xE0, b"JFIF\0"),
        "short_adobe": with_segment(plain, 0xEE, b"Adobe\0"),
        "short_photoshop": with_segment(plain, 0xED, b"Photoshop 3.0\x008BIM\4\4"),
        "short_profile": with_segment(plain, 0xE2, b"ICC_PROFILE\0\1"),
    }
    for orientation in range(1, 9):
        order = "<" if orientation % 2 else ">"
        body = b"Exif\0\0" + exif(orientation, order)
        files[f"orientation_{orientation}"] = with_segment(oriented, 0xE1, body)
    return {f"{name}.jpg": data for name, data in files.items()}


# PNG, written by hand: Pillow writes only some of its kinds.

GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2)]
ADAM7 += [(0, 1, 1, 2)]


def chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def packed(samples: list[int], depth: int) -> bytes:
    if depth == 16:
        return b"".join(struct.pack(">H", sample) for sample in samples)
    bits = "".join(f"{sample:0{depth}b}" for sample in samples)
    bits += "0" * (-len(bits) % 8)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits), 8))


def png(
    color: int, depth: int, width: int = 23, height: int = 19, interlaced: bool = False,
    extra: bytes = b"", most: int | None = None,
) -> bytes:  # fmt: skip
    channels = CHANNELS[color]
    limit = (1 << depth) if most is None else most

    def sample(x: int, y: int, channel: int) -> int:
        return (x * 2654435761 + y * 40503 * 977 + channel * 12289 + x * y * 31) // 7 % limit

    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    raw = bytearray()
    for left, top, right, down in passes:
        columns = range(left, width, right)
        if not columns:
            continue
        for y in range(top, height, down):
            row = [sample(x, y, channel) for x in columns for channel in range(channels)]
            raw += b"\0" + packed(row, depth)
    head = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    body = chunk(b"IHDR", head) + extra + chunk(b"IDAT", zlib.compress(bytes(raw), 9))
    return b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b"")


def palette(count: int) -> bytes:
    return chunk(
        b"PLTE", bytes(i * 7 * (channel + 3) % 256 for i in range(count) for channel in range(3))
    )


def pngs() -> dict[str, bytes]:
    files = {}
    for interlaced in (False, True):
        suffix = "_interlaced" if interlaced else ""
        for depth in (1, 2, 4, 8, 16):
            files[f"grey_{depth}{suffix}"] = png(GREY, depth, interlaced=interlaced)
        for depth in (1, 2, 4, 8):
            files[f"palette_{depth}{suffix}"] = png(
                PALETTE, depth, interlaced=interlaced, extra=palette(1 << depth)
            )
        for depth in (8, 16):
            files[f"rgb_{depth}{suffix}"] = png(RGB, depth, interlaced=interlaced)
            files[f"rgba_{depth}{suffix}"] = png(RGBA, depth, interlaced=interlaced)
            files[f"grey_alpha_{depth}{suffix}"] = png(GREY_ALPHA, depth, interlaced=interlaced)
    files["grey_16_dark"] = png(GREY, 16, most=300)
    files["grey_transparent"] = png(GREY, 8, extra=chunk(b"tRNS", b"\0\x05"))
    files["grey_1_transparent"] = png(GREY, 1, extra=chunk(b"tRNS", b"\0\x01"))
    files["grey_16_transparent"] = png(GREY, 16, extra=chunk(b"tRNS", b"\0\x05"))
    files["rgb_transparent"] = png(RGB, 8, extra=chunk(b"tRNS", b"\0\x05\0\x06\0\x07"))
    files["palette_transparent"] = png(
        PALETTE, 4, extra=palette(16) + chunk(b"tRNS", bytes(range(0, 160, 10)))
    )
    files["palette_one_transparent"] = png(
        PALETTE, 4, extra=palette(16) + chunk(b"tRNS", b"\xff\xff\0\xff")
    )
    files["palette_short"] = png(PALETTE, 4, extra=palette(11))
    files["rgb_with_palette"] = png(RGB, 8, extra=palette(8))
    files["gamma"] = png(RGB, 8, extra=chunk(b"gAMA", struct.pack(">I", 100000)))
    files["1x1"] = png(RGB, 8, 1, 1)
    files["1x1_interlaced"] = png(RGB, 8, 1, 1, True)
    files["1x30"] = png(GREY, 1, 1, 30)
    files["30x1"] = png(GREY, 2, 30, 1)
    files["3x5_interlaced"] = png(RGB, 8, 3, 5, True)
    files["orientation_6"] = png(RGB, 8, extra=chunk(b"eXIf", exif(6, ">")))
    out = io.BytesIO()
    picture("RGB", 45, 35).save(out, "PNG")  # with filters
    files["filtered"] = out.getvalue()
    plain = files["filtered"]
    files["truncated"] = plain[: len(plain) // 2]
    files["truncated_in_header"] = plain[:30]
    files["without_end_chunk"] = plain[:-12]
    files["trailing_bytes"] = plain + b"these belong to nobody"
    files["bad_header_checksum"] = plain[:29] + b"\0\0\0\0" + plain[33:]
    files["bad_note_checksum"] = png(RGB, 8, extra=chunk(b"tEXt", b"a\0b")[:-1] + b"?")
    files["short_data"] = png(RGB, 8, 23, 19).replace(
        struct.pack(">II", 23, 19), struct.pack(">II", 23, 25), 1
    )
    head = b"IHDR" + struct.pack(">II", 23, 25) + bytes([8, 2, 0, 0, 0])
    files["short_data"] = (
        files["short_data"][:29] + struct.pack(">I", zlib.crc32(head)) + files["short_data"][33:]
    )
    return {f"{name}.png": data for name, data in files.items()}


# WebP.


def webp(mode: str = "RGB", width: int = 45, height: int = 35, **options) -> bytes:
    out = io.BytesIO()
    picture(mode, width, height).save(out, "WEBP", **{"quality": 80, **options})
    return out.getvalue()


def webps() -> dict[str, bytes]:
    plain = webp()
    frames = [picture("RGB", 45, 35).rotate(angle) for angle in (90, 180)]
    files = {
        "lossy": plain,
        "lossy_alpha": webp("RGBA", exact=True),
        "lossless": webp(lossless=True),
        "lossless_alpha": webp("RGBA", lossless=True),
        "low_quality": webp(quality=1),
        "simple_filter": webp(method=0, quality=30),
        "animated": webp(save_all=True, append_images=frames),
        "1x1": webp(width=1, height=1),
        "1x30": webp(width=1, height=30),
        "30x1": webp(width=30, height=1),
        "orientation_6": webp(width=21, height=14, exif=exif(6)),
        "xmp_orientation": webp(width=21, height=14, xmp=b'<x tiff:Orientation="5"/>'),
        "trailing_bytes": plain + b"these belong to nobody",
        "truncated": plain[:-40],
        "truncated_in_header": plain[:18],
    }
    return {f"{name}.webp": data for name, data in files.items()}


def others() -> dict[str, bytes]:
    return {
        "really_a_png.jpg": png(RGB, 8, 5, 4),
        "really_a_jpeg.png": jpeg(width=5, height=4),
        "empty.jpg": b"",
        "text.jpg": b"This is not an image.",
        "only_a_start.jpg": b"\xff\xd8\xff",
    }


# What Pillow makes of them.


def fnv1a(data: bytes) -> int:
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = ((digest ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return digest


def shrunk(image: Image.Image, shrink: int) -> Image.Image:
    width, height = image.size
    if min(width, height) < shrink:
        raise LookupError("too small to shrink")
    image.draft("RGB", (width // shrink, height // shrink))
    if image.size != ((width + shrink - 1) // shrink, (height + shrink - 1) // shrink):
        raise LookupError("too small to shrink")
    return image.convert("RGB")


WANTS: dict[str, Callable[[Image.Image], Image.Image]] = {
    "rgb": lambda image: image.convert("RGB"),
    "grey": lambda image: image.convert("L"),
    "upright": lambda image: ImageOps.exif_transpose(image).convert("RGB"),
}


def expectations(name: str, data: bytes) -> list[str]:
    lines: list[str] = []
    wants = dict(WANTS)
    if name.endswith(".jpg") and not name.startswith("lossless"):
        for want, shrink in SHRINKS.items():
            wants[want] = lambda image, shrink=shrink: shrunk(image, shrink)
    if not re.search("orient|exif", name):
        del wants["upright"]
    for want, change in wants.items():
        try:
            with Image.open(io.BytesIO(data)) as image:
                made = change(image)
        except LookupError:
            continue
        except (OSError, SyntaxError, ValueError):
            lines.append(f"{name} {want} error")
            continue
        lines.append(f"{name} {want} {made.width} {made.height} {fnv1a(made.tobytes()):016x}")
    return lines


def main() -> None:
    DATA.mkdir(exist_ok=True)
    files = {**jpegs(), **pngs(), **webps(), **others()}
    lines = []
    for name, data in sorted(files.items()):
        (DATA / name).write_bytes(data)
        lines += expectations(name, data)
    (DATA / "expected.txt").write_text("\n".join(lines) + "\n")
    sys.stdout.write(f"{len(files)} files, {sum(map(len, files.values()))} bytes\n")


if __name__ == "__main__":
    main()
