# SPDX-License-Identifier: Apache-2.0
"""What is changed after a loader was made: torch's DataLoader gives the new data in the next
iteration, so foreload gives it too or refuses. Old data came in silence before."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from real_torchvision import torchvision, v1, v2
from torch.utils.data import ConcatDataset, Subset, TensorDataset

import foreload
from foreload.loader.changes import look_of
from foreload.workers.crew import Crew

ImageFolder = torchvision.datasets.ImageFolder


def assert_refused(dataset: Any, change: Callable[[], object], what: str, **given: Any) -> None:
    """The second iteration is refused, and the third."""
    given = {"batch_size": 4, "num_workers": 1} | given
    loader = foreload.DataLoader(dataset, **given)
    list(loader)
    list(loader)
    change()
    for _ in range(2):
        with pytest.raises(
            RuntimeError, match=f"^{what} changed after the DataLoader was made: make a new"
        ):
            next(iter(loader))
    loader.close()


def compose(*steps: Any) -> Any:
    return v2.Compose([*steps, v2.PILToTensor()])


@pytest.mark.parametrize(
    "change",
    [
        lambda transform: transform.transforms.__setitem__(0, v2.CenterCrop(4)),
        lambda transform: transform.transforms.append(v2.RandomHorizontalFlip(1.0)),
        lambda transform: setattr(transform, "transforms", [v2.PILToTensor()]),
        lambda transform: setattr(transform.transforms[0], "size", (4, 4)),
        lambda transform: transform.register_forward_hook(lambda *given: None),
        lambda transform: transform.transforms[0].register_forward_pre_hook(lambda *given: None),
    ],
)
def test_a_translated_transform(images, change):
    folder = ImageFolder(images, compose(v2.CenterCrop(8)))
    assert_refused(folder, lambda: change(folder.transform), "the transform of ImageFolder")
    transform = compose(v2.CenterCrop(8))
    assert_refused(images, lambda: change(transform), "the transform", transform=transform)


def test_the_numbers_of_a_translated_transform(images):
    mean = torch.tensor([0.5, 0.5, 0.5])
    steps = [v1.CenterCrop(8), v1.ToTensor(), v1.Normalize(mean, [0.5] * 3)]
    folder = ImageFolder(images, v1.Compose(steps))
    assert_refused(folder, lambda: mean.fill_(0.25), "the transform of ImageFolder")


def test_a_transform_of_foreload(images):
    steps = foreload.transforms
    chain = steps.Compose([steps.CenterCrop(8)])
    change = lambda: chain.transforms.append(steps.RandomHorizontalFlip(1.0))  # noqa: E731
    assert_refused(images, change, "the transform", transform=chain)


def test_training_mode_changes_no_transform(images):
    folder = ImageFolder(images, compose(v2.CenterCrop(8)))
    loader = foreload.DataLoader(folder, 4, num_workers=1)
    next(iter(loader))
    torch.nn.Sequential(folder.transform).eval()
    next(iter(loader))
    loader.close()


def test_an_equal_transform_is_the_same(images):
    folder = ImageFolder(images, compose(v2.CenterCrop(8)))
    loader = foreload.DataLoader(folder, 4, num_workers=1)
    next(iter(loader))
    folder.transform = compose(v2.CenterCrop(8))
    next(iter(loader))
    loader.close()


def test_a_transform_that_runs_in_python_may_change(images):
    folder = ImageFolder(images, compose(v2.CenterCrop(8), v2.Lambda(lambda image: image)))
    with pytest.warns(UserWarning, match="Lambda"):
        loader = foreload.DataLoader(folder, 4, num_workers=1)
    assert next(iter(loader))[0].shape == (4, 3, 8, 8)
    folder.transform.transforms[0] = v2.CenterCrop(4)
    assert next(iter(loader))[0].shape == (4, 3, 4, 4)
    loader.close()


class Cropped:
    """A transform of the user's own."""

    def __init__(self) -> None:
        self.size = 8

    def __call__(self, image: Any) -> Any:
        return np.asarray(image.crop((0, 0, self.size, self.size)))


def test_a_transform_that_processes_have_a_copy_of(images):
    transform = Cropped()
    change = lambda: setattr(transform, "size", 4)  # noqa: E731
    assert_refused(images, change, "the transform", transform=transform, workers="process")
    folder = ImageFolder(images, Cropped())
    change = lambda: setattr(folder.transform, "size", 4)  # noqa: E731
    assert_refused(folder, change, "the transform", workers="process")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda folder: folder.samples.reverse(), "list of samples"),
        (lambda folder: folder.samples.pop(), "list of samples"),
        (lambda folder: folder.samples.__setitem__(25, folder.samples[0]), "list of samples"),
        (lambda folder: setattr(folder, "samples", folder.samples[:7]), "list of samples"),
        (lambda folder: setattr(folder, "transform", None), "transform"),
        (lambda folder: setattr(folder, "target_transform", str), "target_transform"),
        (lambda folder: setattr(folder, "loader", print), "loader"),
    ],
)
def test_attributes_of_a_folder(images, change, what):
    folder = ImageFolder(images, compose(v2.CenterCrop(8)))
    assert_refused(folder, lambda: change(folder), f"the {what} of ImageFolder")


def test_a_pair_of_samples_that_is_a_list(images):
    class Declared:
        foreload_samples = True

        def __init__(self) -> None:
            self.samples = [[path, label] for path, label in ImageFolder(images).samples]

    declared = Declared()
    change = lambda: declared.samples[3].__setitem__(1, 9)  # noqa: E731
    chain = foreload.transforms.CenterCrop(8)
    assert_refused(declared, change, "the list of samples of Declared", transform=chain)


def test_other_targets_are_not_used_by_torchvision_either(images):
    folder = ImageFolder(images, compose(v2.CenterCrop(8)))
    loader = foreload.DataLoader(folder, 50, num_workers=1)
    folder.targets[:] = [9] * 50
    theirs = next(iter(torch.utils.data.DataLoader(folder, 50)))
    assert torch.equal(next(iter(loader))[1], theirs[1])
    loader.close()


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
def test_indices_of_a_subset(images, kind):
    for inner in (ImageFolder(images, compose(v2.CenterCrop(8))), TensorDataset(torch.arange(50))):
        part = Subset(inner, kind(range(12)))
        change = lambda: part.indices.__setitem__(5, 40)  # noqa: B023, E731
        assert_refused(part, change, "the indices of Subset")
        part = Subset(inner, kind(range(12)))
        change = lambda: setattr(part, "indices", kind(range(8)))  # noqa: B023, E731
        assert_refused(part, change, "the indices of Subset")


def test_indices_of_a_subset_that_worker_processes_have(images):
    class Own(ImageFolder):
        def __getitem__(self, index):
            return index

    part = Subset(Own(images), list(range(12)))
    assert_refused(part, part.indices.reverse, "the indices of Subset")


def test_a_list_that_worker_processes_have():
    numbers = list(range(12))
    assert_refused(numbers, numbers.reverse, "the list")


def test_what_is_joined_and_what_is_chosen_from(images):
    folders = [ImageFolder(images, compose(v2.CenterCrop(8))) for _ in range(2)]
    folders[1].transform = folders[0].transform
    joined = ConcatDataset([Subset(folders[0], [0, 1]), Subset(folders[1], [6, 7])])
    assert_refused(joined, joined.datasets.reverse, "the data sets of ConcatDataset")
    change = lambda: joined.datasets[1].indices.reverse()  # noqa: E731
    assert_refused(joined, change, "the indices of Subset")
    part = Subset(folders[0], [0, 1])
    change = lambda: setattr(part, "dataset", folders[1])  # noqa: E731
    assert_refused(part, change, "the data set of Subset")


def test_the_memory_of_tensors_and_arrays():
    numbers = torch.arange(8)
    change = lambda: setattr(numbers, "data", torch.arange(8) * 100)  # noqa: E731
    assert_refused(TensorDataset(numbers), change, "the tensors of TensorDataset")
    numbers = torch.arange(8)
    change = lambda: setattr(numbers, "data", numbers.double())  # noqa: E731
    assert_refused(numbers, change, "the memory, shape or type of the data set")
    square = torch.arange(4).reshape(2, 2)
    assert_refused([square, square + 1], square.t_, "the list")
    array = np.arange(8)
    change = lambda: setattr(array, "shape", (4, 2))  # noqa: E731
    assert_refused(array, change, "the memory, shape or type of the data set")


def test_values_of_rows_may_change():
    numbers, more = torch.arange(4), np.arange(4)
    loader = foreload.DataLoader({"a": numbers, "b": more}, 4)
    list(loader)
    numbers += 10
    more += 20
    batch = next(iter(loader))
    assert batch["a"].tolist() == [10, 11, 12, 13]
    assert batch["b"].tolist() == [20, 21, 22, 23]
    loader.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda columns: columns.update(c=columns.pop("a")),
        lambda columns: columns.update(a=torch.arange(8) * 2),
        lambda columns: columns.update(c=torch.arange(8)),
        lambda columns: columns["text"].append("x"),
    ],
)
def test_columns_of_a_dict(change):
    columns = {"a": torch.arange(8), "text": list("abcdefgh")}
    assert_refused(columns, lambda: change(columns), "the columns of the data set")


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.set_transform(lambda rows: {"x": [-i for i in rows["i"]]}),
        lambda table: table.set_format("torch", columns=["i"]),
        lambda table: table.reset_format(),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_the_format_of_a_hugging_face_dataset(change, nested):
    def made(first: dict[str, list[Any]]) -> Any:
        return datasets.Dataset.from_dict(first).with_format("numpy")

    what = "the data or the format of the Hugging Face Dataset"
    table = made({"i": list(range(8)), "f": [0.5] * 8})
    assert_refused(Subset(table, range(8)) if nested else table, lambda: change(table), what)
    # With lists of different lengths the data set is called, in a worker process.
    table = made({"i": list(range(8)), "f": [[0.5] * (1 + i % 2) for i in range(8)]})
    assert_refused(table, lambda: change(table), what, batch_size=1)


def test_a_format_that_comes_back_is_the_same():
    table = datasets.Dataset.from_dict({"i": list(range(8))})
    loader = foreload.DataLoader(table, 8, num_workers=1)
    table.set_format("numpy")
    table.reset_format()
    assert next(iter(loader))["i"].tolist() == list(range(8))
    loader.close()


def test_a_hugging_face_dataset_that_is_called_here_may_change():
    table = datasets.Dataset.from_dict({"i": list(range(8)), "f": [[0.5] * i for i in range(8)]})
    loader = foreload.DataLoader(table, 1, num_workers=0)
    next(iter(loader))
    table.set_transform(lambda rows: {"x": [-i for i in rows["i"]]})
    assert [batch["x"].item() for batch in loader] == [-i for i in range(8)]
    loader.close()


class Scaled(torch.utils.data.Dataset):
    """A data set of the user's own, which is called."""

    def __init__(self, scale: int = 1, size: int = 8) -> None:
        self.scale = scale
        self.size = size
        self.steps = [scale]

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> int:
        return index * self.scale * self.steps[0]


class ScaledStream(torch.utils.data.IterableDataset):
    def __init__(self) -> None:
        self.scale = 1
        self.steps = [1]

    def __iter__(self) -> Any:
        return iter([number * self.scale * self.steps[0] for number in range(8)])


class Added:
    """A collate_fn with slots."""

    __slots__ = ("more",)

    def __init__(self) -> None:
        self.more = 0

    def __call__(self, samples: list[int]) -> list[int]:
        return [sample + self.more for sample in samples]


@pytest.mark.parametrize("kind", [Scaled, ScaledStream])
@pytest.mark.parametrize("broken_off", [False, True])
def test_what_worker_processes_have_a_copy_of(kind, broken_off):
    """They kept the copy that they began with, where torch's workers have a new one each time."""
    dataset, collate = kind(), Added()
    loader = foreload.DataLoader(
        dataset, 4, num_workers=1, collate_fn=collate, multiprocessing_context="fork"
    )
    first = [list(range(4)), list(range(4, 8))]

    def changed(times: int, more: int = 0) -> None:
        expected = [[times * number + more for number in batch] for batch in first]
        if broken_off:
            assert next(iter(loader)) == expected[0]
        else:
            assert list(loader) == expected

    changed(1)
    dataset.scale = 10
    changed(10)
    dataset.steps[0] = 3
    changed(30)
    collate.more = 1
    changed(30, 1)
    loader.close()


def test_what_spawned_processes_have_a_copy_of():
    dataset = Scaled()
    loader = foreload.DataLoader(dataset, 8, num_workers=1, multiprocessing_context="spawn")
    for scale in (1, 10):
        dataset.scale = scale
        assert next(iter(loader)).tolist() == [number * scale for number in range(8)]
    loader.close()


def test_a_state_is_gone_on_with_in_new_worker_processes():
    dataset = ScaledStream()
    loader = foreload.DataLoader(dataset, 2, num_workers=2)
    iterator = iter(loader)
    for _ in range(3):
        next(iterator)
    state = loader.state_dict()
    expected = [batch.tolist() for batch in iterator]
    dataset.scale = 10
    with pytest.warns(UserWarning, match="read again and dropped"):
        loader.load_state_dict(state)
    assert [batch.tolist() for batch in loader] == [
        [10 * number for number in batch] for batch in expected
    ]
    loader.close()


def test_an_iteration_goes_on_beside_new_worker_processes():
    dataset = Scaled()
    loader = foreload.DataLoader(dataset, 2, num_workers=1)
    first = iter(loader)
    assert next(first).tolist() == [0, 1]
    dataset.scale = 10
    assert [batch.tolist() for batch in loader] == [[0, 10], [20, 30], [40, 50], [60, 70]]
    assert [batch.tolist() for batch in first] == [[20, 30], [40, 50], [60, 70]]
    loader.close()


class Pids(Scaled):
    """What a large data set has, and what nobody sees into."""

    def __init__(self) -> None:
        super().__init__(size=2)
        self.paths = [str(number) for number in range(10_000)]
        self.lock = threading.Lock()
        self.path = Path("x")
        self.bound = self.__len__
        self.again = self

    def __getitem__(self, index: int) -> int:
        return os.getpid()


def pids_of(loader: Any) -> set[int]:
    return {pid for batch in loader for pid in batch.tolist()}


def test_worker_processes_stay_where_nothing_changed():
    dataset = Pids()
    loader = foreload.DataLoader(dataset, 1, num_workers=1, multiprocessing_context="fork")
    before = pids_of(loader)
    str(dataset.path), repr(dataset.path.parent), dataset.lock.acquire()
    assert pids_of(loader) == before
    dataset.paths[7_000] = "y"
    assert pids_of(loader) != before
    loader.close()


def test_persistent_workers_keep_their_copy_as_in_torch():
    for kind in (foreload.DataLoader, torch.utils.data.DataLoader):
        dataset = Scaled()
        loader = kind(dataset, 8, num_workers=1, persistent_workers=True)
        assert next(iter(loader)).tolist() == list(range(8))
        dataset.scale = 10
        assert next(iter(loader)).tolist() == list(range(8))


def test_new_worker_processes_can_be_closed_meanwhile(monkeypatch):
    """close() comes while others are started: whoever waits for a batch is told."""
    dataset = Scaled()
    loader = foreload.DataLoader(dataset, 8, num_workers=1, multiprocessing_context="fork")
    next(iter(loader))
    renewed = Crew.renewed

    def closed_meanwhile(crew: Crew) -> Crew:
        made = renewed(crew)
        loader._delivery.wake()
        return made

    monkeypatch.setattr(Crew, "renewed", closed_meanwhile)
    dataset.scale = 10
    with pytest.raises(RuntimeError, match="closed"):
        next(iter(loader))
    loader.close()


class Located:
    """Says itself where its samples are."""

    def __init__(self, images: str, parts: bool) -> None:
        self.paths = [path for path, _ in ImageFolder(images).samples]
        self.parts = parts

    def __len__(self) -> int:
        return len(self.paths)

    def locate(self, index: int) -> Any:
        if not self.parts:
            return self.paths[index]
        return {"image": foreload.Part(self.paths[index]), "number": index}

    def decode(self, data: Any, index: int) -> int:
        return len(data["image"] if self.parts else data)


@pytest.mark.parametrize("parts", [False, True])
def test_what_locate_gives(images, parts):
    located = Located(images, parts)
    assert_refused(located, located.paths.reverse, r"what locate\(\) of Located gives")
    assert_refused(Subset(located, [2]), located.paths.reverse, r"what locate\(\) of Located gives")


def larger() -> Any:
    made = Cropped()
    made.size = 9
    return made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda: functools.partial(cropped, size=8), lambda: functools.partial(cropped, size=4)),
        (lambda: Cropped().__call__, lambda: larger().__call__),
        (lambda: Slotted(8), lambda: Slotted(4)),
    ],
    ids=["partial", "method", "slots"],
)
def test_what_is_inside_of_functions(before, after):
    """Of partial, methods and slots nothing was seen."""
    assert look_of([before()]) == look_of([before()])
    assert look_of([before()]) != look_of([after()])


def cropped(image: Any, size: int) -> Any:
    return np.asarray(image.crop((0, 0, size, size)))


class Slotted:
    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self, image: Any) -> Any:
        return cropped(image, self.size)


def test_a_row_below_the_first_is_no_row():
    """-11 and -15 of ten rows were rows 9 and 5."""
    for data in (TensorDataset(torch.arange(10)), np.arange(10), torch.arange(10)):
        for indices in ([0, -11, -15], np.array([0, 1, -11]), [0, 1, 10]):
            loader = foreload.DataLoader(Subset(data, indices), batch_size=3, num_workers=0)
            with pytest.raises(IndexError, match="out of bounds"):
                next(iter(loader))
            loader.close()
    inner = Subset(TensorDataset(torch.arange(10)), [1, 2, 3])
    loader = foreload.DataLoader(Subset(inner, [-4]), num_workers=0)
    with pytest.raises(IndexError, match="out of range"):
        next(iter(loader))
    loader.close()
