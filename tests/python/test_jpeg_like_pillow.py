# SPDX-License-Identifier: Apache-2.0
"""JPEG files of all kinds, intact and damaged in many ways: foreload refuses what Pillow refuses,
and delivers the pixels of Pillow otherwise."""

import io
import random
import warnings
from pathlib import Path

import numpy as np
import pytest

from foreload import transforms

Image = pytest.importorskip("PIL.Image")
ImageOps = pytest.importorskip("PIL.ImageOps")
pytestmark = pytest.mark.filterwarnings("ignore")

DATA = Path(__file__).parents[1] / "decode" / "data"
WHOLE = transforms.Compose([transforms.Decode()]).compile()
UPRIGHT = transforms.Compose([transforms.Decode(exif_orientation=True)]).compile()


def of_pillow(data, upright=False):
    """None: refused."""
    try:
        with warnings.catch_warnings(), Image.open(io.BytesIO(data)) as image:
            warnings.simplefilter("ignore")
            return np.asarray((ImageOps.exif_transpose(image) if upright else image).convert("RGB"))
    except Exception:
        return None


def of_foreload(data, transform=WHOLE):
    try:
        return transform.run(data, 0, 0, 0).transpose(1, 2, 0)
    except ValueError:
        return None


def make(draw):
    """A JPEG file of a random kind, and where its first scan begins."""
    mode = draw.choice(["RGB", "RGB", "L", "CMYK"])
    width, height = draw.randint(1, 90), draw.randint(1, 70)
    y, x = np.mgrid[0:height, 0:width, 0 : len(mode)][:2]
    noise = np.random.default_rng(draw.randrange(1 << 30)).integers(0, 60, x.shape)
    pixels = ((x // 7 + y // 5) % 2 * 100 + x * 70 // width + noise).astype(np.uint8)
    options = {"progressive": draw.random() < 0.5, "quality": draw.choice([30, 75, 92])}
    if mode == "RGB":
        options["subsampling"] = draw.choice([0, 1, 2])
    if draw.random() < 0.3:
        options["restart_marker_blocks"] = draw.randint(1, 9)
    file = io.BytesIO()
    Image.fromarray(pixels[..., 0] if mode == "L" else pixels, mode).save(file, "JPEG", **options)
    data = file.getvalue()
    scan = data.index(b"\xff\xda")
    return data, scan + 2 + int.from_bytes(data[scan + 2 : scan + 4], "big")


def check(data, why):
    expected = of_pillow(data)
    found = of_foreload(data)
    assert (found is None) == (expected is None), why
    if expected is None:
        return
    assert np.array_equal(found, expected), why
    # What lies outside of a crop must not matter, and a crop must not hide it.
    height, width = (side - side // 2 for side in expected.shape[:2])
    crop = transforms.Compose([transforms.CenterCrop((height, width))]).compile()
    top, left = (round((a - b) / 2) for a, b in zip(expected.shape, (height, width), strict=False))
    part = expected[top : top + height, left : left + width]
    assert np.array_equal(of_foreload(data, crop), part), why


@pytest.mark.parametrize("seed", range(8))
def test_any_marker_inside_a_scan(seed):
    """226 of 254 markers in the middle of a scan were once passed over."""
    draw = random.Random(seed)
    data, scan = make(draw)
    for marker in range(1, 255):
        at = draw.randrange(scan, len(data))
        beyond = at + draw.choice([0, 2])
        check(data[:at] + bytes([0xFF, marker]) + data[beyond:], f"marker {marker:#x} at {at}")


@pytest.mark.parametrize("seed", range(8))
def test_damaged_bytes_and_missing_ends(seed):
    draw = random.Random(100 + seed)
    data, scan = make(draw)
    for first in [2] * 60 + [scan] * 60:
        damaged = bytearray(data)
        for _ in range(draw.choice([1, 1, 3])):
            at = draw.randrange(first, len(data) if first == scan else scan)
            damaged[at] = draw.choice([0, 0xFF, draw.randrange(256)])
        if len(damaged) < 100_000:
            check(bytes(damaged), f"damage {first}")
    for _ in range(20):
        end = draw.randrange(3, len(data))
        check(data[:end], f"end at {end}")


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.jpg")))
def test_odd_files(name):
    data = (DATA / name).read_bytes()
    for upright, transform in [(False, WHOLE), (True, UPRIGHT)]:
        expected = of_pillow(data, upright)
        found = of_foreload(data, transform)
        assert (found is None) == (expected is None)
        if expected is not None:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["lossless_rgb.jpg", "progressive_first_scans.jpg"])
def test_what_an_old_libjpeg_cannot_do_needs_pillow(name, monkeypatch):
    from foreload.transforms import python_images

    monkeypatch.setattr(python_images, "HAVE_PILLOW", False)
    data = (DATA / name).read_bytes()
    try:
        found = WHOLE.run(data, 0, 0, 0).transpose(1, 2, 0)
    except ValueError as error:
        assert "libjpeg-turbo 3" in str(error)  # noqa: PT017
        assert "pip install pillow" in str(error)  # noqa: PT017
    else:  # it is new enough
        np.testing.assert_array_equal(found, of_pillow(data))
