# SPDX-License-Identifier: Apache-2.0
"""Data sets: of torch, of torchvision, of plain Python, and iterable ones."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from conformance import Items, SizedStream, Stream, Topic, outcome, warned
from PIL import Image
from torch.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    IterableDataset,
    SequentialSampler,
    StackDataset,
    Subset,
    TensorDataset,
    default_collate,
    random_split,
)

topic = Topic("data sets")
streams = Topic("iterable data sets")


def tensors(rows=7):
    return TensorDataset(torch.arange(rows * 2.0).view(rows, 2), torch.arange(rows))


OF_TORCH = {
    "TensorDataset": tensors,
    "TensorDataset of one tensor": lambda: TensorDataset(torch.arange(5)),
    "Subset": lambda: Subset(Items(9), [5, 1, 7]),
    "Subset of a Subset": lambda: Subset(Subset(tensors(), [5, 1, 3]), [2, 0]),
    "ConcatDataset": lambda: ConcatDataset([Items(3), Items(4, lambda i: 10 + i)]),
    "ConcatDataset of different kinds": lambda: ConcatDataset([[1, 2], Items(3)]),
    "StackDataset as tuples": lambda: StackDataset(Items(4), tensors(4)),
    "StackDataset as dicts": lambda: StackDataset(a=Items(4), b=tensors(4)),
    "random_split": lambda: random_split(
        Items(9), [4, 5], generator=torch.Generator().manual_seed(1)
    )[1],
    "random_split by fractions": lambda: random_split(
        tensors(9), [0.3, 0.7], generator=torch.Generator().manual_seed(1)
    )[0],
    "the sum of two": lambda: Items(3) + Items(2),
}

OF_PYTHON = {
    "a list of numbers": lambda: [3, 1, 4, 1, 5],
    "a list of texts": lambda: ["a", "b", "c"],
    "a list of tuples": lambda: [(n, str(n)) for n in range(5)],
    "a list of tensors": lambda: [torch.full((2,), n) for n in range(5)],
    "a list of arrays of one shape": lambda: [np.full((2, 2), n) for n in range(5)],
    "a tuple of numbers": lambda: (3, 1, 4),
    "a range": lambda: range(5),
    "a tuple of tensors": lambda: (torch.arange(4), torch.arange(4) * 2, torch.ones(4).long()),
    "a list of lists": lambda: [[1, 2], [3, 4], [5, 6]],
    "a dict with numbers as keys": lambda: {0: "a", 1: "b", 2: "c"},
    "a numpy array": lambda: np.arange(12.0).reshape(6, 2),
    "a numpy array of uint16": lambda: np.arange(6, dtype=np.uint16),
    "a tensor": lambda: torch.arange(12).view(6, 2),
    "a bytearray": lambda: bytearray(b"abc"),
}


@topic.same(over=OF_TORCH)
def of_torch(make, value):
    return list(make(value(), 2)), list(make(value(), None))


@topic.same(
    over={name: OF_TORCH[name] for name in ("TensorDataset", "ConcatDataset", "random_split")}
)
def of_torch_in_a_worker(make, value):
    return list(make(value(), 2, num_workers=1))


@topic.same(over=OF_PYTHON)
def of_Python(make, value):
    return list(make(value(), 2))


@topic.same()
def a_dict_of_lists_as_a_map_of_keys(make):
    columns = {"a": [1, 2], "b": [3, 4]}
    return list(make(columns, 2, sampler=["b", "a"], collate_fn=list))


@topic.same("A KeyError")
def a_dict_with_texts_as_keys_and_no_sampler(make):
    return outcome(lambda: list(make({"a": 1, "b": 2}, 2)))


@topic.same()
def an_object_with_getitem_and_len_alone(make):
    class Plain:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return index * index

    return list(make(Plain(), 3))


@topic.same()
def what_getitem_gives_is_asked_again_in_each_epoch(make):
    asked = []

    def told(index):
        asked.append(index)
        return len(asked)

    loader = make(Items(3, told), 2)
    return list(loader), list(loader), asked


@topic.same()
def a_data_set_that_grows_between_epochs(make):
    samples = [1, 2, 3]
    loader = make(Items(3, samples.__getitem__), 2)
    first = list(loader)
    samples[0] = 10
    return first, list(loader)


@topic.same()
def a_list_of_numbers_that_changes_between_epochs(make):
    samples = [1, 2]
    loader = make(samples, 2)
    first = list(loader)
    samples[0] = 7
    return first, list(loader)


OTHER = (
    "Other tensors, arrays or indices, or another length, when an iteration begins are an error: "
    "make a new loader."
)


@topic.refused(RuntimeError, "make a new DataLoader", OTHER, "torch's loader gives the new ones")
def a_list_of_tensors_that_changes_between_epochs(make):
    samples = [torch.tensor(1), torch.tensor(2)]
    loader = make(samples, 2)
    list(loader)
    samples[0] = torch.tensor(7)
    list(loader)


@topic.refused(RuntimeError, "make a new DataLoader", OTHER, "torch's loader gives the new ones")
def a_TensorDataset_that_gets_another_tensor(make):
    dataset = TensorDataset(torch.arange(4))
    loader = make(dataset, 2)
    list(loader)
    dataset.tensors = (torch.arange(4) + 1,)
    list(loader)


@topic.refused(RuntimeError, "make a new DataLoader", OTHER, "torch's loader gives the new ones")
def a_Subset_of_rows_whose_indices_change(make):
    part = Subset(tensors(), [0, 1])
    loader = make(part, 2)
    list(loader)
    part.indices[0] = 5
    list(loader)


@topic.refused(RuntimeError, "make a new DataLoader", OTHER, "torch's loader gives the new ones")
def a_list_that_grows_between_epochs(make):
    samples = [1, 2]
    loader = make(samples, 2)
    list(loader)
    samples += [3, 4, 5]
    list(loader)


@topic.same("The sampler says what comes")
def a_list_that_grows_between_epochs_with_a_sampler(make):
    samples, order = [1, 2], [1, 0]
    loader = make(samples, 2, sampler=order)
    first = list(loader)
    samples.append(3)
    order.append(2)
    return first, list(loader)


@topic.same()
def a_tensor_that_changes_between_epochs(make):
    values = torch.arange(4)
    loader = make(TensorDataset(values), 2)
    first = list(loader)
    values += 10
    return first, list(loader)


@topic.same()
def a_Subset_whose_indices_change_between_epochs(make):
    part = Subset(Items(9), [0, 1])
    loader = make(part, 2)
    first = list(loader)
    part.indices = [7, 8]
    return first, list(loader)


INDICES = {
    "negative numbers": [-1, 0, -7],
    "numbers of numpy": list(np.array([4, 0, 1])),
    "tensors": list(torch.tensor([4, 0, 1])),
    "an array": np.array([4, 0, 1]),
    "slices": [slice(0, 2), slice(4, 6)],
}


@topic.same(over=INDICES)
def a_TensorDataset_with_a_sampler_of(make, value):
    return list(make(tensors(), 2, sampler=value)), list(make(tensors(), None, sampler=value))


@topic.same("An IndexError")
def a_TensorDataset_with_an_index_beyond_it(make):
    return outcome(lambda: list(make(tensors(), 2, sampler=[0, 9])))


@topic.same("The recipe of torch's documentation for bulk loading")
def a_TensorDataset_with_a_BatchSampler_and_batch_size_None(make):
    sampler = BatchSampler(SequentialSampler(range(7)), 3, False)
    return [list(make(data, None, sampler=sampler)) for data in (tensors(), torch.arange(7))]


@topic.same()
def a_Subset_of_rows_with_a_BatchSampler_and_batch_size_None(make):
    sampler = BatchSampler(SequentialSampler(range(4)), 3, False)
    return list(make(Subset(tensors(), [6, 2, 4, 0]), None, sampler=sampler))


@topic.same()
def a_Subset_of_rows_with_negative_indices(make):
    return list(make(Subset(tensors(), [-1, 2, -3]), 2, sampler=[-1, 0, -3]))


@topic.same("Type, and the next batch comes")
def a_TensorDataset_goes_on_after_an_index_beyond_it(make):
    iterator = iter(make(tensors(), 1, sampler=[0, 9, 1]))
    return [outcome(lambda: next(iterator)) for _ in range(4)]


@topic.same()
def a_TensorDataset_with_a_batch_sampler(make):
    return list(make(tensors(), batch_sampler=[[0, 6], [3], [1, 1, 1]]))


@topic.same()
def a_TensorDataset_with_a_collate_fn(make):
    return list(make(tensors(), 3, collate_fn=lambda rows: [label for _, label in rows]))


@topic.same()
def a_TensorDataset_of_tensors_that_need_gradients(make):
    return list(make(TensorDataset(torch.ones(4, 2, requires_grad=True)), 2))


@topic.same()
def a_TensorDataset_with_transposed_tensors(make):
    return list(make(TensorDataset(torch.arange(12).view(3, 4).T), 3))


@topic.differs(
    "A dict of columns, of which at least one is an array or a tensor, is a data set of rows; "
    "torch's loader takes every dict as samples by key."
)
def a_dict_of_columns(make):
    columns = {"a": torch.arange(5), "b": [str(n) for n in range(5)]}
    (first, *_) = make(columns, 2)
    assert first["a"].tolist() == [0, 1]
    assert first["b"] == ["0", "1"]
    assert len(make(columns, 2)) == 3
    assert list(make(columns, 5, collate_fn=len)) == [5]


@topic.differs(
    "A dict of columns, of which at least one is an array or a tensor, is a data set of rows; "
    "torch's loader takes every dict as samples by key.",
    "torch's Subset asks the dict by keys",
)
def a_Subset_of_a_dict_of_columns(make):
    chosen = Subset({"a": torch.arange(5), "b": [str(n) for n in range(5)]}, [3, 1, -1])
    batches = [make(chosen, 3), make(chosen, 3, collate_fn=default_collate)]
    assert [[batch["a"].tolist() for batch in batched] for batched in batches] == [[[3, 1, 4]]] * 2
    assert [sample["b"] for sample in make(chosen, None)] == ["3", "1", "4"]


@topic.differs(
    "Negative indices of a Hugging Face Dataset count from the end; with torch's loader a batch of "
    "them is an IndexError."
)
def a_Hugging_Face_Dataset_with_negative_indices(make):
    from datasets import Dataset

    table = Dataset.from_dict({"n": list(range(5))})
    (batch,) = make(table, 3, sampler=[0, -1, -5])
    assert batch["n"].tolist() == [0, 4, 0]


@topic.differs("A text or a path is the name of a folder or of a file list.")
def a_text_as_data_set(make):
    assert outcome(lambda: make.kind("no such folder")).kind is not None


_folders = []  # that go away in the end


def images(transform=None):
    """torchvision's ImageFolder of a few files."""
    from real_torchvision import torchvision

    _folders.append(tempfile.TemporaryDirectory(prefix="conformance"))
    folder = Path(_folders[-1].name)
    for number in range(5):
        target = folder / f"class{number % 2}" / f"{number}.png"
        target.parent.mkdir(exist_ok=True)
        Image.new("RGB", (8, 6), (number, 10 * number, 200)).save(target)
    return torchvision.datasets.ImageFolder(folder, transform=transform)


@topic.same("foreload reads the files itself")
def torchvision_s_ImageFolder(make):
    from real_torchvision import v1

    return list(make(images(v1.ToTensor()), 2))


@topic.same()
def torchvision_s_ImageFolder_with_a_function_as_transform(make):
    return list(make(images(lambda image: np.asarray(image, dtype=np.int32)), 2))


@topic.same()
def torchvision_s_ImageFolder_in_a_Subset(make):
    from real_torchvision import v1

    return list(make(Subset(images(v1.ToTensor()), [4, 0]), 2))


@topic.same()
def torchvision_s_ImageFolder_with_a_sampler(make):
    from real_torchvision import v1

    return list(make(images(v1.ToTensor()), 2, sampler=[4, 0, 0]))


@topic.same()
def torchvision_s_ImageFolder_with_a_collate_fn(make):
    from real_torchvision import v1

    return list(make(images(v1.ToTensor()), 2, collate_fn=lambda s: [label for _, label in s]))


@topic.same()
def torchvision_s_ImageFolder_as_single_samples(make):
    from real_torchvision import v1

    return list(make(images(v1.ToTensor()), None))


@topic.differs(
    "Where images of one batch differ in size, the batch has a list of them; torch's loader fails."
)
def torchvision_s_ImageFolder_with_images_of_different_sizes(make):
    from real_torchvision import v1

    folder = images(v1.ToTensor())
    Image.new("RGB", (3, 3)).save(folder.samples[0][0])
    pictures, labels = next(iter(make(folder, 5)))
    assert [tuple(picture.shape) for picture in pictures] == [(3, 3, 3)] + [(3, 6, 8)] * 4
    assert labels.tolist() == [0, 0, 0, 1, 1]


@topic.refused(
    ValueError,
    "Subset has no samples",
    "A folder without samples, or a Subset of none of its files, is refused when the loader is "
    "made.",
    "torch's loader gives nothing",
)
def a_Subset_of_no_files(make):
    make.kind(Subset(images(), []), 2)


@topic.refused(
    IndexError,
    "indices of this data set go from 0 to",
    "Negative indices of a sampler are an error for files that foreload reads.",
    "torchvision's ImageFolder counts from the end",
)
def a_sampler_of_files_with_negative_indices(make):
    next(iter(make.kind(images(), 2, sampler=[0, -1])))


@topic.refused(
    ValueError,
    "worker_init_fn is refused",
    "`worker_init_fn` and `multiprocessing_context` are refused for data that foreload reads "
    "itself: threads do that.",
)
def worker_init_fn_with_files_that_foreload_reads(make):
    make.kind(images(), 2, worker_init_fn=print)


@topic.refused(
    RuntimeError,
    "make a new DataLoader",
    "If the transform, loader or list of samples of a data set that foreload reads is another one "
    "when an iteration begins, that is an error.",
)
def a_transform_of_ImageFolder_that_is_set_later(make):
    folder = images(lambda image: 1)
    loader = make.kind(folder, 2)
    list(loader)
    folder.transform = None
    list(loader)


# Iterable data sets.

SHAPES = {
    f"{workers} workers, batch_size={batch_size}, drop_last={drop_last}": (
        workers,
        batch_size,
        drop_last,
    )
    for workers, batch_size, drop_last in (
        (0, 3, False),
        (0, 3, True),
        (0, None, False),
        (1, 3, False),
        (1, None, False),
        (2, 3, False),
        (2, 3, True),
        (2, None, False),
    )
}


@streams.same("Batches come from the workers in turn", over=SHAPES)
def that_workers_share(make, value):
    workers, batch_size, drop_last = value
    loader = make(Stream(11), batch_size, num_workers=workers, drop_last=drop_last)
    return list(loader), list(loader)


@streams.same()
def that_workers_do_not_share_is_given_by_each(make):
    return list(make(Stream(4, split=False), 2, num_workers=2))


@streams.same()
def that_is_empty(make):
    return [list(make(Stream(0), 2, num_workers=workers)) for workers in (0, 2)]


@streams.same()
def whose_second_worker_has_nothing(make):
    return list(make(Stream(1), 2, num_workers=2))


@streams.same()
def that_never_ends(make):
    class Endless(IterableDataset):
        def __iter__(self):
            number = 0
            while True:
                yield number
                number += 1

    iterator = iter(make(Endless(), 2))
    return [next(iterator) for _ in range(5)]


@streams.same()
def ChainDataset_of_streams(make):
    return list(make(ChainDataset([Stream(3), Stream(4)]), 2)), list(make(Stream(2) + Stream(3)))


@streams.same()
def with_a_collate_fn(make):
    return list(make(Stream(5), 2, collate_fn=tuple)), list(
        make(Stream(5), None, collate_fn=lambda sample: -sample)
    )


@streams.same()
def that_is_its_own_iterator(make):
    class Own(IterableDataset):
        left = 3

        def __iter__(self):
            return self

        def __next__(self):
            if self.left == 0:
                raise StopIteration
            self.left -= 1
            return self.left

    loader = make(Own(), 2)
    return list(loader), list(loader)


@streams.same()
def whose_iter_is_called_once_in_each_epoch(make):
    begun = []

    class Told(IterableDataset):
        def __iter__(self):
            begun.append(1)
            yield from range(3)

    loader = make(Told(), 2)
    return list(loader), list(loader), len(begun)


@streams.same("Once for each epoch and worker")
def whose_workers_know_who_they_are(make):
    def who(number):
        info = torch.utils.data.get_worker_info()
        return number, info.id, info.num_workers, type(info.dataset).__name__

    return list(make(Stream(6, who), 2, num_workers=2, collate_fn=list))


@streams.same("The recipe of torch's documentation")
def that_worker_init_fn_splits(make):
    class Span(IterableDataset):
        start, end = 0, 7

        def __iter__(self):
            return iter(range(self.start, self.end))

    def split(worker):
        info = torch.utils.data.get_worker_info()
        span = info.dataset
        share = -(-(span.end - span.start) // info.num_workers)
        span.start += worker * share
        span.end = min(span.start + share, span.end)

    return list(make(Span(), 2, num_workers=2, worker_init_fn=split))


@streams.same("No warning unless len() was asked for")
def that_gives_less_than_it_says(make):
    class Long(SizedStream):
        def __len__(self):
            return 9

    loader = make(Long(2))
    len(loader)
    return warned(lambda: list(loader))


@streams.same()
def that_raises_goes_on_with_nothing(make):
    class Broken(IterableDataset):
        def __iter__(self):
            yield 1
            raise LookupError("the tape is torn")

    iterator = iter(make(Broken()))
    return [outcome(lambda: next(iterator), "the tape is torn") for _ in range(2)]


@streams.same("A TypeError")
def the_length_of_a_generator(make):
    return outcome(lambda: len(make(n for n in range(3))))


@streams.same()
def with_two_iterators_in_turn(make):
    loader = make(Stream(6), 2)
    one, other = iter(loader), iter(loader)
    return [next(one), next(other), next(one), next(other), next(other), next(one)]


@streams.same()
def that_is_left_early(make):
    loader = make(Stream(6), 2, num_workers=1)
    return next(iter(loader)), list(loader)


@streams.differs("What has `__iter__` and no `__getitem__` is a stream, whatever class it has.")
def a_plain_iterable(make):
    class Plain:
        def __iter__(self):
            return iter(range(3))

    assert [batch.tolist() for batch in make(Plain(), 2)] == [[0, 1], [2]]


@streams.refused(
    TypeError,
    "is a DataPipe",
    "DataPipes are refused: torch's loader shuffles and shards them in a way of its own.",
)
def a_DataPipe(make):
    from torch.utils.data.datapipes.iter import IterableWrapper

    make(IterableWrapper(range(5)))
