# SPDX-License-Identifier: Apache-2.0
"""form="finished": what is kept is what the transform gives, and batches stay what they were."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import foreload
from foreload import transforms

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

COUNT = 50  # of the images
EVAL = transforms.Compose(
    [
        transforms.Resize(20),
        transforms.CenterCrop(16),
        transforms.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
    ]
)
BYTES = 16 * 16 * 3 * 4  # of a sample


def loader_of(folder: Path, transform=EVAL, **given) -> foreload.DataLoader:
    return foreload.DataLoader(
        folder, 8, shuffle=True, transform=transform, profile="none", **given
    )


def epochs_of(loader, count=3):
    return [[(images.clone(), labels) for images, labels in loader] for _ in range(count)]


def assert_same(given, expected):
    assert len(given) == len(expected)
    for batches, others in zip(given, expected, strict=True):
        for (images, labels), (more, classes) in zip(batches, others, strict=True):
            assert torch.equal(images, more)
            assert torch.equal(labels, classes)


@pytest.fixture(scope="module")
def plain(images):
    """Batches of three epochs of a loader that keeps files."""
    return epochs_of(loader_of(images))


@pytest.mark.parametrize("where", ["nowhere", "memory", "half", "disk"])
def test_tensors_are_the_same(images, plain, tmp_path, where):
    budgets = {
        "nowhere": {},
        "memory": {"memory": "8MiB"},
        "half": {"memory": f"{COUNT * BYTES // 2}B"},
        "disk": {"disk": f"{tmp_path}:16MiB"},
    }
    assert_same(epochs_of(loader_of(images, form="finished", **budgets[where])), plain)


def test_later_epochs_decode_nothing(images, plain):
    loader = loader_of(images, form="finished", memory="8MiB")
    assert_same(epochs_of(loader, 1), plain[:1])
    assert_same(epochs_of(loader, 2), plain[1:])
    assert loader.stats()["decoded_samples"] == COUNT
    assert loader.epoch_stats()["counters"]["decoded_samples"] == 0
    assert loader.epoch_stats()["from"]["memory"] == COUNT * BYTES
    files = sum(file.stat().st_size for file in images.rglob("*.*"))
    assert loader.stats()["source_bytes"] == files


def test_the_next_run_decodes_nothing(images, plain, tmp_path):
    disk = f"{tmp_path}:16MiB"
    epochs_of(loader_of(images, form="finished", disk=disk), 1)
    again = loader_of(images, form="finished", disk=disk)
    assert_same(epochs_of(again), plain)
    assert again.stats()["decoded_samples"] == 0
    assert again.stats()["source_bytes"] == 0


def test_another_transform_finds_nothing(images, tmp_path):
    disk = f"{tmp_path}:16MiB"
    epochs_of(loader_of(images, form="finished", disk=disk), 1)
    other = transforms.Compose([transforms.Resize((16, 16)), *EVAL.transforms[2:]])
    expected = epochs_of(loader_of(images, other), 1)
    loader = loader_of(images, other, form="finished", disk=disk)
    assert_same(epochs_of(loader, 1), expected)
    assert loader.stats()["decoded_samples"] == COUNT


def test_the_loop_may_change_its_batch(images, plain):
    loader = loader_of(images, form="finished", memory="8MiB")
    for epoch in range(3):
        for (batch, _), (expected, _) in zip(loader, plain[epoch], strict=True):
            assert torch.equal(batch, expected)
            batch.zero_()


def test_resumes_where_it_was(images, plain):
    loader = loader_of(images, form="finished", memory="8MiB")
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = json.loads(json.dumps(loader.state_dict()))
    again = loader_of(images, form="finished", memory="8MiB")
    again.load_state_dict(state)
    assert_same([list(again)], [plain[0][3:]])
    files = loader_of(images)
    files.load_state_dict(state)  # what is kept is no part of a state
    assert_same([list(files)], [plain[0][3:]])


def test_a_bad_image_is_named_or_skipped(images, tmp_path):
    folder = tmp_path / "images"
    shutil.copytree(images, folder)
    (folder / "class1" / "0010.png").write_bytes(b"this is text")
    with pytest.raises(OSError, match=r"cannot decode sample .*0010\.png"):
        epochs_of(loader_of(folder, form="finished", memory="8MiB"), 1)
    loader = loader_of(folder, form="finished", memory="8MiB", on_error="skip")
    with pytest.warns(RuntimeWarning, match="skipped"):
        epochs_of(loader, 2)
    assert loader.stats()["skipped"] == 2


def test_formats_that_pillow_decodes(tmp_path):
    random = np.random.default_rng(3)
    (tmp_path / "images").mkdir()
    for number in range(12):
        pixels = random.integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "images" / f"{number:02}.bmp")
    given = {"extensions": [".bmp"]}
    expected = epochs_of(loader_of(tmp_path / "images", **given))
    loader = loader_of(tmp_path / "images", form="finished", memory="8MiB", **given)
    assert_same(epochs_of(loader), expected)
    assert loader.stats()["decoded_samples"] == 12


def test_what_cannot_be_finished_is_refused(images):
    random = transforms.Compose([transforms.RandomResizedCrop(16)])
    with pytest.raises(ValueError, match=r"form 'finished' .* random"):
        loader_of(images, random, form="finished")
    with pytest.raises(ValueError, match="form 'finished' needs samples of one size"):
        loader_of(images, transforms.Compose([transforms.Resize(16)]), form="finished")
    with pytest.raises(ValueError, match=r"form='finished' .* runs in Python"):
        loader_of(images, lambda image: np.asarray(image), form="finished")
    with pytest.raises(ValueError, match="form 'finished' keeps what a transform gives"):
        loader_of(images, None, form="finished")
    with pytest.raises(ValueError, match="form is 'frozen': use 'encoded' or 'finished'"):
        loader_of(images, form="frozen")
    with pytest.raises(ValueError, match="form is refused: list makes its samples itself"):
        foreload.DataLoader([1, 2, 3], form="finished")


class Pairs:
    """Samples of two parts."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.rglob("*.jpg"))

    def __len__(self) -> int:
        return len(self.files) - 1

    def locate(self, index: int):
        return {"image": self.files[index], "next": self.files[index + 1]}


def test_samples_of_several_parts_are_refused(images):
    transform = {"image": EVAL, "next": EVAL}
    with pytest.raises(ValueError, match="form"):
        foreload.DataLoader(Pairs(images), 4, transform=transform, form="finished")
