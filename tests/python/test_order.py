# SPDX-License-Identifier: Apache-2.0
"""Reading lists: equal to torch's, complete, and the same after a restart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import foreload

torch = pytest.importorskip("torch")
DistributedSampler = pytest.importorskip("torch.utils.data").DistributedSampler

IMAGENET = 1_281_167

samples = st.integers(1, 5_000)
ranks = st.integers(1, 70)
epochs = st.integers(0, 1_000)
# torch adds the epoch to the seed before it takes the sum modulo 2**64, and refuses sums outside
# [-2**63, 2**64).
seeds = st.integers(-(2**63), 2**64 - 1 - 1_000)
orders = st.sampled_from(["torch", "feistel", "sequential"])
pads = st.sampled_from(["repeat", "truncate"])


class Counted:
    """A data set of which only the length matters."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples


def torch_list(
    samples: int, ranks: int, rank: int, epoch: int, seed: int, shuffle: bool, drop_last: bool
) -> list[int]:
    sampler = DistributedSampler(Counted(samples), ranks, rank, shuffle, seed, drop_last)
    sampler.set_epoch(epoch)
    return list(sampler)


def torch_permutation(samples: int, seed: int) -> npt.NDArray[np.int64]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(samples, generator=generator).numpy()


@settings(max_examples=300, deadline=None)
@given(samples, ranks, epochs, seeds, st.booleans(), st.booleans(), st.data())
def test_lists_are_those_of_distributed_sampler(
    samples: int,
    ranks: int,
    epoch: int,
    seed: int,
    shuffle: bool,
    drop_last: bool,
    data: st.DataObject,
) -> None:
    rank = data.draw(st.integers(0, ranks - 1), "rank")
    mine = foreload.order(
        samples,
        ranks=ranks,
        rank=rank,
        epoch=epoch,
        seed=seed,
        order="torch" if shuffle else "sequential",
        pad="truncate" if drop_last else "repeat",
    )
    assert mine.dtype == np.int64
    assert mine.tolist() == torch_list(samples, ranks, rank, epoch, seed, shuffle, drop_last)


@settings(max_examples=200, deadline=None)
@given(samples, st.integers(-(2**63), 2**64 - 1))
def test_one_rank_reads_torchs_permutation(samples: int, seed: int) -> None:
    np.testing.assert_array_equal(
        foreload.order(samples, seed=seed), torch_permutation(samples, seed)
    )


@pytest.mark.parametrize(
    ("samples", "ranks", "rank", "epoch", "seed", "drop_last"),
    [
        (IMAGENET, 1, 0, 0, 0, False),
        (IMAGENET, 16, 15, 89, 2**32 - 1, False),
        (IMAGENET, 1_024, 1_023, 3, -1, False),
        (IMAGENET, 7, 3, 1, 2**63, True),
        (1_000_000, 64, 63, 41, 2**64 - 100, True),
        (50_000, 3, 2, 7, -(2**63), False),
    ],
)
def test_large_lists_are_those_of_distributed_sampler(
    samples: int, ranks: int, rank: int, epoch: int, seed: int, drop_last: bool
) -> None:
    mine = foreload.order(
        samples,
        ranks=ranks,
        rank=rank,
        epoch=epoch,
        seed=seed,
        pad="truncate" if drop_last else "repeat",
    )
    np.testing.assert_array_equal(
        mine, torch_list(samples, ranks, rank, epoch, seed, True, drop_last)
    )


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize(("samples", "ranks"), [(1, 2), (3, 10), (5, 64), (9, 1_000)])
def test_more_ranks_than_samples(samples: int, ranks: int, drop_last: bool) -> None:
    pad = "truncate" if drop_last else "repeat"
    for rank in range(0, ranks, max(1, ranks // 20)):
        mine = foreload.order(samples, ranks=ranks, rank=rank, seed=5, pad=pad)
        assert mine.tolist() == torch_list(samples, ranks, rank, 0, 5, True, drop_last)


@pytest.mark.soak
@pytest.mark.parametrize("samples", [214_748_363, 214_748_364, 214_748_365])
def test_soak_both_of_torchs_shuffles(samples: int) -> None:
    """torch draws 64 bits at a time from 214,748,364 samples on."""
    theirs = torch_permutation(samples, 11)
    mine = foreload.order(samples, seed=11)
    piece = 1 << 24
    for first in range(0, samples, piece):
        assert np.array_equal(mine[first : first + piece], theirs[first : first + piece]), first


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2_000), ranks, epochs, orders, pads, st.data())
def test_global_list_deals_to_ranks_in_turn(
    samples: int, ranks: int, epoch: int, order: str, pad: str, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, samples + 1), "start")
    everybody = foreload.order(
        samples, ranks=ranks, rank=None, epoch=epoch, order=order, pad=pad, start=start
    )
    for rank in {0, ranks // 2, ranks - 1}:
        mine = foreload.order(
            samples, ranks=ranks, rank=rank, epoch=epoch, order=order, pad=pad, start=start
        )
        np.testing.assert_array_equal(everybody[rank::ranks], mine)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2_000), ranks, seeds, orders, pads, st.data())
def test_restart_with_as_many_ranks_reads_the_rest(
    samples: int, ranks: int, seed: int, order: str, pad: str, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, ranks - 1), "rank")
    whole = foreload.order(samples, ranks=ranks, rank=rank, seed=seed, order=order, pad=pad)
    steps = data.draw(st.integers(0, len(whole)), "steps")
    rest = foreload.order(
        samples, ranks=ranks, rank=rank, seed=seed, order=order, pad=pad, start=steps * ranks
    )
    np.testing.assert_array_equal(rest, whole[steps:])


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2_000), ranks, ranks, seeds, orders, pads, st.data())
def test_restart_with_other_ranks_loses_nothing_and_reads_nothing_twice(
    samples: int, before: int, after: int, seed: int, order: str, pad: str, data: st.DataObject
) -> None:
    everything = foreload.order(samples, seed=seed, order=order)
    start = before * data.draw(st.integers(0, samples // before), "steps")
    lists = [
        foreload.order(
            samples, ranks=after, rank=rank, seed=seed, order=order, pad=pad, start=start
        )
        for rank in range(after)
    ]
    assert len({len(mine) for mine in lists}) == 1
    dealt = np.stack(lists, axis=1).reshape(-1)
    left = samples - start
    if pad == "repeat":
        assert left <= len(dealt) < left + after
        np.testing.assert_array_equal(dealt[:left], everything[start:])
    else:
        assert left - after < len(dealt) <= left
        np.testing.assert_array_equal(dealt, everything[start : start + len(dealt)])


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 20_000), epochs, st.integers(-(2**63), 2**64 - 1))
def test_feistel_is_a_permutation(samples: int, epoch: int, seed: int) -> None:
    mine = foreload.order(samples, epoch=epoch, seed=seed, order="feistel")
    np.testing.assert_array_equal(np.sort(mine), np.arange(samples))


def test_feistel_differs_by_seed_and_epoch() -> None:
    lists = [
        foreload.order(1_000, epoch=epoch, seed=seed, order="feistel").tobytes()
        for epoch in range(5)
        for seed in range(5)
    ]
    assert len(set(lists)) == len(lists)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 2_000), ranks, epochs, seeds, orders, pads, st.data())
def test_find_agrees_with_the_lists(
    samples: int, ranks: int, epoch: int, seed: int, order: str, pad: str, data: st.DataObject
) -> None:
    sample = data.draw(st.integers(0, samples - 1), "sample")
    start = data.draw(st.integers(0, samples), "start")
    everybody = foreload.order(
        samples, ranks=ranks, rank=None, epoch=epoch, seed=seed, order=order, pad=pad, start=start
    )
    without_padding = everybody[: samples - start]
    reads = np.flatnonzero(without_padding == sample)
    found = foreload.find(
        samples, sample, ranks=ranks, epoch=epoch, seed=seed, order=order, pad=pad, start=start
    )
    assert found == ((int(reads[0]) % ranks, int(reads[0]) // ranks) if len(reads) else None)


def test_find_needs_no_list_for_billions_of_samples() -> None:
    rank, step = foreload.find(10**15, 123_456_789, ranks=512, seed=3, order="feistel")
    first = foreload.order(
        10**15, ranks=512, rank=rank, seed=3, order="feistel", start=step * 512, limit=1
    )
    assert first.tolist() == [123_456_789]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 49), max_size=300),
    st.integers(1, 9),
    pads,
    st.integers(0, 49),
    st.data(),
)
def test_given_order_with_repeats(
    ids: list[int], ranks: int, pad: str, sample: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(ids)), "start")
    lists = [
        foreload.order(
            50, ranks=ranks, rank=rank, order=np.array(ids), pad=pad, start=start, epoch=7
        )
        for rank in range(ranks)
    ]
    dealt = np.stack(lists, axis=1).reshape(-1).tolist()
    rest = ids[start:]
    assert dealt[: len(rest)] == rest[: len(dealt)]
    assert abs(len(dealt) - len(rest)) < ranks
    found = foreload.find(50, sample, ranks=ranks, order=ids, pad=pad, start=start)
    kept = rest[: len(dealt)]
    if sample in kept:
        assert found == (kept.index(sample) % ranks, kept.index(sample) // ranks)
    else:
        assert found is None


def test_start_and_limit_cut_the_list() -> None:
    whole = foreload.order(1_000, ranks=4, rank=1, seed=9)
    np.testing.assert_array_equal(
        foreload.order(1_000, ranks=4, rank=1, seed=9, limit=10), whole[:10]
    )
    assert len(foreload.order(1_000, ranks=4, rank=1, limit=0)) == 0
    assert len(foreload.order(1_000, ranks=4, rank=1, limit=10**6)) == 250
    assert len(foreload.order(1_000, ranks=4, rank=1, start=1_000)) == 0


def test_batches_are_views() -> None:
    mine = foreload.order(100, ranks=3)
    cut = foreload.batches(mine, 8)
    assert [len(batch) for batch in cut] == [8, 8, 8, 8, 2]
    np.testing.assert_array_equal(np.concatenate(cut), mine)
    assert all(np.shares_memory(batch, mine) for batch in cut)
    assert [len(batch) for batch in foreload.batches(mine, 8, drop_last=True)] == [8, 8, 8, 8]
    assert foreload.batches(mine[:0], 8) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"samples": 0}, ValueError, "no samples"),
        ({"samples": -1}, ValueError, "samples must be at least 0, not -1"),
        ({"samples": 1.5}, TypeError, "samples must be a whole number, not 1.5"),
        ({"samples": 10, "ranks": 0}, ValueError, "ranks must be at least 1, not 0"),
        ({"samples": 10, "ranks": 4, "rank": 4}, ValueError, "rank 4 is outside 0 .. 3"),
        ({"samples": 10, "rank": -1}, ValueError, "rank must be at least 0, not -1"),
        ({"samples": 10, "epoch": -1}, ValueError, "epoch must be at least 0"),
        ({"samples": 10, "seed": 2**64}, ValueError, "seed must be at most"),
        ({"samples": 10, "seed": -(2**63) - 1}, ValueError, "seed must be at least"),
        ({"samples": 10, "order": "random"}, ValueError, "unknown order 'random'"),
        ({"samples": 10, "pad": "zero"}, ValueError, "unknown pad 'zero'"),
        ({"samples": 10, "start": -1}, ValueError, "start must be at least 0"),
        ({"samples": 10, "limit": -1}, ValueError, "limit must be at least 0"),
        ({"samples": 10, "order": [0, 10]}, ValueError, "sample 10"),
        ({"samples": 10, "order": [0, -1]}, ValueError, "order has an entry below 0: -1"),
        ({"samples": 10, "order": [0.5]}, TypeError, "order must be whole numbers"),
        ({"samples": 10, "order": [[1, 2]]}, ValueError, "order must have one dimension"),
    ],
)
def test_bad_arguments_are_named_in_one_line(
    arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        foreload.order(**arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_find_refuses_samples_that_do_not_exist() -> None:
    with pytest.raises(ValueError, match=r"sample 10 is outside 0 \.\. 9"):
        foreload.find(10, 10)


def test_batches_need_a_size() -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1, not 0"):
        foreload.batches(np.arange(3), 0)
