# SPDX-License-Identifier: Apache-2.0
"""What goes to a device, as far as it can be seen without one: memory, last steps, parcels."""

import collections
import contextlib
import gc
import io
import weakref
import zipfile

import numpy as np
import pytest
import web_server
from real_torchvision import torchvision

import foreload
from foreload import _core, transforms
from foreload.device import feed, gpu_decoding, last_steps
from foreload.loader import dataloader, delivery

Image = pytest.importorskip("PIL.Image")
torch = pytest.importorskip("torch")
datasets = torchvision.datasets

COUNT = 24
CROP = transforms.Compose([transforms.RandomResizedCrop(32), transforms.RandomHorizontalFlip()])


def jpeg(number: int, **options) -> bytes:
    random = np.random.default_rng(number)
    small = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    big = Image.fromarray(small).resize((80, 60), Image.Resampling.BICUBIC)
    big.save(file, "JPEG", quality=80, **options)
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("images")
    for number in range(COUNT):
        target = path / f"class{number % 3}" / f"{number:04}.jpg"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(jpeg(number))
    return path


def loader_of(folder, **given):
    given = {"batch_size": 8, "shuffle": True, "transform": CROP, "seed": 3} | given
    return foreload.DataLoader(folder, num_workers=2, **given)


def test_batches_are_decoded_into_the_tensors_of_torch(folder, monkeypatch):
    made = weakref.WeakValueDictionary()

    def memory(size):
        tensor = torch.empty(size, dtype=torch.uint8)
        made[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    monkeypatch.setattr(dataloader, "can_pin", lambda: True)
    monkeypatch.setattr(delivery, "pinned", lambda value: value)
    monkeypatch.setattr(dataloader, "pinned_memory", memory)
    with_torch = loader_of(folder, pin_memory=True)
    batches = list(with_torch)
    plain = list(loader_of(folder))
    places = {images.untyped_storage().data_ptr() for images, _ in batches}
    assert len(places) == len(batches)  # whoever keeps batches gets new memory
    for (images, labels), (same, same_labels) in zip(batches, plain, strict=True):
        assert torch.equal(images, same)
        assert torch.equal(labels, same_labels)
    with_torch.close()
    kept = batches[0][0]
    del batches, images, labels
    gc.collect()
    assert torch.equal(kept, plain[0][0])
    assert not made  # the views alone keep memory, and give it back


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("layout", ["CHW", "HWC", "channels_last"])
def test_last_steps_give_the_bits_of_the_cpu(folder, dtype, layout):
    steps = [
        CROP,
        transforms.Normalize(transforms.IMAGENET_MEAN, transforms.IMAGENET_STD),
        transforms.ToDtype(dtype, scale=True),
        transforms.ToLayout(layout),
    ]
    whole = transforms.Compose(steps)
    left, finish = last_steps.split(whole)
    assert left.compile().dtype == "uint8"
    for (images, _), (expected, _) in zip(
        loader_of(folder, transform=left), loader_of(folder, transform=whole), strict=True
    ):
        numbers = finish(images, 3 if layout == "HWC" else 1)
        assert numbers.dtype == expected.dtype
        assert numbers.stride() == expected.stride()
        assert torch.equal(numbers, expected)


@pytest.mark.parametrize(
    "steps",
    [
        [transforms.ToDtype("float32", scale=True)],
        [transforms.ToDtype("float32", scale=True, reciprocal=True)],
        [transforms.ToDtype("float32", True, True), transforms.Normalize([0.4], [0.2])],
        [transforms.Grayscale(), transforms.ToDtype("float32", scale=True)],
        [transforms.ToDtype("float16", scale=False)],
        [transforms.ToDtype("float32", scale=False), transforms.Normalize([9.0], [3.0])],
        [transforms.Normalize([0.5], [0.25]), transforms.ToDtype("bfloat16")],
    ],
)
def test_last_steps_of_other_chains(folder, steps):
    whole = transforms.Compose([CROP, *steps])
    left, finish = last_steps.split(whole)
    ((images, _), *_), ((expected, _), *_) = (
        list(loader_of(folder, transform=chain)) for chain in (left, whole)
    )
    assert torch.equal(finish(images, 1), expected)


def test_chains_without_last_steps_for_the_device():
    floats = transforms.ToDtype("float32", scale=True)
    for steps in (
        [],
        [transforms.ToDtype("uint8")],
        [floats, transforms.RandomErasing()],
        [transforms.FiveCrop(3), floats],
    ):
        chain = transforms.Compose([CROP, *steps])
        assert last_steps.split(chain) == (chain, None)


def test_parcels_are_what_they_would_have_been(folder):
    files = [jpeg(number) for number in range(COUNT)]
    form = transforms.Compose([transforms.RandomResizedCrop(64)]).compile()
    hosts = [torch.zeros(COUNT, 3, 64, 64, dtype=torch.uint8) for _ in range(2)]
    rule, none = _core.PackingRule(128), _core.PackingRule(0)
    packed = _core.with_packing(form, rule)
    chosen = [rule.chooses(position) for position in range(COUNT)]
    assert _core.pack(files, packed, rule, hosts[0]) == sum(chosen)
    assert _core.pack(files, _core.with_packing(form, none), none, hosts[1]) == 0
    for place in range(COUNT):
        assert torch.equal(hosts[0][place], hosts[1][place]) != chosen[place]
    assert _core.unpack(hosts[0], packed, rule) == []
    assert torch.equal(hosts[0], hosts[1])


def test_files_that_gpus_do_not_decode_are_left_to_the_cpu():
    grey = io.BytesIO()
    Image.new("L", (80, 60), 77).save(grey, "JPEG")
    png = io.BytesIO()
    Image.new("RGB", (80, 60), (1, 2, 3)).save(png, "PNG")
    files = [
        jpeg(0),
        jpeg(0, progressive=True),
        jpeg(0)[:-2] + b"\0\0",
        grey.getvalue(),
        png.getvalue(),
        jpeg(0, subsampling=0),
        jpeg(0, subsampling=1),
    ]
    rule = _core.PackingRule(256)
    form = _core.with_packing(transforms.Compose([transforms.Resize((64, 64))]).compile(), rule)
    for file, packed in zip(files, [True, False, False, False, False, True, True], strict=True):
        host = torch.zeros(1, 3, 64, 64, dtype=torch.uint8)
        assert _core.pack([file], form, rule, host) == packed


def test_a_broken_parcel_is_named_by_its_place():
    broken = bytearray(jpeg(1))
    table = broken.index(b"\xff\xc4") + 5
    broken[table : table + 16] = b"\xff" * 16  # more codes than there can be
    rule = _core.PackingRule(256)
    chain = transforms.Compose([transforms.Resize((64, 64))])
    form = _core.with_packing(chain.compile(), rule)
    host = torch.zeros(2, 3, 64, 64, dtype=torch.uint8)
    assert _core.pack([jpeg(0), bytes(broken)], form, rule, host) == 2
    ((place, what),) = _core.unpack(host, form, rule)
    assert place == 1
    assert "Huffman" in what


@pytest.mark.parametrize("share", [0, 1, 77, 128, 255, 256])
@pytest.mark.parametrize("step", [1, 2, 7, 8, 64])
def test_every_rank_has_its_share(share, step):
    rule = _core.PackingRule(share)
    for rank in range(min(step, 3)):
        chosen = sum(rule.chooses(rank + step * i) for i in range(2560))
        assert abs(chosen - 10 * share) <= 40


@pytest.mark.parametrize("kind", ["folder", "zip", "http", "files"])
def test_a_share_is_measured_with_what_the_engine_reads(folder, tmp_path, kind):
    """Only folders were looked into, so the GPU got nothing of archives and web servers."""
    (tmp_path / "a").mkdir()
    for number, file in enumerate(sorted(folder.rglob("*.jpg"))):
        (tmp_path / "a" / f"{number:02}.jpg").write_bytes(file.read_bytes())
    Image.new("RGB", (8, 8)).save(tmp_path / "a" / "01.png")
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as members:
        for file in sorted(tmp_path.glob("a/*")):
            members.write(file, f"a/{file.name}")
    with contextlib.ExitStack() as stack:
        dataset = {"folder": tmp_path, "zip": archive, "files": None}.get(kind)
        if kind == "http":
            dataset = stack.enter_context(web_server.serving(tmp_path)) + "/a"
        if kind == "files":
            dataset = datasets.ImageFolder(tmp_path, CROP)
        loader = stack.enter_context(contextlib.closing(loader_of(dataset)))
        core = loader._core
        assert len(gpu_decoding.some_files(core, 5)) in (4, 5)  # one may be the other picture
        found = gpu_decoding.some_files(core, 10 * COUNT)
        assert sorted(found) == sorted(file.read_bytes() for file in tmp_path.glob("a/*.jpg"))
        assert len(list(loader)) == 4  # nothing was taken away from the loop


def test_what_decoder_may_be():
    assert [gpu_decoding.parse_decoder(name) for name in ("cpu", "gpu", "hybrid")] == [
        0,
        256,
        None,
    ]
    assert gpu_decoding.parse_decoder("hybrid:0.25") == 64
    for name in ("tpu", "hybrid:", "hybrid:2", "hybrid:x", "gpu:1"):
        with pytest.raises(ValueError, match="use 'cpu'"):
            gpu_decoding.parse_decoder(name)


def test_devices_that_are_not_there(folder, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="torch sees no GPU"):
        loader_of(folder, device="cuda")
    with pytest.raises(ValueError, match="use 'cuda', or leave device out"):
        loader_of(folder, device="cpu")
    with pytest.raises(ValueError, match="needs device='cuda'"):
        loader_of(folder, decoder="gpu")


def test_the_share_of_a_state_is_told_to_who_cannot_keep_it(folder):
    loader = loader_of(folder)
    state = loader.state_dict() | {"gpu_share": 128}
    with pytest.warns(UserWarning, match="128 of 256"):
        loader.load_state_dict(state)


# The order in which batches are sent and handed out, with a device that is none.


class NoCuda:
    """Streams and events of a device on which everything is done at once."""

    class Stream:
        def __init__(self, *_):
            self.cuda_stream = 0

        def wait_event(self, event):
            assert event.recorded

    class Event:
        def __init__(self, blocking=False):
            self.recorded = False

        def record(self, _):
            self.recorded = True

        def query(self):
            return self.recorded

        def synchronize(self):
            assert self.recorded

    def current_stream(self, _):
        return self.Stream()

    def stream(self, _):
        return contextlib.nullcontext()


class HostFeed(feed.DeviceFeed):
    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.sent = 0

    def _to_device(self, tensor):
        self.sent += 1
        return tensor.clone()

    def _hand_to(self, stream, tensor):
        return tensor


@pytest.fixture
def no_cuda(monkeypatch):
    monkeypatch.setattr(feed, "find_device", lambda device: torch.device("cpu"))
    monkeypatch.setattr(feed, "find_streams", NoCuda)
    monkeypatch.setattr(dataloader, "DeviceFeed", HostFeed)
    monkeypatch.setattr(
        dataloader, "pinned_memory", lambda size: torch.empty(size, dtype=torch.uint8)
    )


def same(batches, expected):
    batches, expected = list(batches), list(expected)
    return len(batches) == len(expected) and all(
        torch.equal(a, b)
        for left, right in zip(batches, expected, strict=True)
        for a, b in zip(left, right, strict=True)
    )


def feed_of(batches, ahead=2):
    """A feed and what to pull from: batches, None for an end, or errors."""
    feed = HostFeed("cuda", ahead)
    left = list(batches)

    def pull(seconds):
        if not left:
            raise TimeoutError
        first = left.pop(0)
        if isinstance(first, Exception):
            raise first
        return None if first is None else ([torch.tensor([first])], None)

    return feed, pull


def test_batches_are_sent_ahead_and_come_in_order(no_cuda):
    feed, pull = feed_of([1, 2, 3, 4, None])
    feed.begin(False, False)
    received = []
    while (batch := feed.next(pull, None)) is not None:
        received.append(int(batch[0]))
        assert feed.sent == min(4, len(received) + 2)
    assert received == [1, 2, 3, 4]


class Pinnable:
    """A tensor, or a batch of the user's own."""

    def pin_memory(self):
        return "pinned"


# Named tuples were left as they were.
def test_everything_in_a_batch_is_pinned():
    pair = collections.namedtuple("pair", "images labels")
    batch = {"a": [Pinnable(), 1], "b": (Pinnable(), "text"), "c": pair(Pinnable(), Pinnable())}
    wanted = {"a": ["pinned", 1], "b": ("pinned", "text"), "c": pair("pinned", "pinned")}
    made = delivery.pinned(batch)
    assert made == wanted
    assert type(made["c"]) is pair


def test_pinned_memory_is_asked_for_before_the_loop(folder, no_cuda, monkeypatch):
    sizes = []

    def memory(size):
        sizes.append(size)
        return torch.empty(size, dtype=torch.uint8)

    monkeypatch.setattr(dataloader, "pinned_memory", memory)
    loader = foreload.DataLoader(
        folder, batch_size=8, shuffle=False, transform=CROP, device="cuda", num_workers=1
    )
    begun = sizes[: feed.PINNED_BATCHES]
    assert begun == [8 * 3 * 32 * 32] * feed.PINNED_BATCHES
    list(loader)
    assert set(sizes) == set(begun)  # batches of the engine fit what is in the pool
    loader.close()


def test_an_error_waits_for_its_turn(no_cuda):
    feed, pull = feed_of([1, 2, ValueError("bad"), 3])
    feed.begin(False, False)
    assert [int(feed.next(pull, None)[0]) for _ in range(2)] == [1, 2]
    for _ in range(2):  # and what comes after it is not given in its place
        with pytest.raises(ValueError, match="bad"):
            feed.next(pull, None)


def test_what_is_not_there_yet_is_not_waited_for(no_cuda):
    feed, pull = feed_of([1])
    feed.begin(False, False)
    assert int(feed.next(pull, None)[0]) == 1
    with pytest.raises(TimeoutError):
        feed.next(pull, 0.1)


def test_the_next_epoch_is_on_its_way_at_the_end_of_one(no_cuda):
    feed, pull = feed_of([1, 2, None, 3, 4, None])
    assert not feed.begin(False, True)
    assert [int(feed.next(pull, None)[0]) for _ in range(2)] == [1, 2]
    assert feed.next(pull, None) is None
    assert feed.ran_on
    assert feed.sent == 4
    assert feed.begin(True, False)
    assert not feed.ran_on
    assert [int(feed.next(pull, None)[0]) for _ in range(2)] == [3, 4]
    assert feed.next(pull, None) is None


@pytest.mark.parametrize("epochs", [None, 3])
def test_epochs_through_a_feed_are_those_without(folder, no_cuda, epochs):
    loader = loader_of(folder, device="cuda", epochs=epochs)
    plain = loader_of(folder)
    for epoch in range(3):
        assert same(loader, plain)
        assert loader.epoch_stats()["epoch"] == epoch
        assert loader.epoch_stats()["samples"] == COUNT


def test_a_loop_through_a_feed_may_go_anywhere(folder, no_cuda):
    plain = loader_of(folder)
    epochs = [list(plain) for _ in range(4)]
    loader = loader_of(folder, device="cuda")
    assert same(loader, epochs[0])
    loader.set_epoch(3)  # not the one that is on its way
    assert same(loader, epochs[3])
    loader.set_epoch(1)
    for number, batch in enumerate(loader):
        assert same([batch], [epochs[1][number]])
        if number == 1:
            state = loader.state_dict()
            break
    assert same(loader, epochs[2])
    loader.load_state_dict(state)
    assert same(loader, epochs[1][2:])
    assert same(loader, epochs[2])
    batches = iter(loader)
    for number in range(len(epochs[3])):  # all of it, but the end is not seen
        assert same([next(batches)], [epochs[3][number]])
    loader.set_epoch(0)
    assert same(loader, epochs[0])


def test_samplers_and_functions_go_through_a_feed_too(folder, no_cuda):
    def size(image):
        return torch.tensor(image.size)

    for given in ({"shuffle": None, "sampler": [5, 3, 1]}, {"transform": size}):
        loader, plain = loader_of(folder, device="cuda", **given), loader_of(folder, **given)
        for _ in range(2):
            assert same(loader, plain)


class NoGpu(gpu_decoding.GpuDecoding):
    """A GPU that can decode nothing, so that all batches are left to the CPU."""

    def __init__(self, device, form):
        self._rule = _core.PackingRule(gpu_decoding.ALL)
        self.form = _core.with_packing(form, self._rule)

    def submit(self, *_):
        return self

    def hand_over(self, _):
        return "it cannot"

    def stats(self):
        return {}


def with_bad_files(path, bad):
    for number in range(COUNT):
        data = bytearray(jpeg(number))
        if number in bad:
            table = data.index(b"\xff\xc4") + 5
            data[table : table + 16] = b"\xff" * 16  # more codes than there can be
        target = path / f"class{number // 9}" / f"{number:04}.jpg"
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(bytes(data))
    return path


@pytest.mark.filterwarnings("ignore:7 samples skipped")
def test_skipped_samples_are_those_of_the_cpu_and_counted(tmp_path, no_cuda, monkeypatch):
    """Other samples took the place of bad ones than the engine takes."""
    monkeypatch.setattr(feed, "GpuDecoding", NoGpu)
    files = with_bad_files(tmp_path, {2, 3, 7, 16, 21, 22, 23})
    given = {"shuffle": False, "on_error": "skip", "return_index": True}
    loader, plain = (
        loader_of(files, device="cuda", decoder="gpu", **given),
        loader_of(files, **given),
    )
    batches = list(loader)
    assert [batch[2].tolist() for batch in batches] == [
        [0, 1, 4, 4, 4, 5, 6, 0],
        list(range(8, 16)),
        [17, 17, 18, 19, 20, 17, 17, 17],
    ]
    assert same(batches, plain)
    assert loader.stats()["skipped"] == plain.stats()["skipped"]
    # Named as they are found, and what takes longest is decoded first.
    assert sorted(loader.stats()["skipped_names"]) == sorted(plain.stats()["skipped_names"])
    assert loader.stats()["skipped"] == 7


def test_a_batch_of_bad_samples_only_is_an_error_on_a_device_too(tmp_path, no_cuda, monkeypatch):
    monkeypatch.setattr(feed, "GpuDecoding", NoGpu)
    files = with_bad_files(tmp_path, set(range(8)))
    loader = loader_of(files, device="cuda", decoder="gpu", on_error="skip", shuffle=False)
    with pytest.raises(ValueError, match=r"sample 0 \(.*0000\.jpg\).*All samples of its batch"):
        next(iter(loader))
