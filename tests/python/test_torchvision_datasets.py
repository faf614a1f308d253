# SPDX-License-Identifier: Apache-2.0
"""Data sets of torchvision itself: read by foreload where nothing is bypassed, called otherwise."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from real_torchvision import torchvision, v2
from torch.utils.data import ConcatDataset, Subset

import foreload

datasets = torchvision.datasets


def small(image):
    return np.asarray(image.convert("RGB").resize((8, 8), Image.Resampling.BILINEAR))


def batches_of(loader) -> list[np.ndarray]:
    return [np.asarray(part) for batch in loader for part in batch]


def assert_as_torch_gives_them(dataset, native: bool, **given) -> None:
    """In order, so that nothing but the samples can differ."""
    ours = foreload.DataLoader(dataset, batch_size=7, num_workers=0, **given)
    theirs = torch.utils.data.DataLoader(dataset, batch_size=7)
    for a, b in zip(batches_of(ours), batches_of(theirs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert (ours.stats().get("source_bytes", 0) > 0) == native
    ours.close()


def test_a_real_image_folder_is_read_by_foreload(images):
    folder = datasets.ImageFolder(images, transform=small, target_transform=lambda label: label + 5)
    assert_as_torch_gives_them(folder, native=True)


def test_a_real_dataset_folder_too(images):
    folder = datasets.DatasetFolder(
        str(images), datasets.folder.pil_loader, extensions=(".png",), transform=small
    )
    assert len(folder) == 25
    assert_as_torch_gives_them(folder, native=True)


def test_inside_subsets_and_joined(images):
    folder = datasets.ImageFolder(images, transform=small)
    part = Subset(folder, [5, 1, 40])
    assert_as_torch_gives_them(part, native=True)
    assert_as_torch_gives_them(ConcatDataset([part, folder, Subset(part, [2, 0])]), native=True)
    first, second = torch.utils.data.random_split(folder, [30, 20])
    assert_as_torch_gives_them(first, native=True)
    assert_as_torch_gives_them(second, native=True)


def test_open_dataset_takes_it(images):
    folder = datasets.ImageFolder(images, transform=small)
    served = foreload.open_dataset(Subset(folder, [3, 9]), memory="2MiB")
    for got, wanted in zip(served.__getitems__([0, 1]), [folder[3], folder[9]], strict=True):
        np.testing.assert_array_equal(got[0], wanted[0])
        assert got[1] == wanted[1]
    served.close()


class Doubled(datasets.ImageFolder):
    def __getitem__(self, index):
        image, label = super().__getitem__(index)
        return image * 2, -label


class OwnSamples(torch.utils.data.Dataset):
    """It has `.samples` as ImageFolder has, and does something else with them."""

    def __init__(self, images):
        self.samples = [(str(path), 1) for path in sorted(images.rglob("*.png"))]

    def __len__(self):
        return len(self.samples) - 2

    def __getitem__(self, index):
        return len(self.samples[index][0]), index


class Declared(OwnSamples):
    """Says that foreload may read `.samples` itself."""

    foreload_samples = True
    transform = staticmethod(small)


def test_what_a_user_wrote_is_called(images):
    assert_as_torch_gives_them(Doubled(images, transform=small), native=False)
    assert_as_torch_gives_them(OwnSamples(images), native=False)
    assert_as_torch_gives_them(Subset(OwnSamples(images), [3, 1]), native=False)
    joined = ConcatDataset([datasets.ImageFolder(images, transform=small), Doubled(images, small)])
    assert_as_torch_gives_them(joined, native=False)


def test_a_loader_of_the_user_s_gets_a_path(images):
    def size_of(path):
        assert isinstance(path, str)
        return Image.open(path).size[0]

    folder = datasets.ImageFolder(images, loader=size_of)
    assert_as_torch_gives_them(folder, native=False)


def test_parts_with_different_transforms_are_called(images):
    other = datasets.ImageFolder(images, transform=lambda image: 255 - small(image))
    joined = ConcatDataset([datasets.ImageFolder(images, transform=small), other])
    assert_as_torch_gives_them(joined, native=False)


def test_wrapped_for_transforms_v2_is_called(images):
    folder = datasets.ImageFolder(images, transform=v2.Compose([v2.Resize((8, 8)), v2.ToImage()]))
    wrapped = datasets.wrap_dataset_for_transforms_v2(folder)
    assert_as_torch_gives_them(wrapped, native=False)


def test_a_class_may_declare_that_its_samples_are_all(images):
    data = Declared(images)
    loader = foreload.DataLoader(data, batch_size=100)
    ((pictures, labels),) = list(loader)
    assert len(pictures) == len(data.samples)
    assert labels.tolist() == [1] * len(data.samples)
    assert loader.stats()["source_bytes"] > 0
    loader.close()


class Tagged(Declared):
    """Made from a class that foreload may read, with a way of its own."""

    def __getitem__(self, index):
        return index, "tagged"


class TaggedInOneGo(Declared):
    def __getitems__(self, indices):
        return [(index, "tagged") for index in indices]


def test_a_declaration_is_not_for_what_is_made_from_its_class(images):
    """The __getitem__ of the derived class was bypassed."""
    for data in (Tagged(images), TaggedInOneGo(images), Subset(Tagged(images), [4, 2])):
        loader = foreload.DataLoader(data, batch_size=2, num_workers=0)
        assert list(next(iter(loader))[1]) == ["tagged", "tagged"]
        loader.close()


class Located:
    def __init__(self, images):
        self.paths = sorted(images.rglob("*.png"))

    def __len__(self):
        return len(self.paths)

    def locate(self, index):
        return self.paths[index]

    def decode(self, data, index):
        return len(data), "decoded"


class TaggedHere(Located):
    def __getitem__(self, index):
        return index, "tagged"


class TaggedAround:
    """Gives what it does not have itself from what is inside."""

    def __init__(self, inside):
        self.inside = inside

    def __len__(self):
        return len(self.inside)

    def __getitem__(self, index):
        return index, "tagged"

    def __getattr__(self, name):
        if name == "inside":  # before there is one
            raise AttributeError(name)
        return getattr(self.inside, name)


def test_locate_is_not_for_what_is_made_from_its_class(images):
    """The __getitem__ of a derived class, or of one around another, was bypassed."""
    for data in (TaggedHere(images), TaggedAround(Located(images))):
        loader = foreload.DataLoader(data, batch_size=2, num_workers=0)
        assert list(next(iter(loader))[1]) == ["tagged", "tagged"]
        loader.close()


def test_a_class_may_locate_what_the_one_it_is_made_from_gives(images):
    class Again(TaggedHere):
        locate = Located.locate
        decode = Located.decode

    for data in (Located(images), Again(images)):
        loader = foreload.DataLoader(data, batch_size=2)
        assert list(next(iter(loader))[1]) == ["decoded", "decoded"]
        loader.close()


def test_a_declaration_that_cannot_be_is_refused():
    class Wrong:
        foreload_samples = True
        samples = (1, 2)

    with pytest.raises(TypeError, match=r"Wrong says foreload_samples = True, but its \.samples"):
        foreload.DataLoader(Wrong())


def test_a_transform_that_is_set_later_is_refused(images):
    folder = datasets.ImageFolder(images, transform=small)
    loader = foreload.DataLoader(folder, batch_size=50)
    next(iter(loader))
    folder.transform = None
    with pytest.raises(RuntimeError, match="make a new DataLoader"):
        next(iter(loader))
    loader.close()


def test_the_folder_of_a_path_is_a_data_set(images):
    folder = datasets.ImageFolder(images)
    loader = foreload.DataLoader(images, 8, transform=small)
    data = loader.dataset
    assert isinstance(data, torch.utils.data.Dataset)
    assert len(data) == len(folder) == 50
    assert data.classes == folder.classes
    assert data.class_to_idx == folder.class_to_idx
    assert data.targets == folder.targets
    assert data.samples == folder.samples
    for number in (0, 17, -1):
        image, label = data[number]
        np.testing.assert_array_equal(image, small(folder[number % 50][0]))
        assert label == folder[number % 50][1]
    with pytest.raises(IndexError, match="sample 50"):
        data[50]
    loader.close()


@pytest.mark.parametrize(
    "given",
    [
        {"transform": foreload.transforms.Resize((8, 8))},
        {"transform": v2.Compose([v2.Resize((8, 8)), v2.PILToTensor()])},
        {"transform": small, "target_transform": lambda label: label + 5},
        {"transform": lambda array: array[:8, :8].copy(), "image_type": "array"},
    ],
)
def test_a_part_of_what_a_loader_has_of_a_folder_is_read_by_foreload(images, given):
    """It was called sample by sample."""
    whole = foreload.DataLoader(images, **given)
    part = Subset(whole.dataset, range(45, 3, -2))
    assert_as_torch_gives_them(part, native=True)
    assert_as_torch_gives_them(ConcatDataset([part, whole.dataset]), native=True)
    whole.close()


def test_parts_of_a_folder_may_have_other_transforms_and_caches(images):
    whole = foreload.DataLoader(images).dataset
    parts = torch.utils.data.random_split(whole, [0.8, 0.2], torch.Generator().manual_seed(0))
    loaders = [
        foreload.DataLoader(
            part, 4, transform=foreload.transforms.Resize((size, size)), memory="1MiB"
        )
        for part, size in zip(parts, (8, 16), strict=True)
    ]
    for loader, part, size in zip(loaders, parts, (8, 16), strict=True):
        batches = list(loader)
        assert {images.shape[1:] for images, _ in batches} == {(3, size, size)}
        labels = [label for _, labels in batches for label in labels.tolist()]
        assert labels == [whole.targets[index] for index in part.indices]
        list(loader)
        assert loader.epoch_stats()["from"]["memory"] > 0
        loader.close()


def test_a_part_of_a_folder_without_a_transform_gives_bytes_as_the_whole_does(images):
    whole = foreload.DataLoader(images, batch_size=None)
    samples = list(whole)
    part = foreload.DataLoader(Subset(whole.dataset, [7, 3]), batch_size=None)
    assert [(bytes(data), label) for data, label in part] == [
        (bytes(samples[index][0]), samples[index][1]) for index in (7, 3)
    ]
    assert [(bytes(data), label) for data, label in part] == [whole.dataset[7], whole.dataset[3]]
    part.close()
    whole.close()


def test_a_part_of_a_folder_keeps_its_transform_in_another_process(images):
    whole = foreload.DataLoader(images, transform=foreload.transforms.Resize((8, 8)))
    part = pickle.loads(pickle.dumps(Subset(whole.dataset, [7, 3])))
    assert_as_torch_gives_them(part, native=True)
    whole.close()


class NewTransform(datasets.ImageFolder):
    """Its transform is another object each time."""

    @property
    def transform(self):
        return v2.Compose([v2.CenterCrop(8), v2.PILToTensor()])

    @transform.setter
    def transform(self, value):
        pass


class LaterClasses(datasets.ImageFolder):
    @property
    def samples(self):
        return [(path, label + 1) for path, label in vars(self)["samples"]]

    @samples.setter
    def samples(self, value):
        vars(self)["samples"] = value


@pytest.mark.parametrize("folder", [NewTransform, LaterClasses])
def test_a_property_is_code_of_the_user_s(images, folder):
    """A transform that was another object each time was refused in every iteration."""
    folder = folder(images, transform=v2.Compose([v2.CenterCrop(8), v2.PILToTensor()]))
    assert_as_torch_gives_them(folder, native=False)


@pytest.mark.parametrize("index", [50, -51])
def test_an_index_of_a_subset_that_is_not_there(images, index):
    part = Subset(datasets.ImageFolder(images), [0, index])
    with pytest.raises(IndexError, match=f"^Subset has the index {index}, but .* has 50 samples"):
        foreload.DataLoader(part)


def test_a_file_that_a_loader_cannot_open_is_called_by_its_name(tmp_path):
    (tmp_path / "a.png").write_bytes(b"no picture")

    class Declared:
        foreload_samples = True
        samples = ((tmp_path / "a.png", 0),)

        def loader(self, file):
            return Image.open(file)

    with pytest.raises(foreload.BadSampleError) as failed:
        next(iter(foreload.DataLoader(Declared())))
    assert "0x" not in str(failed.value)
    assert "a.png" in str(failed.value).partition("UnidentifiedImageError")[2]
