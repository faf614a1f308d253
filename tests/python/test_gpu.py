# SPDX-License-Identifier: Apache-2.0
"""What needs a GPU: copies, streams, and decoding there. `make test-gpu` runs these."""

import io
import os
import zipfile

import numpy as np
import pytest

import foreload
from foreload import transforms

Image = pytest.importorskip("PIL.Image")
torch = pytest.importorskip("torch")

if not torch.cuda.is_available() and not os.environ.get("FORELOAD_NEEDS_GPU"):
    pytest.skip("torch sees no GPU here", allow_module_level=True)

COUNT = 100
AHEAD = 3 * 16  # samples of the next epoch that may be on the device at the end of one
CROP = [transforms.RandomResizedCrop(96), transforms.RandomHorizontalFlip()]
CHAIN = transforms.Compose(
    [
        *CROP,
        transforms.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
        transforms.ToDtype("bfloat16"),
        transforms.ToLayout("channels_last"),
    ]
)
BYTES = transforms.Compose(CROP)


def jpeg(number: int, width: int = 300, height: int = 200) -> bytes:
    random = np.random.default_rng(number)
    small = random.integers(0, 256, (height // 20, width // 20, 3), dtype=np.uint8)
    file = io.BytesIO()
    big = Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)
    big.save(file, "JPEG", quality=85)
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("images")
    for number in range(COUNT):
        target = path / f"class{number % 3}" / f"{number:04}.jpg"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(jpeg(number, 200 + number, 180 + 2 * number))
    return path


def loader_of(folder, **given):
    given = {"batch_size": 16, "shuffle": True, "transform": CHAIN, "seed": 3} | given
    return foreload.DataLoader(folder, return_index=True, num_workers=4, **given)


def assert_same(batches, expected):
    batches, expected = list(batches), list(expected)
    assert len(batches) == len(expected)
    for batch, other in zip(batches, expected, strict=True):
        for entry, same in zip(batch, other, strict=True):
            assert torch.equal(entry.cpu(), same)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "uint8"])
@pytest.mark.parametrize("layout", ["CHW", "HWC", "channels_last"])
def test_batches_on_the_gpu_are_those_of_the_cpu(folder, dtype, layout):
    steps = [*CROP]
    if dtype != "uint8":
        steps += [transforms.Normalize([0.4], [0.2]), transforms.ToDtype(dtype)]
    chain = transforms.Compose([*steps, transforms.ToLayout(layout)])
    on_gpu = loader_of(folder, transform=chain, device="cuda")
    plain = loader_of(folder, transform=chain)
    for _ in range(2):
        batches = list(on_gpu)
        assert all(entry.is_cuda for batch in batches for entry in batch)
        if layout == "channels_last":
            assert batches[0][0].is_contiguous(memory_format=torch.channels_last)
        assert_same(batches, plain)


def test_the_loop_may_be_slow_and_keep_what_it_likes(folder):
    expected = list(loader_of(folder))
    kept, sums = [], []
    for images, labels, indices in loader_of(folder, device="cuda", prefetch_to_device=3):
        torch.cuda._sleep(20_000_000)  # about 10 ms of the GPU, before the batch is used
        sums.append(images.double().sum())
        kept.append((images, labels, indices))
    assert_same(kept, expected)
    assert [s.item() for s in sums] == [b[0].to("cuda").double().sum().item() for b in expected]


def test_memory_of_a_copy_in_flight_is_not_used_again(folder):
    loader = loader_of(folder, device="cuda")
    received = []
    for _ in range(3):
        for batch in loader:
            with torch.cuda.stream(loader._feed._stream):
                torch.cuda._sleep(40_000_000)  # the next copies are late
            received.append(batch)
    plain = loader_of(folder)
    assert_same(received, [batch for _ in range(3) for batch in plain])


def test_another_stream_gets_its_batches_too(folder):
    stream = torch.cuda.Stream()
    received = []
    with torch.cuda.stream(stream):
        for batch in loader_of(folder, device="cuda"):
            received.append([entry.clone() for entry in batch])
    stream.synchronize()
    assert_same(received, loader_of(folder))


def test_leaving_and_resuming(folder):
    expected = list(loader_of(folder))
    loader = loader_of(folder, device="cuda")
    for number, _ in enumerate(loader):
        if number == 2:
            break
    state = loader.state_dict()
    other = loader_of(folder, device="cuda")
    other.load_state_dict(state)
    assert_same(other, expected[3:])
    loader.set_epoch(0)
    assert_same(loader, expected)


def test_an_error_comes_after_the_batches_before_it(folder, tmp_path):
    for number in range(48):
        (tmp_path / f"{number:02}.jpg").write_bytes(jpeg(number) if number != 40 else b"\xff\xd8no")
    loader = loader_of(str(tmp_path), device="cuda", shuffle=False)
    batches = iter(loader)
    for first in (0, 16):
        assert next(batches)[2].tolist() == list(range(first, first + 16))
    with pytest.raises((ValueError, OSError), match=r"40\.jpg"):
        next(batches)


def test_python_transforms_go_to_the_gpu_too(folder):
    def mean(image):
        return torch.tensor(np.asarray(image).mean(axis=(0, 1)))

    assert_same(loader_of(folder, transform=mean, device="cuda"), loader_of(folder, transform=mean))


def test_what_is_said_about_the_device(folder):
    loader = loader_of(folder, device="cuda")
    list(loader)
    said = loader.stats()["device"]
    assert said["device"].startswith("cuda:")
    sample = 96 * 96 * 3 + 16  # with its class and number
    assert 7 <= said["batches"] <= 7 + 3  # some of the next epoch are there already
    assert COUNT * sample <= said["bytes"] <= (COUNT + AHEAD) * sample
    assert said["most_bytes_ahead"] <= AHEAD * sample
    assert said["idle"] <= said["late"] <= 7


def test_pinned_batches_lie_where_they_were_decoded(folder):
    for images, labels, _ in loader_of(folder, pin_memory=True):
        assert images.is_pinned()
        assert labels.is_pinned()


# Decoding on the GPU.


def pixels_of(batches):
    return torch.cat([batch[0] for batch in batches]).cpu().int()


def test_gpu_decoded_images_are_close_to_the_cpus(folder):
    with_gpu = loader_of(folder, transform=BYTES, device="cuda", decoder="gpu")
    made = pixels_of(with_gpu)
    expected = pixels_of(loader_of(folder, transform=BYTES))
    assert COUNT <= with_gpu.stats()["device"]["decoding"]["images"] <= COUNT + AHEAD
    difference = (made - expected).abs()
    assert difference.float().mean() < 1.5
    assert difference.max() < 48
    assert difference.max() > 0  # or the GPU did not decode


def test_a_share_is_decoded_by_each(folder):
    hybrid = loader_of(folder, transform=BYTES, device="cuda", decoder="hybrid:0.5")
    everything = loader_of(folder, transform=BYTES, device="cuda", decoder="gpu")
    made, by_gpu = pixels_of(hybrid), pixels_of(everything)
    by_cpu = pixels_of(loader_of(folder, transform=BYTES))
    images = hybrid.stats()["device"]["decoding"]["images"]
    assert COUNT // 2 - 4 <= images <= (COUNT + AHEAD) // 2 + 4
    rule = foreload._core.PackingRule(128)
    for position in range(COUNT):
        expected = by_gpu if rule.chooses(position) else by_cpu
        assert torch.equal(made[position], expected[position])


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_resizing_on_the_gpu_is_pillows(folder, layout):
    sizes = [(96, 96), (64, 160), (400, 300)]
    whole = transforms.Compose([transforms.Resize((220, 300)), transforms.ToLayout("HWC")])
    files = folder.parent / "same"
    for number in range(16):
        target = files / "a" / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(jpeg(number, 300, 220))
    settings = {"device": "cuda", "decoder": "gpu", "shuffle": False}
    full = pixels_of(loader_of(files, transform=whole, **settings)).byte().numpy()
    for height, width in sizes:
        chain = transforms.Compose(
            [transforms.Resize((height, width)), transforms.ToLayout(layout)]
        )
        small = pixels_of(loader_of(files, transform=chain, **settings)).byte()
        if layout == "CHW":
            small = small.permute(0, 2, 3, 1)
        for image, made in zip(full, small.numpy(), strict=True):
            pillow = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
            np.testing.assert_array_equal(made, np.asarray(pillow))


def test_a_measured_share_is_kept_in_the_state(folder):
    loader = loader_of(folder, transform=BYTES, device="cuda", decoder="hybrid")
    state = loader.state_dict()
    assert 0 < state["gpu_share"] < 256
    first = pixels_of(loader)
    other = loader_of(folder, transform=BYTES, device="cuda", decoder="hybrid:0.9")
    other.load_state_dict(state)
    assert torch.equal(pixels_of(other), first)
    assert other.state_dict()["gpu_share"] == state["gpu_share"]


def test_a_share_of_an_archive_is_measured(folder, tmp_path):
    """The GPU got nothing of it."""
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as members:
        for file in sorted(folder.rglob("*.jpg")):
            members.write(file, file.relative_to(folder))
    loader = loader_of(archive, transform=BYTES, device="cuda", decoder="hybrid")
    assert 0 < loader.state_dict()["gpu_share"] < 256
    share = loader.state_dict()["gpu_share"] / 256
    fixed = loader_of(archive, transform=BYTES, device="cuda", decoder=f"hybrid:{share}")
    assert torch.equal(pixels_of(loader), pixels_of(fixed))


def broken_set(tmp_path):
    for number in range(32):
        data = bytearray(jpeg(number))
        if number == 20:
            table = data.index(b"\xff\xc4") + 5
            data[table : table + 16] = b"\xff" * 16  # more codes than there can be
        (tmp_path / f"{number:02}.jpg").write_bytes(bytes(data))
    return str(tmp_path)


def test_a_file_that_nobody_can_decode(tmp_path):
    files = broken_set(tmp_path)
    settings = {"transform": BYTES, "device": "cuda", "decoder": "gpu", "shuffle": False}
    batches = iter(loader_of(files, **settings))
    assert next(batches)[2].tolist() == list(range(16))
    with pytest.raises(ValueError, match=r"sample 20 \(.*20\.jpg\)"):
        next(batches)
    *_, (images, _, indices) = loader_of(files, on_error="skip", **settings)
    assert 20 not in indices.tolist()
    assert torch.equal(images[4], images[indices.tolist().index(int(indices[4]))])


def test_leaving_while_the_gpu_decodes(folder):
    loader = loader_of(folder, transform=BYTES, device="cuda", decoder="gpu")
    for _ in range(20):
        next(iter(loader))
        loader.set_epoch(0)
    expected = pixels_of(loader_of(folder, transform=BYTES, device="cuda", decoder="gpu"))
    assert torch.equal(pixels_of(loader), expected)
    loader.close()
