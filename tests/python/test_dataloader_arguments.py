# SPDX-License-Identifier: Apache-2.0
"""Arguments of torch's DataLoader: they mean here what they mean there."""

import itertools
import re
import threading
from pathlib import Path

import numpy as np
import pytest

import foreload
from foreload import transforms

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

CHAIN = transforms.Compose([transforms.Resize((8, 8))])


class Numbers:
    """Samples in memory, each its own number."""

    def __len__(self):
        return 20

    def locate(self, index):
        return bytes([index])

    def decode(self, data, index):
        return index


def numbers(batches) -> list[list[int]]:
    return [batch.tolist() for batch in batches]


def test_defaults_are_torch_s():
    ours = foreload.DataLoader(Numbers())
    theirs = torch.utils.data.DataLoader(range(20))
    assert numbers(ours) == numbers(theirs)  # batches of one, in order
    for name in ("batch_size", "drop_last", "timeout", "pin_memory", "generator"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 6, 20, 50])
def test_batches_are_cut_as_torch_cuts_them(batch_size, drop_last):
    ours = foreload.DataLoader(Numbers(), batch_size, drop_last=drop_last)
    theirs = torch.utils.data.DataLoader(range(20), batch_size, drop_last=drop_last)
    assert numbers(ours) == numbers(theirs)
    assert len(ours) == len(theirs)


def test_a_generator_gives_one_seed_at_construction():
    def loader(seed):
        return foreload.DataLoader(
            Numbers(), 20, shuffle=True, generator=torch.Generator().manual_seed(seed)
        )

    assert numbers(loader(1)) == numbers(loader(1)) != numbers(loader(2))
    generator = torch.Generator().manual_seed(1)
    kept = foreload.DataLoader(Numbers(), 20, shuffle=True, generator=generator)
    state = generator.get_state()
    list(kept)
    assert torch.equal(generator.get_state(), state)
    with pytest.raises(ValueError, match="exclude"):
        foreload.DataLoader(Numbers(), generator=generator, seed=1)


def test_the_global_random_state_is_left_alone(images):
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    list(foreload.DataLoader(images, 8, shuffle=True, transform=transforms.imagenet_train(16)))
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


def test_a_distributed_sampler_of_torch_is_told_the_epoch():
    def sampler():
        return torch.utils.data.DistributedSampler(range(20), 2, 1, shuffle=True, seed=4)

    loader = foreload.DataLoader(Numbers(), 5, sampler=sampler())
    reference = sampler()
    for epoch in (0, 3):
        loader.set_epoch(epoch)
        reference.set_epoch(epoch)
        assert list(itertools.chain(*numbers(loader))) == list(reference)


def test_a_resume_with_a_sampler_counts_batches():
    def loader():
        sampler = torch.utils.data.DistributedSampler(range(20), 1, 0, shuffle=True, seed=4)
        return foreload.DataLoader(Numbers(), 6, sampler=sampler)

    first = loader()
    first.set_epoch(2)
    whole = numbers(first)
    first.set_epoch(2)
    iterator = iter(first)
    seen = numbers(itertools.islice(iterator, 2))
    second = loader()
    second.load_state_dict(first.state_dict())
    assert seen + numbers(second) == whole


def test_samplers_that_make_no_sense_are_refused():
    with pytest.raises(IndexError, match="index 20"):
        next(iter(foreload.DataLoader(Numbers(), sampler=[0, 20])))
    with pytest.raises(ValueError, match="empty batch"):
        next(iter(foreload.DataLoader(Numbers(), batch_sampler=[[]])))


def test_a_loader_of_the_data_set_s_own(images):
    class Own:
        def __init__(self):
            self.samples = [(str(p), 7) for p in sorted(images.rglob("*.png"))]

        def loader(self, file):
            assert file.name.endswith(".png")
            return len(file.read())

        def __len__(self):
            return len(self.samples)

    data = Own()
    sizes, labels = next(iter(foreload.DataLoader(data, batch_size=5)))
    with_sizes = [Path(path).stat().st_size for path, _ in data.samples[:5]]
    assert sizes.tolist() == with_sizes
    assert labels.tolist() == [7] * 5
    with pytest.raises(ValueError, match="makes its samples itself"):
        foreload.DataLoader(data, transform=CHAIN)


def test_collate_fn_runs_in_order_in_the_loop_s_thread(images):
    seen = []

    def collate(samples):
        seen.append((threading.get_ident(), samples[0][2]))
        return len(samples)

    loader = foreload.DataLoader(
        images, 10, transform=CHAIN, collate_fn=collate, return_index=True, num_workers=4
    )
    assert list(loader) == [10] * 5
    assert seen == [(threading.get_ident(), first) for first in range(0, 50, 10)]


def test_labels_do_not_keep_the_memory_of_images(images):
    _, labels = next(iter(foreload.DataLoader(images, 10, transform=CHAIN)))
    assert labels.untyped_storage().nbytes() == 80


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"transport": "pigeon"},
            "transport is 'pigeon': use 'auto', 'ucx', 'mpi', 'host' or 'none'",
        ),
        ({"join_timeout": 0}, "join_timeout is 0: give seconds above 0"),
        ({"peer_timeout": -1}, "peer_timeout is -1: give seconds above 0"),
        ({"deadline": 0}, "deadline is 0: give seconds above 0"),
        ({"cache": foreload.Cache(), "memory": 1}, "cache= and memory= or disk= exclude"),
        ({"decoder": "gpu"}, "needs device='cuda'"),
    ],
)
def test_what_is_wrong_is_said(images, given, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        foreload.DataLoader(images, transform=CHAIN, **given)
