# SPDX-License-Identifier: Apache-2.0
"""Images that are bad, and images of formats that C++ does not decode."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import foreload
from foreload import transforms

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

CHAIN = transforms.Compose([transforms.Resize((8, 8))])
BAD = {"0003.jpg", "0010.png", "0017.jpg"}


def small(image):
    return np.array(image)[:8, :8]


@pytest.fixture(scope="module")
def damaged(images, tmp_path_factory) -> Path:
    """The same folder with a truncated file, one that is no image, and one of too many pixels."""
    folder = tmp_path_factory.mktemp("damaged") / "images"
    shutil.copytree(images, folder)
    truncated = folder / "class0" / "0003.jpg"
    truncated.write_bytes(truncated.read_bytes()[:-200])
    (folder / "class1" / "0010.png").write_bytes(b"this is text")
    huge = bytearray((folder / "class1" / "0019.jpg").read_bytes())
    frame = huge.index(b"\xff\xc0")
    huge[frame + 5 : frame + 9] = (65_000).to_bytes(2, "big") * 2
    (folder / "class2" / "0017.jpg").write_bytes(huge)
    return folder


def loader_of(folder, transform, **given) -> foreload.DataLoader:
    return foreload.DataLoader(folder, 10, transform=transform, return_index=True, **given)


@pytest.mark.parametrize("transform", [CHAIN, small], ids=["native", "python"])
@pytest.mark.parametrize("name", sorted(BAD))
def test_a_bad_image_is_an_error_that_names_the_file(damaged, transform, name):
    names = [Path(n).name for n in foreload.list_folder(damaged).names]
    loader = foreload.DataLoader(damaged, transform=transform, sampler=[names.index(name)])
    with pytest.raises((OSError, foreload.TransformError), match=name.replace(".", r"\.")):
        next(iter(loader))


@pytest.mark.parametrize("transform", [CHAIN, small], ids=["native", "python"])
def test_bad_images_are_skipped_and_counted(damaged, images, transform):
    names = [Path(n).name for n in foreload.list_folder(damaged).names]
    loader = loader_of(damaged, transform, on_error="skip")
    good = {
        int(i): image
        for batch in loader_of(images, transform)
        for image, _, i in zip(*batch, strict=True)
    }
    place = 0
    for batch, labels, indices in loader:
        assert len(batch) == len(labels) == 10
        for image, index in zip(batch, indices.tolist(), strict=True):
            assert names[index] not in BAD
            assert torch.equal(image, good[index])
            # A bad sample's place takes the next good one of its batch.
            first = place // 10 * 10
            expected = place
            while names[expected] in BAD:
                expected = first + (expected + 1 - first) % 10
            assert index == expected
            place += 1
    assert place == 50
    stats = loader.stats()
    assert stats["skipped"] == 3
    assert {Path(name).name for name in stats["skipped_names"]} == BAD


@pytest.mark.parametrize("transform", [CHAIN, small], ids=["native", "python"])
def test_a_batch_without_a_good_image_is_an_error(damaged, transform):
    names = [Path(n).name for n in foreload.list_folder(damaged).names]
    loader = foreload.DataLoader(
        damaged, transform=transform, sampler=[names.index("0010.png")], on_error="skip"
    )
    with pytest.raises((RuntimeError, OSError), match=r"0010\.png") as error:
        next(iter(loader))
    assert "on_error" not in str(error.value)  # which is set already


def test_names_that_are_no_text_are_named_all_the_same(images, tmp_path):
    """The loop ended with a JSON library's error, or with a UnicodeDecodeError."""
    folder = tmp_path / "odd" / os.fsdecode(b"bad\xff")
    folder.mkdir(parents=True)
    for number, image in enumerate(sorted(images.rglob("*.jpg"))[:4]):
        shutil.copy(image, folder / f"{number}.jpg")
    (folder / os.fsdecode(b"1\xfe.jpg")).write_bytes(b"no image")
    run_file = tmp_path / "run.jsonl"
    loader = foreload.DataLoader(
        tmp_path / "odd", 5, transform=CHAIN, on_error="skip", run_file=run_file, epochs=2
    )
    for _ in range(2):
        assert sum(len(labels) for _, labels in loader) == 5
    assert loader.stats()["skipped"] == 2
    assert [name.split("/")[-1] for name in loader.stats()["skipped_names"]] == 2 * ["1\ufffd.jpg"]
    loader.close()
    assert "1\ufffd.jpg" in run_file.read_text()
    loader = foreload.DataLoader(tmp_path / "odd", 5, transform=CHAIN)
    with pytest.raises((RuntimeError, ValueError, OSError), match=re.escape("1\ufffd.jpg")):
        list(loader)


@pytest.fixture
def odd_folder(images, tmp_path) -> Path:
    """Links that lead nowhere and a named pipe among images; names sort in this order."""
    folder = tmp_path / "odd" / "class"
    folder.mkdir(parents=True)
    for number, image in enumerate(sorted(images.rglob("*.jpg"))[:6]):
        shutil.copy(image, folder / f"{number}.jpg")
    (folder / "1b.jpg").symlink_to("nowhere.jpg")
    (folder / "2b.jpg").symlink_to("2b.jpg")
    os.mkfifo(folder / "3b.jpg")
    return folder.parent


@pytest.mark.parametrize("transform", [CHAIN, small], ids=["native", "python"])
def test_what_is_no_file_is_skipped(odd_folder, transform):
    """One broken link once made the whole folder unusable, and a pipe made the loop wait."""
    loader = foreload.DataLoader(
        odd_folder, 3, transform=transform, on_error="skip", return_index=True
    )
    assert [index.tolist() for _, _, index in loader] == [[0, 1, 0], [3, 5, 5], [7, 7, 8]]
    stats = loader.stats()
    assert {Path(name).name for name in stats["skipped_names"]} == {"1b.jpg", "2b.jpg", "3b.jpg"}


@pytest.mark.parametrize(
    ("name", "why"), [("1b.jpg", "link to nothing"), ("3b.jpg", "a named pipe")]
)
def test_what_is_no_file_is_an_error_at_once(odd_folder, name, why):
    names = [Path(n).name for n in foreload.list_folder(odd_folder).names]
    loader = foreload.DataLoader(odd_folder, transform=CHAIN, sampler=[names.index(name)])
    with pytest.raises(OSError, match=f"{name}.*{why}"):
        next(iter(loader))


def test_what_a_transform_raises_is_never_skipped(images):
    def fails(image):
        raise ZeroDivisionError

    with pytest.raises(foreload.TransformError, match="ZeroDivisionError"):
        next(iter(loader_of(images, fails, on_error="skip")))


@pytest.mark.parametrize("kind", ["BMP", "GIF", "WEBP", "TIFF", "PPM"])
def test_other_formats_are_found_by_content(tmp_path, kind):
    pixels = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    Image.fromarray(pixels).save(tmp_path / "a.png", format=kind)  # the name says nothing
    for mode in ("RGB", "L"):
        chain = transforms.Compose([transforms.Decode(mode), transforms.Resize((10, 15))])
        ((image, _),) = foreload.DataLoader(tmp_path, transform=chain)
        reference = Image.open(tmp_path / "a.png").convert(mode)
        reference = np.asarray(reference.resize((15, 10), Image.Resampling.BILINEAR))
        found = image[0].permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(found if mode == "RGB" else found[:, :, 0], reference)


def test_crops_of_other_formats_are_those_of_png(tmp_path):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8))
    found = []
    for kind in ("PNG", "BMP"):
        folder = tmp_path / kind
        folder.mkdir()
        for number in range(8):
            image.save(folder / f"{number}.png", format=kind)
        chain = transforms.Compose(
            [
                transforms.RandomResizedCrop(16),
                transforms.RandomHorizontalFlip(),
                transforms.ColorJitter(0.5),
                transforms.ToDtype("float32", scale=True),
            ]
        )
        ((batch, _),) = foreload.DataLoader(folder, 8, shuffle=True, transform=chain)
        found.append(batch)
    assert torch.equal(*found)


def test_arrays_of_numpy_files(tmp_path):
    pixels = np.arange(12 * 12 * 3, dtype=np.uint8).reshape(12, 12, 3)
    np.save(tmp_path / "a.npy", pixels)
    np.save(tmp_path / "b.npy", pixels[:, :, 0])
    chain = transforms.Compose([transforms.CenterCrop(8), transforms.ToLayout("HWC")])
    ((batch, _),) = foreload.DataLoader(tmp_path, 2, transform=chain, extensions=[".npy"])
    np.testing.assert_array_equal(batch[0].numpy(), pixels[2:10, 2:10])
    np.testing.assert_array_equal(batch[1].numpy(), pixels[2:10, 2:10, :1].repeat(3, 2))
    np.save(tmp_path / "c.npy", np.zeros(5))
    with pytest.raises(OSError, match=r"c\.npy.*float64"):
        list(foreload.DataLoader(tmp_path, transform=chain, extensions=[".npy"]))

    def shape(array):
        return array.shape

    loader = foreload.DataLoader(tmp_path, 3, transform=shape, extensions=[".npy"], collate_fn=list)
    assert [made for made, _ in next(iter(loader))] == [(12, 12, 3), (12, 12), (5,)]


def test_without_pillow_other_formats_say_what_is_missing(tmp_path, monkeypatch):
    from foreload.transforms import python_images

    Image.new("RGB", (8, 8)).save(tmp_path / "a.bmp")
    monkeypatch.setattr(python_images, "HAVE_PILLOW", False)
    with pytest.raises(OSError, match=r"a\.bmp.*pip install pillow"):
        next(iter(foreload.DataLoader(tmp_path, transform=CHAIN)))


def test_alpha_and_sixteen_bits_reach_a_function(tmp_path):
    grey = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1000
    alpha = np.arange(8 * 8 * 4, dtype=np.uint8).reshape(8, 8, 4)
    Image.fromarray(grey).save(tmp_path / "a.png")
    Image.fromarray(alpha).save(tmp_path / "b.png")
    loader = foreload.DataLoader(
        tmp_path, transform=np.asarray, image_type="unchanged", collate_fn=list
    )
    found = [batch[0][0] for batch in loader]
    np.testing.assert_array_equal(found[0], grey)
    np.testing.assert_array_equal(found[1], alpha)
    converted = [
        b[0][0] for b in foreload.DataLoader(tmp_path, transform=np.asarray, collate_fn=list)
    ]
    assert [image.shape for image in converted] == [(8, 8, 3)] * 2


@pytest.mark.parametrize("python", [False, True], ids=["native", "python"])
def test_after_an_error_the_next_batch_comes(images, tmp_path, python):
    """As in torch. The batch that failed counts as received."""
    files = sorted(images.rglob("*.*"))[:20]
    bad = tmp_path / "bad.png"
    bad.write_bytes(files[0].read_bytes()[:50])
    listing = tmp_path / "list.txt"
    listing.write_text(
        "".join(f"{bad if n in (5, 13) else file}\n" for n, file in enumerate(files))
    )

    transform = small if python else transforms.Resize((8, 8))
    loader = foreload.DataLoader(listing, 4, transform=transform, return_index=True, num_workers=1)
    iterator, seen, failed = iter(loader), [], 0
    while True:
        try:
            seen.append(next(iterator)[-1].tolist())
        except StopIteration:
            break
        except (OSError, RuntimeError):
            failed += 1
            assert loader.state_dict()["consumed"] == 4 * (len(seen) + failed)
    assert seen == [[0, 1, 2, 3], [8, 9, 10, 11], [16, 17, 18, 19]]
    assert failed == 2
    assert loader.stats()["failed_batches"] == 2
    loader.close()
