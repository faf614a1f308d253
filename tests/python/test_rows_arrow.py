# SPDX-License-Identifier: Apache-2.0
"""Rows in Arrow's memory: batches of Hugging Face's Datasets are the ones of torch's DataLoader."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from beside_torch import check_same
from datasets import (
    Array2D,
    ClassLabel,
    Features,
    Image,
    List,
    Sequence,
    Value,
    concatenate_datasets,
    load_from_disk,
)
from datasets import Dataset as HuggingFace
from test_rows import Columns, all_dense, check_like_torch, some_lists, taken
from torch.utils.data import DataLoader, Subset

from foreload.data.rows import RowMaker, rows_of

ROWS = 40


def check_batches(dataset: Any) -> RowMaker:
    """Batches of the data set are torch's DataLoader's."""
    maker = rows_of(dataset)
    assert maker is not None
    assert len(maker) == len(dataset)
    lists = some_lists(len(maker))
    for made, wanted in zip(
        taken(maker, lists), DataLoader(dataset, batch_sampler=lists), strict=True
    ):
        check_same(made, wanted)
    return maker


def everything() -> HuggingFace:
    """A data set with columns of many kinds that are numbers or text."""
    random = np.random.default_rng(0)
    kinds = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64"]
    columns: dict[str, Any] = {
        kind: random.integers(0, 100, ROWS).astype(kind).tolist() for kind in kinds
    }
    columns["float16"] = np.arange(ROWS, dtype=np.float16)
    columns["bool"] = [i % 3 == 0 for i in range(ROWS)]
    columns["label"] = [i % 2 for i in range(ROWS)]
    columns["text"] = [f"row {i} \N{SNOWMAN}" * (i % 4) + "\0" * (i % 3) for i in range(ROWS)]
    columns["bytes"] = [b"\xff\0" * (i % 3) for i in range(ROWS)]
    columns["fixed"] = random.normal(size=(ROWS, 3)).tolist()
    columns["padded"] = random.integers(0, 9, (ROWS, 5)).tolist()
    columns["nested"] = random.integers(0, 9, (ROWS, 2, 3)).tolist()
    columns["plane"] = random.normal(size=(ROWS, 4, 2)).tolist()
    features = Features(
        {
            **{kind: Value(kind) for kind in kinds},
            "float16": Value("float16"),
            "bool": Value("bool"),
            "label": ClassLabel(names=["a", "b"]),
            "text": Value("string"),
            "bytes": Value("binary"),
            "fixed": Sequence(Value("float32"), length=3),
            "padded": List(Value("int32")),
            "nested": List(List(Value("int64"))),
            "plane": Array2D((4, 2), "float64"),
        }
    )
    return HuggingFace.from_dict(columns, features=features)


@pytest.fixture(scope="module")
def whole() -> HuggingFace:
    return everything()


@pytest.mark.parametrize("kind", [None, "torch", "numpy"])
@pytest.mark.parametrize("column", everything().column_names)
def test_columns_in_every_format(whole: HuggingFace, column: str, kind: str | None) -> None:
    dataset = whole.select_columns([column]).with_format(kind)
    maker = check_batches(dataset)
    (dense,) = maker._columns
    assert type(dense).__name__ in ("Dense", "Text")


@pytest.mark.parametrize("kind", [None, "torch", "numpy"])
def test_all_columns_together(whole: HuggingFace, kind: str | None) -> None:
    dataset = whole.with_format(kind)
    check_batches(dataset)
    check_batches(Subset(dataset, [5, 3, -1, 8]))


@pytest.mark.parametrize("kind", [None, "torch"])
def test_selections_shuffles_and_filters(whole: HuggingFace, kind: str | None) -> None:
    dataset = whole.select_columns(["int32", "padded", "text"]).with_format(kind)
    for part in (
        dataset.select(range(5, 31)),
        dataset.select([7, 3, 3, 39]),
        dataset.shuffle(seed=4),
        dataset.filter(lambda row: row["int32"] % 2 == 0),
        dataset.shuffle(seed=1).select(range(10, 30)).shuffle(seed=2),
        dataset.shard(3, 1),
        concatenate_datasets([dataset, dataset.select(range(3, 9)), dataset]),
        concatenate_datasets([dataset.shuffle(seed=1), dataset]),
    ):
        names = [type(column).__name__ for column in check_batches(part)._columns]
        assert names == ["Dense", "Dense", "Text"]


def test_samples_of_a_selection(whole: HuggingFace) -> None:
    dataset = whole.select_columns(["int32", "label"]).shuffle(seed=4)
    check_like_torch(dataset)
    maker = rows_of(Subset(dataset, [4, 2]))
    assert maker is not None
    assert maker.sample(1) == dataset[2]


def test_data_sets_on_disk(tmp_path: Path, whole: HuggingFace) -> None:
    numbers = whole.select_columns(["int64", "fixed", "text", "bool"])
    many = concatenate_datasets([numbers] * 7)
    many.save_to_disk(tmp_path / "saved", num_shards=3)
    dataset = load_from_disk(tmp_path / "saved").with_format("torch")
    assert len(dataset.data.table.column("int64").chunks) > 1
    assert check_batches(dataset)._dense
    assert check_batches(dataset.shuffle(seed=0))._dense


def test_chosen_columns(whole: HuggingFace) -> None:
    dataset = whole.with_format("torch", columns=["padded", "label"])
    maker = check_batches(dataset)
    assert all_dense(maker)
    (batch,) = taken(maker, [[1]])
    assert set(batch) == {"padded", "label"}
    check_batches(whole.with_format("torch", columns=["padded"], output_all_columns=True))


def test_arguments_of_formats(whole: HuggingFace) -> None:
    dataset = whole.select_columns(["int32", "fixed"])
    check_batches(dataset.with_format("torch", dtype=torch.float64))
    check_batches(dataset.with_format("numpy", dtype=np.float16))


def test_transforms_get_whole_batches(whole: HuggingFace) -> None:
    sizes = []

    def double(batch: dict[str, list[Any]]) -> dict[str, Any]:
        sizes.append(len(batch["int32"]))
        return {"twice": [torch.tensor(2 * number) for number in batch["int32"]]}

    dataset = whole.with_transform(double)
    maker = check_batches(dataset)
    assert not maker.native
    sizes.clear()
    (batch,) = taken(maker, [[1, 2, 3]])
    assert sizes == [3]
    assert batch["twice"].tolist() == [2 * whole[i]["int32"] for i in (1, 2, 3)]


def test_images_are_decoded_by_the_data_set() -> None:
    pixels = [np.full((4, 5, 3), i, np.uint8) for i in range(12)]
    features = Features({"image": Image(), "label": Value("int64")})
    dataset = HuggingFace.from_dict(
        {"image": pixels, "label": list(range(12))}, features=features
    ).with_format("torch")
    maker = check_batches(dataset)
    assert not maker.native
    (batch,) = taken(maker, [[3, 1]])
    assert batch["image"].shape == (2, 3, 4, 5)
    assert batch["image"][:, 0, 0, 0].tolist() == [3, 1]
    assert maker.fingerprint


def test_lists_of_different_lengths_are_torchs_problem() -> None:
    dataset = HuggingFace.from_dict({"ids": [[0] * (i % 3) for i in range(12)]})
    maker = rows_of(dataset.with_format("torch"))
    assert maker is not None
    with pytest.raises(RuntimeError, match="equal size"):
        list(taken(maker, [[0, 1]]))
    (batch,) = taken(maker, [[2, 5]])
    check_same(batch["ids"], torch.zeros(2, 2, dtype=torch.int64))


def test_nulls_are_as_the_data_set_gives_them() -> None:
    dataset = HuggingFace.from_dict({"x": [1, None] * 6, "y": ["a", None] * 6})
    maker = rows_of(dataset)
    assert maker is not None
    with pytest.raises(TypeError, match="NoneType"):
        list(taken(maker, [[1, 0]]))
    (batch,) = taken(maker, [[0, 2]])
    check_same(batch, {"x": torch.tensor([1, 1]), "y": ["a", "a"]})


def test_large_numbers_without_a_sign() -> None:
    values = np.array([2**63 + 5, 1, 2, 3], dtype=np.uint64)
    table = pa.table({"x": values})
    dataset = HuggingFace(table)
    maker = rows_of(dataset.with_format("numpy"))
    assert maker is not None
    (wanted,) = DataLoader(dataset.with_format("numpy"), batch_sampler=[[1, 2]])
    check_same(next(taken(maker, [[1, 2]])), wanted)


class OwnDataset(HuggingFace):
    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(key)


def test_a_class_of_the_user_is_no_rows(whole: HuggingFace) -> None:
    assert rows_of(OwnDataset(whole.data)) is None
    assert rows_of(whole.to_iterable_dataset()) is None


def test_no_rows_at_all(whole: HuggingFace) -> None:
    maker = rows_of(whole.select([]))
    assert maker is not None
    assert len(maker) == 0


def test_a_data_set_is_told_from_another_one(whole: HuggingFace) -> None:
    parts = [whole, whole.select(range(39)), whole.shuffle(seed=3), whole.select_columns(["bool"])]
    prints = set()
    for part in parts:
        maker = rows_of(part)
        assert maker is not None
        prints.add(maker.fingerprint)
    assert len(prints) == len(parts)


# pyarrow's Tables.


def test_numbers_of_a_table_keep_their_type() -> None:
    kinds = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "f2", "f4", "f8", "?"]
    columns = {kind: np.arange(ROWS).astype(kind) for kind in kinds}
    maker = check_like_torch(pa.table(columns), Columns(columns))
    assert all_dense(maker)


@pytest.mark.parametrize("seed", range(10))
def test_tables_of_chunks_and_slices(seed: int) -> None:
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 1000, 200)
    flags = random.integers(0, 2, 200) > 0
    points = random.normal(size=(200, 3)).astype(np.float32)
    words = [f"word {i}" * int(random.integers(3)) for i in range(200)]
    pieces = []
    for _ in range(6):
        first = int(random.integers(0, 150))
        chosen = slice(first, first + int(random.integers(0, 50)))
        lists = pa.FixedSizeListArray.from_arrays(pa.array(points.reshape(-1)), 3)
        table = pa.table({"n": numbers, "f": flags, "p": lists, "w": words})
        pieces.append((table.slice(chosen.start, chosen.stop - chosen.start), chosen))
    table = pa.concat_tables([piece for piece, _ in pieces])
    at = np.concatenate([np.arange(chosen.start, chosen.stop) for _, chosen in pieces])
    columns = {"n": numbers[at], "f": flags[at], "p": points[at], "w": [words[i] for i in at]}
    check_like_torch(table, Columns(columns), seed)


def test_other_columns_of_a_table_are_collated() -> None:
    table = pa.table({"s": [{"a": i, "b": f"{i}"} for i in range(10)], "n": range(10)})
    maker = rows_of(table)
    assert maker is not None
    (batch,) = taken(maker, [[4, 2]])
    wanted = {"s": {"a": torch.tensor([4, 2]), "b": ["4", "2"]}, "n": torch.tensor([4, 2])}
    check_same(batch, wanted)


def test_nulls_of_a_table_are_refused() -> None:
    with pytest.raises(ValueError, match="column 'x' of the table has 2 nulls"):
        rows_of(pa.table({"y": [1, 2, 3], "x": [None, 1, None]}))
    inside = pa.table({"x": pa.array([[1, None]], pa.list_(pa.int64(), 2))})
    maker = rows_of(inside)
    assert maker is not None
    with pytest.raises(TypeError):
        list(taken(maker, [[0]]))


def test_tables_in_mapped_files(tmp_path: Path) -> None:
    columns = {"x": np.arange(5000), "y": np.arange(5000, dtype=np.float32)}
    table = pa.table(columns)
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=700)
    with pa.memory_map(str(tmp_path / "rows.arrow")) as source:
        mapped = pa.ipc.open_file(source).read_all()
    before = pa.total_allocated_bytes()
    maker = check_like_torch(mapped, Columns(columns))
    assert all_dense(maker)
    assert pa.total_allocated_bytes() == before  # nothing was copied


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from foreload.data.map_style import Wanted
from foreload.data.rows import rows_of
del sys.modules["torch"]  # at which `datasets` looks
import numpy as np
import pyarrow as pa
from datasets import Dataset

def batch(dataset, numbers):
    maker = rows_of(dataset)
    numbers = np.array(numbers)
    return maker.take(maker.submit(Wanted(0, numbers, numbers)), 60)

table = pa.table({"x": np.arange(9, dtype=np.float32), "t": [f"{i}" for i in range(9)]})
made = batch(table, [3, 1])
assert made["x"].dtype == np.float32 and made["x"].tolist() == [3, 1] and made["t"] == ["3", "1"]
dataset = Dataset.from_dict({"x": list(range(9)), "l": [[i, i + 1] for i in range(9)]})
made = batch(dataset, [3, 1])
assert made["x"].tolist() == [3, 1] and [each.tolist() for each in made["l"]] == [[3, 1], [4, 2]]
made = batch(dataset.with_format("numpy"), [3, 1])
assert made["l"].tolist() == [[3, 4], [1, 2]]
assert "torch" not in sys.modules
"""


def test_arrow_without_torch() -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=True, timeout=120)
