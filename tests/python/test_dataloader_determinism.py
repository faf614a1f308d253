# SPDX-License-Identifier: Apache-2.0
"""The same samples, whoever makes them: threads, caches, ranks and restarts change no bit."""

import hashlib
import itertools
from pathlib import Path

import numpy as np
import pytest

import foreload
from foreload import transforms

pytest.importorskip("torch")

SEED = 11
NATIVE = transforms.Compose(
    [
        transforms.RandomResizedCrop(16),
        transforms.RandomHorizontalFlip(),
        transforms.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4),
        transforms.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
    ]
)


def cropped(image, generator):
    """A function as transform, with random numbers of its own."""
    x, y = generator.integers(0, 8, 2)
    return np.asarray(image)[y : y + 12, x : x + 12].astype(np.float32) * generator.random()


TRANSFORMS = pytest.mark.parametrize("transform", [NATIVE, cropped], ids=["native", "python"])


def loader_of(folder: Path, transform, **given) -> foreload.DataLoader:
    given = {"batch_size": 6, "shuffle": True, "seed": SEED, "num_workers": 2} | given
    return foreload.DataLoader(folder, transform=transform, return_index=True, **given)


def digests(batches) -> list[tuple[int, bytes]]:
    """Each sample with a digest of its pixels, in order."""
    return [
        (int(index), hashlib.sha256(image.numpy().tobytes()).digest())
        for images, _, indices in batches
        for image, index in zip(images, indices, strict=True)
    ]


@pytest.fixture(scope="module")
def expected(images):
    """Two epochs, by one thread without any cache."""
    found = {}
    for transform in (NATIVE, cropped):
        with_one = loader_of(images, transform, num_workers=1)
        found[transform] = [digests(with_one), digests(with_one)]
    return found


@TRANSFORMS
def test_epochs_differ(expected, transform):
    first, second = (dict(epoch) for epoch in expected[transform])
    assert all(first[index] != second[index] for index in first)


@TRANSFORMS
def test_with_eight_threads(images, expected, transform):
    loader = loader_of(images, transform, num_workers=8)
    assert [digests(loader), digests(loader)] == expected[transform]


@TRANSFORMS
def test_with_cold_and_warm_caches(images, expected, transform, tmp_path):
    total = sum(path.stat().st_size for path in images.rglob("*.*"))
    for _ in range(2):  # the second loader finds the disk filled
        loader = loader_of(
            images, transform, memory=f"{total // 3}B", disk=(tmp_path, 4 << 20), profile="none"
        )
        assert [digests(loader), digests(loader)] == expected[transform]
        held = loader.stats()["held_samples"]
        loader.close()
    assert held == 50


@TRANSFORMS
@pytest.mark.parametrize("batch_size", [6, 25])
def test_with_four_ranks(images, expected, transform, batch_size):
    ranks = [
        loader_of(images, transform, batch_size=batch_size, rank=rank, world_size=4)
        for rank in range(4)
    ]
    for epoch in range(2):
        parts = [digests(rank) for rank in ranks]
        together = list(itertools.chain.from_iterable(zip(*parts, strict=True)))
        assert len(together) == 52
        assert together[:50] == expected[transform][epoch]
        assert together[50:] == expected[transform][epoch][:2]  # padding


@TRANSFORMS
@pytest.mark.parametrize("batches", [0, 1, 4, 8])
def test_after_a_resume(images, expected, transform, batches):
    first = loader_of(images, transform)
    list(first)
    iterator = iter(first)
    seen = digests(itertools.islice(iterator, batches))
    state = first.state_dict()
    if batches == 0:  # a restart before anything was asked for is at the start of the next epoch
        assert state["epoch"] == 1
    second = loader_of(images, transform)
    second.load_state_dict(state)
    assert seen + digests(second) == expected[transform][1]


@TRANSFORMS
def test_after_a_resume_on_other_ranks(images, expected, transform):
    first = loader_of(images, transform, batch_size=5)
    seen = digests(itertools.islice(first, 4))
    parts = []
    for rank in range(2):
        part = loader_of(images, transform, batch_size=3, rank=rank, world_size=2)
        part.load_state_dict(first.state_dict())
        parts.append(digests(part))
    rest = list(itertools.chain.from_iterable(zip(*parts, strict=True)))
    assert seen + rest == expected[transform][0]


@TRANSFORMS
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 2), (2, 3)])
def test_after_a_resume_without_padding(images, expected, transform, before, after):
    """Each sample once, with the random numbers of its place, whoever has it before and after."""

    def ranks(count):
        return [
            loader_of(images, transform, batch_size=5, pad="none", rank=rank, world_size=count)
            for rank in range(count)
        ]

    def dealt(parts):
        rounds = itertools.chain.from_iterable(itertools.zip_longest(*parts))
        return [sample for sample in rounds if sample is not None]

    first = ranks(before)
    seen = dealt([digests(itertools.islice(rank, 2)) for rank in first])
    assert len(seen) == 2 * 5 * before
    second = ranks(after)
    for rank in second:
        rank.load_state_dict(first[0].state_dict())
    rest = dealt([digests(rank) for rank in second])
    assert seen + rest == expected[transform][0]
    assert dealt([digests(rank) for rank in second]) == expected[transform][1]


def test_a_python_transform_in_processes(images, expected):
    with_processes = loader_of(images, cropped, workers="process", num_workers=2)
    assert digests(with_processes) == expected[cropped][0]
    with_processes.close()
