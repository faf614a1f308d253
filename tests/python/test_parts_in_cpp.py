# SPDX-License-Identifier: Apache-2.0
"""Samples of several parts that C++ makes: the same batches as made by Python threads."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import foreload
from foreload import transforms as T
from foreload.data.parts import PartsTransform

COUNT = 23
CROP = T.Compose([T.RandomResizedCrop(9), T.RandomHorizontalFlip(), T.Normalize([0.5], [0.5])])
TRAIN = {"image": CROP, "mask": foreload.MaskOf("image", fill=255), "text": None}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("parts")
    random = np.random.default_rng(0)
    for number in range(COUNT):
        size = (20 + number % 5, 24 + number % 7)
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)).save(
            path / f"{number}.png"
        )
        Image.fromarray(random.integers(0, 256, size, dtype=np.uint8)).save(
            path / f"{number}-mask.png"
        )
    (path / "texts").write_text("".join(f"text {number:02}" for number in range(COUNT)))
    return path


class Triples:
    """Three files of which one is shared, and what is no file."""

    def __init__(self, folder, names=("number", "text", "image", "mask")):
        self.folder = folder
        self.names = names

    def __len__(self):
        return COUNT

    def locate(self, index):
        found = {
            "number": index * 10,
            "text": foreload.Part(self.folder / "texts", index * 7, 7),
            "image": self.folder / f"{index}.png",
            "mask": str(self.folder / f"{index}-mask.png"),
        }
        return {name: found[name] for name in self.names}


class Tuples(Triples):
    def locate(self, index):
        return tuple(super().locate(index).values())


def flat(batch: Any) -> list[Any]:
    """What a batch is made of, in a form that can be compared."""
    if isinstance(batch, torch.Tensor):
        return [("tensor", batch.dtype, batch.shape, batch.stride(), batch.tolist())]
    if isinstance(batch, dict):
        return ["dict", *((key, flat(value)) for key, value in batch.items())]
    if isinstance(batch, list | tuple):
        return [type(batch), *map(flat, batch)]
    return [batch]


@pytest.fixture
def python_makes_them(monkeypatch):
    """Lets Python threads make the samples of the loaders that are made while it is entered."""

    @contextlib.contextmanager
    def patched():
        with monkeypatch.context() as patch:
            patch.setattr(PartsTransform, "native", False)
            yield

    return patched


def batches(data, transform, epochs=2, **given):
    given = {"shuffle": True, "seed": 3, "memory": "1MiB"} | given
    loader = foreload.DataLoader(data, transform=transform, num_workers=1, **given)
    made = [flat(batch) for _ in range(epochs) for batch in loader]
    decoded = loader.stats()["decoded_samples"]
    loader.close()
    return made, decoded


@pytest.fixture
def expect_same(python_makes_them):
    def compare(data, transform, **given):
        by_cpp, decoded = batches(data, transform, **given)
        with python_makes_them():
            by_python, none = batches(data, transform, **given)
        assert decoded >= 2 * COUNT // given.get("world_size", 1)
        assert none == 0
        assert by_cpp == by_python

    return compare


@pytest.mark.parametrize(
    "given",
    [
        {"batch_size": 5},
        {"batch_size": 5, "return_index": True},
        {"batch_size": 5, "collate_fn": list},
        {"batch_size": 5, "collate_fn": list, "return_index": True},
        {"batch_size": None},
        {"batch_size": None, "return_index": True},
        {"batch_size": 4, "rank": 1, "world_size": 2},
        {"batch_size": 4, "shuffle": None, "sampler": [*range(COUNT), 3, 3, 1]},
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [Triples, Tuples])
def test_batches_are_those_of_python(folder, expect_same, kind, given):
    transform: Any = TRAIN
    if kind is Tuples:
        transform = (None, None, CROP, foreload.MaskOf(2, fill=255))
    expect_same(kind(folder), transform, **given)


@pytest.mark.parametrize(
    "chain",
    [
        T.Compose([T.CenterCrop(12)]),
        T.Compose([T.CenterCrop(12), T.ToLayout("CHW")]),
        T.Compose([T.CenterCrop(12), T.ToLayout("HWC")]),
        T.Compose([T.CenterCrop(12), T.ToDtype("bfloat16", scale=True)]),
        T.Compose([T.FiveCrop(8)]),
        T.Compose([T.RandomRotation(30), T.RandomCrop(9)]),
    ],
    ids=["uint8", "CHW", "HWC", "bfloat16", "five", "turned"],
)
def test_types_and_layouts_are_those_of_python(folder, expect_same, chain):
    expect_same(Triples(folder), TRAIN | {"image": chain}, batch_size=6)


def test_sizes_may_differ(folder, expect_same):
    transform = TRAIN | {"image": T.Compose([T.RandomHorizontalFlip()])}
    expect_same(Triples(folder), transform, batch_size=6, collate_fn=list)
    expect_same(Triples(folder), transform, batch_size=1)


def test_one_part_has_its_name(folder, expect_same):
    expect_same(Triples(folder, ("image",)), {"image": CROP}, batch_size=6)


def test_two_pictures_draw_the_same(folder):
    """As they do in Python: views of one scene move together."""

    class Twice(Triples):
        def locate(self, index):
            return self.folder / f"{index}.png", self.folder / f"{index}.png"

    loader = foreload.DataLoader(Twice(folder), 5, seed=1, shuffle=True, transform=(CROP, CROP))
    for left, right in loader:
        assert torch.equal(left, right)
    assert loader.stats()["decoded_samples"] >= COUNT
    loader.close()


def test_a_resumed_loop_goes_on_with_the_same_batches(folder):
    given = {"shuffle": True, "seed": 3, "transform": TRAIN}
    with_all = foreload.DataLoader(Triples(folder), 5, **given)
    expected = [flat(batch) for batch in with_all][2:]
    first = foreload.DataLoader(Triples(folder), 5, **given)
    list(itertools.islice(first, 2))
    second = foreload.DataLoader(Triples(folder), 5, **given)
    second.load_state_dict(first.state_dict())
    assert [flat(batch) for batch in second] == expected


@pytest.mark.parametrize("bad", [b"no image", None], ids=["damaged", "of another size"])
def test_a_bad_mask_is_an_error_or_skipped_as_in_python(folder, tmp_path, python_makes_them, bad):
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    if bad is None:
        Image.new("L", (3, 4)).save(tmp_path / "7-mask.png")
    else:
        (tmp_path / "7-mask.png").write_bytes(bad)
    given = {"transform": TRAIN, "num_workers": 1, "shuffle": False}

    def read():
        loader = foreload.DataLoader(Triples(tmp_path), 1, **given)
        each = iter(loader)
        numbers, said = [], ""
        for _ in range(COUNT):
            try:
                numbers += next(each)["number"].tolist()
            except foreload.BadSampleError as error:
                said = str(error)
        loader.close()
        return numbers, said

    def skip():
        loader = foreload.DataLoader(
            Triples(tmp_path), 5, on_error="skip", return_index=True, **given
        )
        with pytest.warns(RuntimeWarning, match="1 sample skipped"):
            made = [flat(batch) for batch in loader]
        assert loader.stats()["skipped"] == 1
        loader.close()
        return made

    (numbers, said), made = read(), skip()
    assert numbers == [10 * number for number in range(COUNT) if number != 7]
    with python_makes_them():
        assert (numbers, said) == read()
        assert made == skip()


class Failing(Triples):
    """An entry that is no file could be had when the loader was made, and cannot be had later."""

    bad: tuple[int, ...] = ()

    def locate(self, index):
        if index in self.bad:
            raise LookupError(f"no number for {index}")
        return super().locate(index)


@pytest.mark.parametrize("size", [T.CenterCrop(9), T.RandomHorizontalFlip()], ids=["one", "apart"])
def test_an_entry_that_cannot_be_had_is_skipped_as_in_python(folder, python_makes_them, size):
    """It was an error whatever on_error= said."""

    def read(**given):
        data = Failing(folder)
        transform = TRAIN | {"image": T.Compose([size])}
        loader = foreload.DataLoader(
            data, 5, shuffle=False, transform=transform, num_workers=1, return_index=True, **given
        )
        data.bad = (7, 8, COUNT - 1)
        made, said = [], []
        each = iter(loader)
        for _ in range(len(loader)):
            try:
                made.append(flat(next(each)))
            except foreload.BadSampleError as error:
                said.append(str(error))
        if given["on_error"] == "skip":
            with pytest.warns(RuntimeWarning, match="3 samples skipped"):
                assert next(each, None) is None
        stats = loader.stats()
        loader.close()
        return made, said, stats["skipped"], stats["skipped_names"]

    lists = {"collate_fn": list}
    for given in ({"on_error": "skip"} | lists, {"on_error": "raise"} | lists):
        by_cpp = read(**given)
        with python_makes_them():
            by_python = read(**given)
        assert by_cpp[0] == by_python[0]
        assert len(by_cpp[1]) == len(by_python[1]) == (0 if given["on_error"] == "skip" else 2)
        assert by_cpp[2:] == by_python[2:]
        assert all("LookupError: no number for" in said for said in by_cpp[1])


def test_a_batch_without_any_entry_is_an_error(folder):
    data = Failing(folder)
    loader = foreload.DataLoader(
        data, 2, shuffle=False, transform=TRAIN, num_workers=1, on_error="skip"
    )
    data.bad = (2, 3)
    each = iter(loader)
    assert next(each)["number"].tolist() == [0, 10]
    with pytest.raises(foreload.BadSampleError, match=r"^all 2 samples of a batch are bad; "):
        next(each)
    assert next(each)["number"].tolist() == [40, 50]
    loader.close()


def test_what_python_must_do_it_does(folder):
    class Decoding(Triples):
        def decode(self, parts, index):
            return parts | {"number": index}

    class Unlike(Triples):
        def locate(self, index):
            found = super().locate(index)
            return found if index % 2 else dict(reversed(found.items()))

    for data, transform in (
        (Triples(folder), TRAIN | {"text": len}),
        (Decoding(folder), TRAIN),
        (Unlike(folder), TRAIN),
    ):
        loader = foreload.DataLoader(data, COUNT, transform=transform, shuffle=False)
        (batch,) = list(loader)
        assert batch["image"].shape == (COUNT, 3, 9, 9)
        assert loader.stats()["decoded_samples"] == 0
        loader.close()


def test_a_transform_that_changes_is_refused(folder):
    flip = T.RandomHorizontalFlip()
    steps = T.Compose([T.CenterCrop(9), flip])
    loader = foreload.DataLoader(Triples(folder), 5, transform=TRAIN | {"image": steps})
    list(loader)
    steps.transforms.append(flip)
    with pytest.raises(RuntimeError, match="the transform changed after the DataLoader was made"):
        next(iter(loader))
    loader.close()


def test_an_index_of_other_names_is_refused(folder, tmp_path):
    index = tmp_path / "kept.index"
    foreload.DataLoader(Triples(folder), transform=TRAIN, index=index).close()

    class Renamed(Triples):
        def locate(self, index):
            found = super().locate(index)
            return found | {"mask": found["number"], "label": found["mask"]}

    transform = {"image": CROP, "label": foreload.MaskOf("image"), "text": None}
    with pytest.raises(ValueError, match=r"^cannot decode part 'label': sample 0 .*revalidate"):
        foreload.DataLoader(Renamed(folder), transform=transform, index=index)
    foreload.DataLoader(Renamed(folder), transform=transform, index=index, revalidate=True).close()
