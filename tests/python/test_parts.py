# SPDX-License-Identifier: Apache-2.0
"""Samples of several parts: image and mask, ranges of files, pairs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import foreload
from foreload import transforms as T

COUNT = 7


@pytest.fixture
def pictures(tmp_path):
    """Masks that say of each pixel where it is, and images of the same."""
    for number in range(COUNT):
        height, width = 20 + number, 24 + number
        where = (np.arange(height)[:, None] * 7 + np.arange(width)[None, :]).astype(np.uint8)
        Image.fromarray(where).save(tmp_path / f"{number}-mask.png")
        Image.fromarray(np.stack([where] * 3, axis=-1)).save(tmp_path / f"{number}.png")
    return tmp_path


class Pairs:
    def __init__(self, folder):
        self.folder = folder

    def __len__(self):
        return COUNT

    def locate(self, index):
        return {
            "image": self.folder / f"{index}.png",
            "mask": str(self.folder / f"{index}-mask.png"),
            "number": index,
        }


class Decoding(Pairs):
    def decode(self, parts, index):
        assert parts["number"] == index
        return len(parts["image"]), len(parts["mask"]), index


@pytest.mark.parametrize("workers", ["thread", "process"])
def test_decode_gets_the_bytes_of_each_part(pictures, workers):
    loader = foreload.DataLoader(
        Decoding(pictures), COUNT, memory="1MiB", num_workers=1, workers=workers
    )
    ((images, masks, numbers),) = list(loader)
    assert numbers.tolist() == list(range(COUNT))
    assert images.tolist() == [(pictures / f"{n}.png").stat().st_size for n in range(COUNT)]
    assert masks.tolist() == [(pictures / f"{n}-mask.png").stat().st_size for n in range(COUNT)]
    loader.close()


CROP = T.Compose([T.RandomCrop(9), T.RandomHorizontalFlip()])


def test_a_mask_gets_the_crop_and_flip_of_its_picture(pictures):
    loader = foreload.DataLoader(
        Pairs(pictures),
        3,
        shuffle=True,
        seed=1,
        transform={"image": CROP, "mask": foreload.MaskOf("image")},
        memory="1MiB",
    )
    crops = []
    for _ in range(3):
        for batch in loader:
            assert batch["image"].shape[1:] == (3, 9, 9)
            assert batch["mask"].shape[1:] == (1, 9, 9)
            assert batch["mask"].dtype == torch.uint8
            for channel in range(3):
                assert torch.equal(batch["image"][:, channel], batch["mask"][:, 0])
            crops += batch["mask"][:, 0, 0, 0].tolist()
    assert len(set(crops)) > COUNT  # each epoch draws anew
    loader.close()


@pytest.mark.parametrize("workers", ["thread", "process"])
@pytest.mark.parametrize("size", [(26, 23), (4, 4)])  # the latter is too small for the crop, too
def test_a_mask_of_another_size_is_an_error_of_its_sample(pictures, workers, size):
    """It was cropped at other places than its picture, in silence."""
    Image.new("L", size).save(pictures / "3-mask.png")
    loader = foreload.DataLoader(
        Pairs(pictures),
        1,
        transform={"image": CROP, "mask": foreload.MaskOf("image")},
        num_workers=1,
        workers=workers,
        shuffle=False,
    )
    made, said = 0, ""
    batches = iter(loader)
    for _ in range(COUNT):
        try:
            next(batches)
            made += 1
        except foreload.TransformError as error:
            said = str(error)
    loader.close()
    assert made == COUNT - 1
    assert said == (
        f"cannot make sample 3: part 'mask' ({pictures / '3-mask.png'}), mask of part 'image' "
        f"({pictures / '3.png'}): the mask is {size[0]} x {size[1]} pixels (width x height) and "
        "its picture 27 x 23: resize the mask to its picture, or name the right files"
    )


def test_a_sample_whose_mask_does_not_fit_can_be_skipped(pictures):
    Image.new("L", (4, 4)).save(pictures / "3-mask.png")
    loader = foreload.DataLoader(
        Pairs(pictures),
        COUNT,
        transform={"image": CROP, "mask": foreload.MaskOf("image")},
        on_error="skip",
        shuffle=False,
    )
    with pytest.warns(RuntimeWarning, match="1 sample skipped"):
        (batch,) = list(loader)
    assert batch["number"].tolist() == [0, 1, 2, 4, 4, 5, 6]
    loader.close()


def test_what_lies_outside_of_a_mask_gets_its_fill(pictures):
    padded = T.Compose([T.Pad(2, fill=9), T.CenterCrop(60)])
    loader = foreload.DataLoader(
        Pairs(pictures),
        COUNT,
        transform={"image": padded, "mask": foreload.MaskOf("image", fill=255)},
    )
    (batch,) = list(loader)
    loader.close()
    assert batch["image"][0, :, 29 - 11, 29 - 13].tolist() == [9] * 3
    assert batch["mask"][0, 0, 29 - 11, 29 - 13] == 255
    assert batch["mask"][0, 0, 0, 0] == 255


@pytest.mark.parametrize("fill", [-1, 256, 0.5])
def test_a_fill_that_no_mask_can_have_is_refused(pictures, fill):
    with pytest.raises((TypeError, ValueError), match=r"fill of foreload\.MaskOf must be"):
        foreload.DataLoader(
            Pairs(pictures), transform={"image": CROP, "mask": foreload.MaskOf("image", fill)}
        )


def test_tuples_stay_tuples_and_functions_get_bytes(pictures):
    class Tuples(Pairs):
        def locate(self, index):
            found = super().locate(index)
            return found["image"], found["mask"], index * 10

    loader = foreload.DataLoader(Tuples(pictures), COUNT, transform=(CROP, len, None))
    ((images, sizes, tens),) = list(loader)
    assert images.shape == (COUNT, 3, 9, 9)
    assert sizes.tolist() == [(pictures / f"{n}-mask.png").stat().st_size for n in range(COUNT)]
    assert tens.tolist() == [10 * n for n in range(COUNT)]
    loader.close()


def test_ranges_of_one_file(tmp_path):
    data = np.random.default_rng(0).integers(0, 256, 100, dtype=np.uint8).tobytes()
    (tmp_path / "all.bin").write_bytes(data)

    class Ranges:
        def __len__(self):
            return 9

        def locate(self, index):
            path = tmp_path / "all.bin"
            return foreload.Part(path, index * 10, 5), foreload.Part(path, 90 + index)

        def decode(self, parts, index):
            return parts

    loader = foreload.DataLoader(
        Ranges(), 4, shuffle=True, seed=2, memory="1MiB", collate_fn=list, return_index=True
    )
    for _ in range(2):
        for batch in loader:
            for first, rest, index in batch:
                assert first == data[index * 10 :][:5]
                assert rest == data[90 + index :]
    loader.close()


def test_one_range_is_a_sample(tmp_path):
    (tmp_path / "x").write_bytes(b"abcdef")

    class One:
        def __len__(self):
            return 2

        def locate(self, index):
            return foreload.Part(tmp_path / "x", 3 * index, 3)

        def decode(self, data, index):
            return data

    assert list(foreload.DataLoader(One(), 2, collate_fn=list)) == [[b"abc", b"def"]]


def test_a_changed_mask_is_read_again(pictures):
    def sizes():
        loader = foreload.DataLoader(
            Decoding(pictures), COUNT, disk=f"{pictures / 'cache'}:1MiB", revalidate=True
        )
        ((_, masks, _),) = list(loader)
        loader.close()
        return masks.tolist()

    before = sizes()
    Image.new("L", (300, 300)).save(pictures / "2-mask.png")
    after = sizes()
    assert after[2] == (pictures / "2-mask.png").stat().st_size != before[2]
    assert after[:2] + after[3:] == before[:2] + before[3:]


@pytest.mark.parametrize(
    ("located", "transform", "said"),
    [
        ({"number": 1}, None, "names no file: give a path, or a foreload.Part"),
        ({"image": foreload.Part("x", -1)}, None, "offset and a length of 0 or more"),
        ({"image": "x"}, {"image": 5}, "transform of part 'image' is 5"),
        (
            {"image": "x", "mask": "y"},
            {"image": len, "mask": foreload.MaskOf("image")},
            "'image' has no transform of foreload",
        ),
        ({"image": "x", "mask": "y"}, {"image": len, "msk": len}, "for part 'msk', but locate"),
        ({"image": "x", "mask": "y"}, {"image": len}, "part 'mask' has no transform: give one"),
        ({"image": "x", "mask": "y"}, T.Resize(8), "a transform for each"),
    ],
)
def test_what_cannot_be_meant_is_refused(located, transform, said):
    class Odd:
        def __len__(self):
            return 1

        def locate(self, index):
            return located

    with pytest.raises((TypeError, ValueError), match=said):
        foreload.DataLoader(Odd(), transform=transform)


@pytest.mark.parametrize(
    ("offset", "length", "said"),
    [
        (101, None, "all bytes from 101 on of x, which has 100 bytes"),
        (101, 0, "0 bytes from 101 on of x, which has 100 bytes"),
        (90, 11, "11 bytes from 90 on of x, which has 100 bytes"),
    ],
)
def test_a_range_outside_of_its_file_is_named(tmp_path, offset, length, said):
    """The message spoke of objects and a length of 2^64 - 1."""
    (tmp_path / "x").write_bytes(bytes(100))

    class Ranges:
        def __len__(self):
            return 2

        def locate(self, index):
            return foreload.Part(tmp_path / "x", offset * index, length)

        def decode(self, data, index):
            return len(data)

    with pytest.raises(ValueError, match=f"^cannot read sample 1: it is {said}; give an offset"):
        foreload.DataLoader(Ranges())
