# SPDX-License-Identifier: Apache-2.0
"""Samples of `loader.dataset` by their numbers, from every store and format.

They were read as files of a folder, so that archives and web servers had none.
"""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import pickle
import zipfile

import pytest
import torch
import web_server
from torch.utils.data import ConcatDataset, Subset

import foreload
from foreload import transforms as t

CHAIN = t.Compose([t.Resize((8, 8)), t.ToDtype("float32", scale=True)])


def packed(folder, archive):
    with zipfile.ZipFile(archive, "w") as made:
        for file in sorted(folder.rglob("*.*"), reverse=True):
            made.write(file, file.relative_to(folder))
    return archive


@pytest.fixture(scope="module", params=["folder", "list", "zip", "web", "zip on the web"])
def dataset(request, images, tmp_path_factory):
    """The same images in one of the places where they can be."""
    folder = tmp_path_factory.mktemp("stored")
    if request.param == "folder":
        yield images
    elif request.param == "list":
        index = foreload.list_folder(images)
        names = zip(index.names, index.labels.tolist(), strict=True)
        (folder / "list").write_text("".join(f"{images / name}\t{n}\n" for name, n in names))
        yield folder / "list"
    elif request.param == "zip":
        yield packed(images, folder / "images.zip")
    elif request.param == "web":
        with web_server.serving(images) as address:
            yield f"{address}/"
    else:
        packed(images, folder / "images.zip")
        with web_server.serving(folder) as address:
            yield f"{address}/images.zip"


@pytest.fixture(scope="module")
def another_process():
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        yield pool


def sample_of(pickled, number):
    return pickle.loads(pickled)[number]


def test_a_sample_is_the_one_of_the_folder(dataset, images):
    files = foreload.DataLoader(images).dataset
    loader = foreload.DataLoader(str(dataset))
    data = loader.dataset
    assert len(data) == len(files) == 50
    assert data.targets == files.targets
    assert data.root == str(dataset)
    for number in (0, 17, -1):
        assert data[number] == files[number]
    assert [os.path.basename(path) for path, _ in data.samples] == [
        os.path.basename(path) for path, _ in files.samples
    ]
    loader.close()
    assert data[3] == files[3]  # no engine is needed


def test_it_is_what_the_loader_makes_of_it(dataset):
    loader = foreload.DataLoader(str(dataset), 50, transform=CHAIN)
    ((pictures, labels),) = list(loader)
    for number in (0, 17, 49):
        picture, label = loader.dataset[number]
        assert torch.equal(picture, pictures[number])
        assert label == labels[number]
    loader.close()


def test_a_copy_in_another_process_reads_it_too(dataset, another_process):
    loader = foreload.DataLoader(str(dataset), transform=CHAIN)
    pickled = pickle.dumps(loader.dataset)
    picture, label = another_process.submit(sample_of, pickled, 17).result()
    assert torch.equal(picture, loader.dataset[17][0])
    assert label == loader.dataset.targets[17]
    loader.close()


def test_workers_of_torch_read_it(dataset):
    loader = foreload.DataLoader(str(dataset), transform=CHAIN)
    theirs = torch.utils.data.DataLoader(loader.dataset, 10, num_workers=1)
    ours = foreload.DataLoader(str(dataset), 10, transform=CHAIN)
    for (pictures, labels), (expected, right) in zip(theirs, ours, strict=True):
        assert torch.equal(pictures, expected)
        assert labels.tolist() == right.tolist()
    loader.close()
    ours.close()


def test_parts_of_it_are_read_by_foreload(dataset):
    """A Subset of an archive named files that were not there."""
    whole = foreload.DataLoader(str(dataset), transform=CHAIN)
    part = Subset(whole.dataset, range(45, 3, -2))
    for data in (part, ConcatDataset([part, whole.dataset])):
        loader = foreload.DataLoader(data, 10, memory="1MiB")
        pictures = torch.cat([batch for batch, _ in loader])
        assert torch.equal(pictures, torch.stack([picture for picture, _ in data]))
        assert loader.stats()["source_bytes"] > 0
        loader.close()
    whole.close()


def test_a_part_of_it_can_have_a_function(dataset):
    whole = foreload.DataLoader(str(dataset), transform=lambda image: image.size)
    part = Subset(whole.dataset, [7, 3])
    loader = foreload.DataLoader(part, 2, collate_fn=list)
    assert list(loader) == [[whole.dataset[7], whole.dataset[3]]]
    loader.close()
    whole.close()


def test_what_is_gone_is_an_error_of_one_line(images, tmp_path):
    archive = packed(images, tmp_path / "images.zip")
    data = foreload.DataLoader(str(archive)).dataset
    archive.unlink()
    with pytest.raises(OSError, match=r"^cannot read images\.zip in .*: No such file"):
        data[3]


def test_a_server_that_is_gone_is_an_error_of_one_line(images):
    with web_server.serving(images) as address:
        data = foreload.DataLoader(f"{address}/").dataset
    with pytest.raises(OSError, match=r"^cannot read class0/0009\.jpg in http://127\..*\n?$"):
        data[3]


def test_a_file_that_changed_is_no_sample_of_the_listing(images, tmp_path):
    (tmp_path / "a.png").write_bytes(b"first")
    data = foreload.DataLoader(tmp_path).dataset
    assert data[0] == (b"first", 0)
    (tmp_path / "a.png").write_bytes(b"another one")
    with pytest.raises(OSError, match=r"^cannot read a\.png in .*; check the file"):
        data[0]
