# SPDX-License-Identifier: Apache-2.0
"""Zip archives as data sets, made by Python's zipfile and by zip."""

import io
import random
import shutil
import subprocess
import zipfile

import numpy as np
import pytest
from PIL import Image

import foreload
from foreload import transforms as t


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def folder(tmp_path):
    for label, name in enumerate(("ant", "bee", "cat")):
        (tmp_path / "train" / name).mkdir(parents=True)
        for number in range(4):
            (tmp_path / "train" / name / f"{number}.png").write_bytes(picture(4 * label + number))
    return tmp_path / "train"


def pack(folder, archive, **options):
    with zipfile.ZipFile(archive, "w", **options) as made:
        files = sorted(folder.rglob("*.png"))
        random.Random(3).shuffle(files)
        for file in files:
            made.write(file, file.relative_to(folder))
    return archive


CHAIN = t.Compose([t.Decode(), t.ToDtype("float32", scale=True)])


def batches(dataset):
    options = {"seed": 7, "transform": CHAIN, "memory": "1MB"}
    loader = foreload.DataLoader(str(dataset), 5, shuffle=True, **options)
    return [(images.numpy(), labels.tolist()) for _ in range(2) for images, labels in loader]


def expect_same(archive, folder):
    for (images, labels), (expected, right) in zip(batches(archive), batches(folder), strict=True):
        assert labels == right
        np.testing.assert_array_equal(images, expected)


def test_an_archive_gives_the_batches_of_its_folder(folder, tmp_path):
    expect_same(pack(folder, tmp_path / "train.zip"), folder)


def test_by_the_program_zip(folder, tmp_path):
    if shutil.which("zip") is None:
        pytest.fail("install zip")
    subprocess.run(["zip", "-0", "-q", "-r", "../train.zip", "."], cwd=folder, check=True)
    expect_same(tmp_path / "train.zip", folder)


def test_members_with_64_bit_sizes(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "large.zip", "w") as made:
        for file in sorted(folder.rglob("*.png")):
            with made.open(str(file.relative_to(folder)), "w", force_zip64=True) as member:
                member.write(file.read_bytes())
    expect_same(tmp_path / "large.zip", folder)


def test_names_and_classes(folder, tmp_path):
    index = foreload.Index.open(pack(folder, tmp_path / "train.zip"))
    assert len(index) == 12
    assert list(index.names)[:2] == ["ant/0.png", "ant/1.png"]


def test_what_is_compressed_is_refused_with_a_remedy(folder, tmp_path):
    archive = pack(folder, tmp_path / "train.zip", compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match=r"is compressed.*zip -0 -r"):
        batches(archive)


def test_a_damaged_archive_is_refused(folder, tmp_path):
    archive = pack(folder, tmp_path / "train.zip")
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(ValueError, match="damaged zip archive"):
        batches(archive)


def test_an_archive_that_changed_is_read_again(folder, tmp_path):
    archive = pack(folder, tmp_path / "train.zip")
    cache = f"{tmp_path / 'cache'}:10MB"
    chain = {"transform": CHAIN, "disk": cache}
    assert len(foreload.DataLoader(str(archive), 5, **chain)) == 3
    (folder / "ant" / "new.png").write_bytes(picture(99))
    pack(folder, archive)
    assert sum(len(labels) for _, labels in foreload.DataLoader(str(archive), 5, **chain)) == 13
