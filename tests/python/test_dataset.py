# SPDX-License-Identifier: Apache-2.0
"""Data sets: a folder is listed as torchvision's ImageFolder lists it and kept in an index file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import foreload

IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def image_folder(
    root: Path, extensions: tuple[str, ...] = IMAGES
) -> tuple[list[str], list[tuple[str, int]]]:
    """What torchvision's DatasetFolder does: (classes, [(path, label), ...])."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    found = []
    for label, name in enumerate(classes):
        for folder, _, files in sorted(os.walk(root / name, followlinks=True)):
            found += [
                (os.path.relpath(os.path.join(folder, file), root), label)
                for file in sorted(files)
                if file.lower().endswith(extensions)
            ]
    return classes, found


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder with what makes listings differ: cases, depths, links, other files, odd names."""
    root = tmp_path / "images"
    contents = {
        "cat/b.jpg": 10,
        "cat/a.JPEG": 20,
        "cat/B.png": 30,
        "cat/notes.txt": 5,
        "cat/deep/er/c.webp": 40,
        "cat/deep-er/c.webp": 41,
        "cat/deep/a.jpg": 50,
        "Dog/é.png": 60,
        "Dog/z.png": 0,
        "Dog/.hidden.jpg": 70,
        "ant/10.ppm": 80,
        "ant/9.ppm": 90,
        "ant/jpg": 7,
    }
    for name, length in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * length)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "linked.jpg").write_bytes(b"x" * 11)
    (root / "Dog" / "link").symlink_to(elsewhere)
    (root / "beside.jpg").write_bytes(b"x")
    return root


def test_folder_is_listed_as_image_folder_does(images: Path) -> None:
    index = foreload.list_folder(images)
    classes, found = image_folder(images)
    assert index.classes == classes
    assert index.names == [name for name, _ in found]
    assert index.labels.tolist() == [label for _, label in found]
    assert index.sizes.tolist() == [os.path.getsize(images / name) for name, _ in found]
    assert len(index) == len(found)
    assert index.sizes.dtype == index.labels.dtype == np.int64


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ([".jpg", ".JPEG"], (".jpg", ".jpeg")),
        (".jpg,.png,.ppm", (".jpg", ".png", ".ppm")),
        ("any", ("",)),
    ],
)
def test_extensions_choose_files(
    images: Path, asked: str | list[str], meant: tuple[str, ...]
) -> None:
    if ".ppm" not in meant and "" not in meant:
        (images / "ant" / "8.jpg").write_bytes(b"x")
    index = foreload.Index.from_folder(images, asked)
    assert index.names == [name for name, _ in image_folder(images, meant)[1]]


def test_flat_folder_has_one_label(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.png", "c.txt"):
        (tmp_path / name).write_bytes(b"xyz")
    index = foreload.list_folder(str(tmp_path))
    assert index.names == ["a.png", "b.jpg"]
    assert index.labels.tolist() == [0, 0]
    assert index.classes == []


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"\xff.jpg")).write_bytes(b"x")
    name = foreload.list_folder(tmp_path).names[0]
    assert (tmp_path / name).exists()


def test_index_survives_saving(images: Path, tmp_path: Path) -> None:
    index = foreload.list_folder(images)
    file = tmp_path / "images.index"
    index.save(file)
    again = foreload.read_index(file)
    assert again.names == index.names
    assert again.classes == index.classes
    assert again.fingerprint == index.fingerprint
    np.testing.assert_array_equal(again.sizes, index.sizes)
    np.testing.assert_array_equal(again.labels, index.labels)
    assert repr(again) == repr(index) == "<foreload.Index: 12 samples, 3 classes>"


def test_fingerprint_follows_names_alone(images: Path) -> None:
    before = foreload.list_folder(images)
    (images / "cat" / "b.jpg").write_bytes(b"x" * 1_000)
    grown = foreload.list_folder(images)
    assert grown.fingerprint == before.fingerprint
    assert grown.sizes.sum() == before.sizes.sum() + 990
    (images / "cat" / "b.jpg").rename(images / "cat" / "d.jpg")
    assert foreload.list_folder(images).fingerprint != before.fingerprint


def test_saving_replaces_the_file_in_one_step(images: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    file = folder / "images.index"
    file.write_bytes(b"old")
    foreload.list_folder(images).save(file)
    assert len(foreload.Index.load(file)) == 12
    assert os.listdir(folder) == ["images.index"]


def test_every_damage_to_an_index_is_noticed(images: Path, tmp_path: Path) -> None:
    file = tmp_path / "images.index"
    foreload.list_folder(images).save(file)
    good = file.read_bytes()
    for cut in range(0, len(good), 7):
        file.write_bytes(good[:cut])
        with pytest.raises(foreload.CorruptError):
            foreload.Index.load(file)
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 0x10
        file.write_bytes(bad)
        with pytest.raises(foreload.CorruptError) as caught:
            foreload.Index.load(file)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_corrupt_error_is_a_value_error() -> None:
    assert issubclass(foreload.CorruptError, ValueError)
    assert foreload.CorruptError.__module__ == "foreload"


def test_missing_index_and_folder_are_named(tmp_path: Path) -> None:
    for read in (foreload.Index.load, foreload.list_folder):
        with pytest.raises(OSError, match="nowhere") as caught:
            read(tmp_path / "nowhere")
        assert "\n" not in str(caught.value)


def test_index_cannot_be_saved_where_there_is_no_folder(images: Path, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        foreload.list_folder(images).save(tmp_path / "nowhere" / "images.index")


def test_folder_without_samples_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_bytes(b"x")
    with pytest.raises(ValueError, match=tmp_path.name):
        foreload.list_folder(tmp_path)


def test_class_without_samples_is_refused(images: Path) -> None:
    (images / "empty").mkdir()
    with pytest.raises(ValueError, match="empty"):
        foreload.list_folder(images)
