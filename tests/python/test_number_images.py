# SPDX-License-Identifier: Apache-2.0
"""Alpha, 16 bits and arrays of any type in chains that C++ runs, compared with Pillow and numpy."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

import foreload
from foreload import transforms as t

RANDOM = np.random.default_rng(5)
TYPES = ["uint8", "uint16", "int16", "int32", "float16", "float32", "float64"]


def png(pixels: np.ndarray) -> bytes:
    """A PNG file of 16 bits, which Pillow writes for grey images only."""
    height, width = pixels.shape[:2]
    color = {1: 0, 2: 4, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    header = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def saved(image: Image.Image, kind: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def made(data: bytes, *steps: t.Step) -> np.ndarray:
    return t.Compose([*steps, t.ToLayout("HWC")]).compile().run(data, 1, 2, 3)


def pixels(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.startswith("float"):
        return RANDOM.normal(0, 100, shape).astype(dtype)
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max, shape, dtype, endpoint=True)


def smooth(shape: tuple[int, ...]) -> np.ndarray:
    """Words that stay within 16 bits when they are resized."""
    return (pixels("uint16", shape) // 2 + 16384).astype(np.uint16)


def test_alpha_is_kept():
    image = Image.fromarray(pixels("uint8", (21, 30, 4)))
    np.testing.assert_array_equal(made(saved(image), t.Decode("RGBA")), np.asarray(image))
    cropped = made(saved(image), t.Decode("RGBA"), t.CenterCrop(10))
    np.testing.assert_array_equal(cropped, np.asarray(image.crop((10, 6, 20, 16))))


@pytest.mark.parametrize("how", ["nearest", "bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(9, 14), (40, 33), (21, 12)])
def test_images_with_alpha_are_resized_as_by_pillow(how, size):
    image = Image.fromarray(pixels("uint8", (21, 30, 4)))
    found = made(saved(image), t.Decode("RGBA"), t.Resize(size, how))
    resampling = getattr(Image.Resampling, how.upper())
    np.testing.assert_array_equal(found, np.asarray(image.resize(size[::-1], resampling)))


def test_what_has_no_alpha_is_opaque_and_transparent_colours_are_not():
    grey = Image.fromarray(pixels("uint8", (8, 9)))
    colored = Image.fromarray(pixels("uint8", (8, 9, 3)))
    both = Image.fromarray(pixels("uint8", (8, 9, 2)), "LA")
    palette = colored.quantize(16)
    for image, options in (
        (grey, {}),
        (colored, {}),
        (both, {}),
        (palette, {"transparency": 3}),
        (colored, {"transparency": tuple(np.asarray(colored)[2, 3].tolist())}),
    ):
        data = saved(image, **options)
        expected = Image.open(io.BytesIO(data)).convert("RGBA")
        np.testing.assert_array_equal(made(data, t.Decode("RGBA")), np.asarray(expected))
    data = saved(colored, "JPEG")
    expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGBA"))
    np.testing.assert_array_equal(made(data, t.Decode("RGBA")), expected)
    bmp = made(saved(colored, "BMP"), t.Decode("RGBA"))
    np.testing.assert_array_equal(bmp, np.asarray(colored.convert("RGBA")))


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_sixteen_bits_are_kept(channels):
    stored = pixels("uint16", (12, 17, channels))
    data = png(stored[:, :, 0] if channels == 1 else stored)
    opaque = np.full((12, 17, 1), 65535, np.uint16)
    colors = stored[:, :, :3] if channels > 2 else stored[:, :, :1].repeat(3, 2)
    alpha = stored[:, :, -1:] if channels in (2, 4) else opaque
    wide = made(data, t.Decode(dtype="uint16"))
    assert wide.dtype == np.uint16
    np.testing.assert_array_equal(wide, colors)
    with_alpha = made(data, t.Decode("RGBA", dtype=np.uint16), t.CenterCrop((12, 5)))
    np.testing.assert_array_equal(with_alpha, np.concatenate([colors, alpha], 2)[:, 6:11])
    weights = np.array([19595, 38470, 7471], np.uint64)
    grey = ((colors.astype(np.uint64) * weights).sum(2) + 0x8000) >> 16
    np.testing.assert_array_equal(made(data, t.Decode("L", dtype="uint16"))[:, :, 0], grey)
    if channels > 1:
        high = (np.concatenate([colors, alpha], 2) >> 8).astype(np.uint8)
        np.testing.assert_array_equal(made(data, t.Decode("RGBA")), high)


@pytest.mark.parametrize("size", [(6, 11), (30, 40), (12, 9)])
def test_sixteen_bits_are_resized_as_by_pillow(size):
    stored = smooth((12, 17, 3))
    found = made(png(stored), t.Decode(dtype="uint16"), t.Resize(size))
    for channel in range(3):
        image = Image.fromarray(stored[:, :, channel])
        expected = image.resize(size[::-1], Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(found[:, :, channel], np.asarray(expected))


def test_eight_bits_are_widened():
    stored = pixels("uint8", (9, 8, 3))
    for data in (saved(Image.fromarray(stored)), saved(Image.fromarray(stored), "BMP")):
        np.testing.assert_array_equal(
            made(data, t.Decode(dtype="uint16")), stored.astype(np.uint16) * 257
        )
    data = saved(Image.fromarray(stored), "JPEG")
    wide = made(data, t.Decode(dtype="uint16"))
    np.testing.assert_array_equal(wide, made(data, t.Decode()).astype(np.uint16) * 257)


def test_wide_numbers_are_scaled_and_normalised():
    stored = pixels("uint16", (9, 8, 3))
    unit = stored.astype(np.float32) / np.float32(65535)
    wide = t.Decode(dtype="uint16")
    np.testing.assert_array_equal(made(png(stored), wide, t.ToDtype("float32", scale=True)), unit)
    np.testing.assert_array_equal(
        made(png(stored), wide, t.ToDtype("float32")), stored.astype(np.float32)
    )
    mean, std = np.float32([0.4, 0.5, 0.6]), np.float32([0.2, 0.3, 0.4])
    found = made(png(stored), wide, t.Normalize(mean.tolist(), std.tolist()))
    np.testing.assert_array_equal(found, (unit - mean) / std)


@pytest.mark.parametrize("dtype", TYPES)
def test_arrays_of_all_types(dtype):
    stored = pixels(dtype, (11, 14, 3))
    for order in ("=", ">"):
        data = npy(stored.astype(stored.dtype.newbyteorder(order)))
        found = made(data, t.Decode(dtype=dtype), t.CenterCrop((7, 20)))
        assert found.dtype == stored.dtype
        np.testing.assert_array_equal(found[:, 3:17], stored[2:9])
        assert not found[:, :3].any()
        assert not found[:, 17:].any()
    flipped = made(npy(stored[:, :, 0]), t.Decode("L", dtype=dtype), t.RandomHorizontalFlip(1))
    np.testing.assert_array_equal(flipped[:, ::-1, 0], stored[:, :, 0])
    as_float = made(npy(stored), t.Decode(dtype=dtype), t.ToDtype("float32", scale=False))
    np.testing.assert_array_equal(as_float, stored.astype(np.float32))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_arrays_are_resized_as_by_pillow(dtype):
    stored = pixels(dtype, (24, 19))
    for size in ((10, 8), (30, 41)):
        found = made(npy(stored), t.Decode("L", dtype=dtype), t.Resize(size))
        expected = Image.fromarray(stored).resize(size[::-1], Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(found[:, :, 0], np.asarray(expected))


def test_batches_of_them(tmp_path):
    stored = pixels("uint16", (12, 12, 3))
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(png(stored + number))
    chain = t.Compose([t.Decode("RGBA", dtype="uint16"), t.CenterCrop(8)])
    ((batch, _),) = foreload.DataLoader(tmp_path, 3, transform=chain)
    assert batch.shape == (3, 4, 8, 8)
    expected = np.moveaxis((stored + 2)[2:10, 2:10], 2, 0)
    np.testing.assert_array_equal(batch.numpy()[2, :3], expected)
    assert (batch.numpy()[:, 3] == 65535).all()


@pytest.mark.parametrize(
    ("steps", "match"),
    [
        ([t.Decode(dtype="uint16"), t.ColorJitter(0.4)], r"step 2 \(ColorJitter\).*8-bit"),
        ([t.Decode("RGBA"), t.ColorJitter(0.4)], r"step 2 \(ColorJitter\).*alpha"),
        ([t.Decode("RGBA"), t.Normalize([0.5], [0.5])], r"step 2 \(Normalize\).*alpha"),
        ([t.Decode(dtype="int16"), t.ToDtype("uint8")], r"step 2 \(ToDtype\).*int16"),
        ([t.ToDtype("uint16")], r"step 1 \(ToDtype\): uint16 cannot be made from uint8"),
    ],
)
def test_what_makes_no_sense_is_named(steps, match):
    with pytest.raises(ValueError, match=match):
        t.Compose(steps).compile()


def test_files_that_hold_something_else_are_named():
    image = saved(Image.fromarray(pixels("uint8", (4, 4, 3))))
    with pytest.raises(ValueError, match=r"float32, which only \.npy files hold"):
        made(image, t.Decode(dtype="float32"))
    with pytest.raises(ValueError, match=r"int64|'<i8'"):
        made(npy(np.zeros((4, 4), np.int64)), t.Decode())
    with pytest.raises(ValueError, match=r"float32 of shape \(4, 4\).*decodes uint8"):
        made(npy(np.zeros((4, 4), np.float32)), t.Decode())
    with pytest.raises(ValueError, match="Fortran"):
        made(npy(np.asfortranarray(pixels("uint8", (4, 5)))), t.Decode())
    with pytest.raises(ValueError, match="shape"):
        made(npy(np.zeros((0, 5), np.uint8)), t.Decode())
    with pytest.raises(ValueError, match="dtype 'uint64' is not available"):
        t.Decode(dtype="uint64")
