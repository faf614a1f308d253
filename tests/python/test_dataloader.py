# SPDX-License-Identifier: Apache-2.0
"""foreload.DataLoader: the right samples in the right order, whatever the loop does."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from real_torchvision import torchvision

import foreload
from foreload import transforms

Image = pytest.importorskip("PIL.Image")
torch = pytest.importorskip("torch")

COUNT = 50


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for number in range(COUNT):
        target = path / f"class{number % 3}" / f"{number:04}.png"
        target.parent.mkdir(exist_ok=True)
        pixels = random.integers(0, 256, (12 + number % 5, 16, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(target)
    return path


CHAIN = transforms.Compose([transforms.RandomResizedCrop(8), transforms.RandomHorizontalFlip()])
PLAIN = transforms.Compose([transforms.Resize((8, 8))])


def loader_of(folder, **given) -> foreload.DataLoader:
    given = {"batch_size": 8, "shuffle": True, "transform": CHAIN, "seed": 3} | given
    return foreload.DataLoader(folder, return_index=True, num_workers=2, **given)


def indices_of(batches) -> list[int]:
    return [int(index) for batch in batches for index in batch[-1]]


def test_a_folder_gives_tensors_in_the_order_of_torch(folder):
    loader = loader_of(folder, epochs=2)
    assert len(loader) == 7
    for epoch in range(2):
        batches = list(loader)
        assert len(batches) == 7
        images, labels, indices = batches[0]
        assert images.shape == (8, 3, 8, 8)
        assert images.dtype == torch.uint8
        assert labels.dtype == indices.dtype == torch.int64
        np.testing.assert_array_equal(
            indices_of(batches), foreload.order(COUNT, epoch=epoch, seed=3)
        )
    with pytest.raises(RuntimeError, match="beyond epochs=2"):
        next(iter(loader))


@pytest.mark.parametrize("in_memory", [False, True])
def test_data_sets_that_locate_and_decode(folder, in_memory):
    paths = sorted(folder.rglob("*.png"))

    class Located:
        def __len__(self):
            return len(paths)

        def locate(self, index):
            return paths[index].read_bytes() if in_memory else paths[index]

        def decode(self, data, index):
            return len(data), index

    loader = foreload.DataLoader(Located(), batch_size=16, shuffle=True, seed=1)
    sizes, indices = map(torch.cat, zip(*loader, strict=True))
    assert indices.tolist() == foreload.order(COUNT, seed=1).tolist()
    assert sizes.tolist() == [paths[i].stat().st_size for i in indices]


def test_samplers_are_iterated_when_an_iteration_starts(folder):
    drawn = []

    class Sampler:
        def __len__(self):
            return 5

        def __iter__(self):
            drawn.append(1)
            return iter([3, 3, 1, 49, 0])

    loader = loader_of(folder, shuffle=None, sampler=Sampler(), batch_size=2)
    iterator = iter(loader)
    assert drawn == []
    assert len(loader) == 3
    assert indices_of(iterator) == [3, 3, 1, 49, 0]
    assert indices_of(loader) == [3, 3, 1, 49, 0]
    assert len(drawn) == 2
    loader = loader_of(folder, shuffle=None, batch_size=1, batch_sampler=[[4], [2, 9, 7]])
    assert [batch[2].tolist() for batch in loader] == [[4], [2, 9, 7]]


def test_single_samples_collate_and_batch_transform(folder):
    image, label, index = next(iter(loader_of(folder, batch_size=None, shuffle=False)))
    assert image.shape == (3, 8, 8)
    assert (label, index) == (0, 0)
    loader = loader_of(folder, collate_fn=len, batch_transform=lambda n: -n, drop_last=True)
    assert list(loader) == [-8] * 6


def test_a_python_function_runs_in_order_with_its_own_random_numbers(folder):
    def function(image, generator):
        return np.asarray(image)[:8, :8].astype(np.int64) + generator.integers(1000)

    data = torchvision.datasets.ImageFolder(folder, function)
    runs = [
        [batch[0] for batch in foreload.DataLoader(data, 8, True, num_workers=n, seed=2)]
        for n in (1, 4)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))

    def fails(image):
        raise KeyError("nope")

    with pytest.raises(foreload.TransformError, match=r"class\d/\d+\.png.*nope") as caught:
        next(iter(foreload.DataLoader(data, transform=fails)))
    assert isinstance(caught.value.__cause__, KeyError)


def test_resume_is_exact_at_every_batch_and_the_state_is_small(folder, tmp_path):
    straight = loader_of(folder)
    whole = list(straight) + list(straight)
    for done in (0, 1, 3, 6, 7, 9):
        first = loader_of(folder)
        iterators = iter(first)
        for _ in range(done):
            try:
                next(iterators)
            except StopIteration:
                iterators = iter(first)
                next(iterators)
        state = first.state_dict()
        assert len(json.dumps(state)) < 1024
        first.save(tmp_path / "state.json")
        second = loader_of(folder)
        second.restore(tmp_path / "state.json")
        rest = list(second)
        expected = whole[done : 7 if done <= 7 else 14]
        assert len(rest) == len(expected)
        for a, b in zip(rest, expected, strict=True):
            assert torch.equal(a[0], b[0])
            assert torch.equal(a[2], b[2])


def test_the_end_of_an_epoch_is_as_in_torchdata(folder):
    loader = loader_of(folder)
    for _ in loader:
        last = loader.state_dict()
    after = loader.state_dict()
    other = loader_of(folder)
    other.load_state_dict(last)
    assert list(other) == []
    assert indices_of(other) == foreload.order(COUNT, epoch=1, seed=3).tolist()
    other.load_state_dict(after)
    assert indices_of(other) == foreload.order(COUNT, epoch=1, seed=3).tolist()


def test_resume_on_another_number_of_ranks(folder):
    one = loader_of(folder, batch_size=8)
    iterator = iter(one)
    seen = indices_of([next(iterator), next(iterator)])
    state = one.state_dict()
    rest = []
    for rank in range(2):
        part = loader_of(folder, batch_size=4, rank=rank, world_size=2)
        part.load_state_dict(state)
        rest.append(indices_of(part))
    together = [index for pair in zip(*rest, strict=True) for index in pair]
    assert seen + together == foreload.order(COUNT, seed=3).tolist()


def test_states_of_other_loaders_are_refused(folder):
    state = loader_of(folder).state_dict()
    with pytest.raises(ValueError, match="another seed"):
        loader_of(folder, seed=4).load_state_dict(state)
    with pytest.raises(ValueError, match="another order"):
        loader_of(folder, shuffle=False).load_state_dict(state)
    with pytest.raises(ValueError, match="other data"):
        loader_of(folder / "class0").load_state_dict(state)


def test_batches_may_be_kept_and_written_to(folder):
    loader = loader_of(folder)
    kept = list(loader)
    copies = [batch[0].clone() for batch in kept]
    kept[0][0].zero_()
    list(loader)
    del loader
    for batch, copy in zip(kept[1:], copies[1:], strict=True):
        assert torch.equal(batch[0], copy)


def test_fork_is_refused(folder):
    loader = loader_of(folder)
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(iterator)
        except RuntimeError as error:
            code = 0 if "fork" in str(error) else 2
        del loader, iterator
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def test_loaders_share_a_cache(folder):
    total = sum(path.stat().st_size for path in folder.rglob("*.png"))
    cache = foreload.Cache(memory=f"{total * 3}B")
    first = loader_of(folder, cache=cache)
    second = loader_of(folder, cache=cache)
    assert cache.memory_left == total
    del first, second
    assert cache.memory_left == total * 3


def test_evaluation_without_padding(folder):
    parts = [
        loader_of(folder, shuffle=False, transform=PLAIN, pad="none", rank=r, world_size=3)
        for r in range(3)
    ]
    assert sorted(i for part in parts for i in indices_of(part)) == list(range(COUNT))
    assert sum(len(part.sampler) for part in parts) == COUNT


def test_torch_arguments_have_a_meaning_or_an_error(folder):
    for given in (
        {"worker_init_fn": print},
        {"multiprocessing_context": "spawn"},
        {"in_order": False},
        {"timeout": -1},
    ):
        with pytest.raises(ValueError, match=next(iter(given))):
            loader_of(folder, **given)
    with pytest.warns(UserWarning, match="pin_memory"):
        loader_of(folder, pin_memory=True)
    with pytest.warns(UserWarning, match="shuffle is not set"):
        loader_of(folder, shuffle=None)
    assert "50 samples" in repr(loader_of(folder))
    assert loader_of(folder).stats()["epoch"] == 0


def test_a_batch_transform_gets_random_numbers_of_its_own(folder):
    """The same for every run and after a resume, others for every batch."""
    loader = loader_of(folder, batch_transform=lambda batch, generator: generator.integers(2**40))
    first = [list(loader), list(loader)]
    assert len({number for epoch in first for number in epoch}) == 14
    again = loader_of(folder, batch_transform=lambda batch, generator: generator.integers(2**40))
    iterator = iter(again)
    assert [next(iterator), next(iterator)] == first[0][:2]
    later = loader_of(folder, batch_transform=lambda batch, generator: generator.integers(2**40))
    later.load_state_dict(again.state_dict())
    assert [list(later), list(later)] == [first[0][2:], first[1]]
    floats = transforms.Compose([CHAIN, transforms.ToDtype("float32", scale=True)])
    mixed = foreload.DataLoader(
        folder, 8, transform=floats, shuffle=True, batch_transform=transforms.MixUp(num_classes=5)
    )
    _, labels = next(iter(mixed))
    assert labels.shape == (8, 5)
