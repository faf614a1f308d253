# SPDX-License-Identifier: Apache-2.0
"""Samples drawn without replacement by weight: the statistics, and that it is an order like any
other for whoever uses it."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import foreload

torch = pytest.importorskip("torch")

WEIGHTS = np.random.default_rng(1).exponential(size=40)


class Numbers(torch.utils.data.Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> int:
        return index


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files")
    for number in range(40):
        (path / f"{number:02}.bin").write_bytes(bytes([number]) * (10 + number))
    return path


def epoch_of(order: foreload.WeightedOrder, samples: int, **kwargs: object) -> list[int]:
    return foreload.order(samples, order=order, **kwargs).tolist()


def test_draws_as_numpy_does() -> None:
    weights = [5.0, 1.0, 0.0, 3.0, 1.0]
    share = np.asarray(weights) / np.sum(weights)
    order = foreload.WeightedOrder(weights, draws=2)
    times = 6000
    mine = Counter(tuple(epoch_of(order, 5, epoch=epoch)) for epoch in range(times))
    random = np.random.default_rng(0)
    theirs = Counter(
        tuple(random.choice(5, 2, replace=False, p=share).tolist()) for _ in range(times)
    )
    assert mine.keys() == theirs.keys()
    for pair, seen in theirs.items():
        assert abs(mine[pair] - seen) < 6 * np.sqrt(seen + mine[pair]), pair


def test_all_ranks_together_draw_one_epoch() -> None:
    order = foreload.WeightedOrder(WEIGHTS, draws=30)
    whole = epoch_of(order, 40, seed=7, epoch=2)
    assert len(set(whole)) == 30
    for ranks in (2, 3, 5):
        lists = [epoch_of(order, 40, seed=7, epoch=2, ranks=ranks, rank=r) for r in range(ranks)]
        assert [lists[i % ranks][i // ranks] for i in range(30)] == whole
    # Elastic: after 8 samples three ranks read the others.
    rest = [epoch_of(order, 40, seed=7, epoch=2, ranks=3, rank=r, start=8) for r in range(3)]
    assert {sample for part in rest for sample in part} >= set(whole[8:])
    assert foreload.find(40, whole[9], order=order, seed=7, epoch=2, ranks=3) == (0, 3)
    never = next(sample for sample in range(40) if sample not in whole)
    assert foreload.find(40, never, order=order, seed=7, epoch=2) is None


@pytest.mark.parametrize("files", [True, False])
def test_a_loader_follows_it_and_resumes_anywhere(folder: Path, files: bool) -> None:
    order = foreload.WeightedOrder(WEIGHTS, draws=30)
    dataset = str(folder) if files else Numbers(40)
    settings = {"extensions": [".bin"], "memory": "1MiB", "collate_fn": list} if files else {}

    def open_loader(**more: object) -> foreload.DataLoader:
        return foreload.DataLoader(
            dataset,
            batch_size=4,
            shuffle=True,
            order=order,
            seed=3,
            return_index=files,
            num_workers=0 if not files else 1,
            **(settings | more),
        )

    def numbers(batch: list[int]) -> list[int]:
        return [sample[-1] for sample in batch] if files else [int(sample) for sample in batch]

    with closing(open_loader()) as loader:
        assert len(loader) == 8
        epochs, states = [], []
        for _ in range(2):
            epochs.append([])
            for batch in loader:
                epochs[-1].append(numbers(batch))
                states.append(loader.state_dict())
    for epoch, batches in enumerate(epochs):
        assert [number for batch in batches for number in batch] == epoch_of(
            order, 40, seed=3, epoch=epoch
        )
    for done in (1, 5, 8, 11):
        with closing(open_loader()) as loader:
            loader.load_state_dict(states[done - 1])
            rest = [numbers(batch) for _ in range(2) for batch in loader]
        expected = (epochs[0] + epochs[1])[done:]
        assert rest[: len(expected)] == expected
    with pytest.raises(ValueError, match="another order"):
        foreload.DataLoader(
            dataset,
            batch_size=4,
            shuffle=True,
            order=foreload.WeightedOrder(WEIGHTS[::-1], draws=30),
            seed=3,
            **settings,
        ).load_state_dict(states[0])


def test_ranks_of_a_loader_share_an_epoch(folder: Path) -> None:
    order = foreload.WeightedOrder(WEIGHTS, draws=30)
    for pad, each in (("repeat", 8), ("truncate", 7), ("none", None)):
        together: list[int] = []
        for rank in range(4):
            loader = foreload.DataLoader(
                Numbers(40),
                batch_size=3,
                shuffle=True,
                order=order,
                pad=pad,
                num_workers=0,
                rank=rank,
                world_size=4,
            )
            mine = [int(number) for batch in loader for number in batch]
            assert each is None or len(mine) == each
            together += mine
        whole = epoch_of(order, 40)
        if pad == "none":
            assert sorted(together) == sorted(whole)
        else:
            assert set(together) <= set(whole)
            assert len(set(together)) == min(30, len(together))


def test_a_reader_and_a_plan_follow_it(folder: Path) -> None:
    order = foreload.WeightedOrder(WEIGHTS, draws=10)
    reader = foreload.Reader(str(folder), order=order, epochs=1, extensions=[".bin"])
    read = [int(i) for batch in reader for i in batch.indices]
    assert read == epoch_of(order, 40)
    plan = foreload.plan(sizes=[100] * 40, order=order, epochs=3, memory="1KiB")
    assert plan.reading_list(0, 1).tolist() == epoch_of(order, 40, epoch=1)
    other = foreload.plan(sizes=[100] * 40, order="torch", epochs=3, memory="1KiB")
    assert plan.digest != other.digest


@pytest.mark.parametrize(
    ("weights", "draws", "error"),
    [
        ([1.0] * 39, None, "39 weights are given, but the data set has 40 samples"),
        ([-1.0] * 40, None, "the weight of sample 0 is -1"),
        ([float("nan")] * 40, None, "the weight of sample 0 is nan"),
        ([0.0] * 40, None, "all weights are 0"),
        ([1.0] + [0.0] * 39, 2, "2 draws are asked for, but 1 samples"),
        ([[1.0]], None, "weights has 2 dimensions"),
    ],
)
def test_refuses_what_is_no_weight(weights: list[float], draws: int | None, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        foreload.DataLoader(
            Numbers(40),
            shuffle=True,
            num_workers=0,
            order=foreload.WeightedOrder(weights, draws),
        )


def test_is_a_way_to_shuffle() -> None:
    with pytest.raises(ValueError, match="WeightedOrder: 40 weights> is a way to shuffle"):
        foreload.DataLoader(Numbers(40), order=foreload.WeightedOrder(WEIGHTS))
    with pytest.raises(ValueError, match="needs weights"):
        foreload.order(10, order="weighted")
