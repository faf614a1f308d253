# SPDX-License-Identifier: Apache-2.0
"""foreload.open_dataset: torch's own DataLoader, served by the caches."""

import json
import multiprocessing
import os
import pickle
import socket
import threading
from pathlib import Path

import numpy as np
import pytest
from jobs import wait_until

import foreload
from foreload import transforms
from foreload.serving.server import receive

torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

CHAIN = transforms.Compose([transforms.Resize((8, 8))])


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.*"))


def sizes(image):
    return np.asarray(image).shape[:2]


@pytest.fixture
def served(images):
    dataset = foreload.open_dataset(images, CHAIN, memory="16MiB")
    yield dataset
    dataset.close()


def test_samples_by_number(images, served):
    paths = files(images)
    assert len(served) == 50
    assert served.classes == ["class0", "class1", "class2"]
    image, label = served[-1]
    assert label == int(paths[-1].parent.name[5:])
    reference = Image.open(paths[-1]).convert("RGB").resize((8, 8), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(image.permute(1, 2, 0).numpy(), np.asarray(reference))
    with pytest.raises(IndexError, match="50"):
        served[50]


@pytest.mark.parametrize("context", [None, "fork", "spawn"])
def test_in_torch_s_dataloader(images, served, context):
    order = foreload.order(50, seed=4).tolist()
    given = torch.utils.data.DataLoader(
        served,
        batch_size=8,
        sampler=order,
        num_workers=2 if context else 0,
        multiprocessing_context=context,
    )
    own = foreload.DataLoader(images, 8, transform=CHAIN, sampler=order)
    for (images_, labels), (own_images, own_labels) in zip(given, own, strict=True):
        assert torch.equal(images_, own_images)
        assert torch.equal(labels, own_labels)


def test_the_second_epoch_comes_from_memory(images, served):
    loader = torch.utils.data.DataLoader(
        served, batch_size=8, num_workers=2, multiprocessing_context="fork"
    )
    total = sum(path.stat().st_size for path in files(images))
    for _ in range(3):
        assert sum(len(labels) for _, labels in loader) == 50
        assert served.stats()["source_bytes"] == total


def test_random_transforms_follow_torch_s_global_state(images):
    served = foreload.open_dataset(images, transforms.RandomResizedCrop(8))
    torch.manual_seed(3)
    first = [served[0][0], served[0][0]]
    torch.manual_seed(3)
    again = [served[0][0], served[0][0]]
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1])
    served.close()


def test_bytes_and_functions(images):
    paths = files(images)
    served = foreload.open_dataset(images)
    assert served[3] == (paths[3].read_bytes(), 0)
    served.close()
    served = foreload.open_dataset(images, sizes, target_transform=str)
    assert served[3] == (sizes(Image.open(paths[3])), "0")
    served.close()


def test_a_bad_file_is_an_error_of_its_own(tmp_path, images):
    good, bad = tmp_path / "a.png", tmp_path / "b.png"
    good.write_bytes(files(images)[0].read_bytes())
    bad.write_bytes(b"nothing")
    served = foreload.open_dataset(tmp_path, CHAIN)
    with pytest.raises(ValueError, match=r"b\.png"):
        served[1]
    os.unlink(bad)
    with pytest.raises(OSError, match=r"b\.png"):
        served[1]
    assert served[0][0].shape == (3, 8, 8)
    served.close()


def test_threads_ask_at_once(images, served):
    found = {}

    def ask(number):
        found[number] = [served[i][1] for i in range(number, 50, 4)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    paths = files(images)
    for number in range(4):
        assert found[number] == [int(p.parent.name[5:]) for p in paths[number::4]]


def read_one(dataset, queue):
    queue.put(dataset[0][1])


def test_a_process_that_was_killed_disturbs_nobody(served):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=read_one, args=(served, queue))
    process.start()
    assert queue.get(timeout=60) == 0
    process.kill()
    process.join()
    assert served[1][1] == 0


def test_somebody_who_does_not_take_the_answer_holds_up_nobody(tmp_path):
    """A stopped worker: its answer is larger than what a socket takes."""
    for number in range(4):
        (tmp_path / f"{number}.png").write_bytes(bytes([number]) * (8 << 20))
    served = foreload.open_dataset(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stopped:
        stopped.connect(served._address)
        stopped.sendall(np.array([2, 0, 1], dtype="<i8").tobytes())  # two samples: 0 and 1
        receive(stopped, 100)  # the answer has begun
        assert served[3][0][:1] == b"\x03"
    served.close()


def test_a_question_that_makes_no_sense_is_an_error_of_its_own(served):
    with pytest.raises(ValueError, match="50"):
        served._own.ask([3, 50])
    assert served[3][1] == 0


def test_what_is_expected_is_read_ahead_and_once(images, tmp_path):
    paths = files(images)
    served = foreload.open_dataset(images, sizes)
    order = foreload.order(50, seed=9).tolist()
    served.expect(order)
    wait_until(lambda: served.stats()["source_samples"] == 50)
    loader = torch.utils.data.DataLoader(
        served, batch_size=8, sampler=order, num_workers=2, multiprocessing_context="fork"
    )
    labels = [int(label) for _, batch in loader for label in batch]
    assert labels == [int(paths[index].parent.name[5:]) for index in order]
    assert served.stats()["source_samples"] == 50
    served.close()


def test_a_wrong_forecast_changes_no_sample(images, served, monkeypatch):
    monkeypatch.setattr(served._server._ahead, "_most", 3)
    expected = [served[index][1] for index in range(50)]
    for forecast in ([], [7] * 20, list(range(49, -1, -1)), range(50)):
        served.expect(forecast)
        assert [served[index][1] for index in range(50)] == expected
        assert [label for _, label in served.__getitems__([4, 49, 4, 0])] == [
            expected[index] for index in (4, 49, 4, 0)
        ]
    with pytest.raises(IndexError, match="index 50 is out of range"):
        served.expect([50])
    with pytest.raises(RuntimeError, match="call them in the process that opened"):
        pickle.loads(pickle.dumps(served)).expect([])


def test_what_is_closed_says_so(images):
    served = foreload.open_dataset(images, CHAIN)
    copy = pickle.loads(pickle.dumps(served))
    assert copy[0][1] == 0
    served.close()
    for dataset in (served, copy):
        with pytest.raises(RuntimeError, match="closed"):
            dataset[0]


def test_samples_in_memory_need_no_cache():
    class Blobs:
        def __len__(self):
            return 2

        def locate(self, index):
            return b"x"

        def decode(self, data, index):
            return index

    with pytest.raises(TypeError, match="cannot keep the samples of Blobs"):
        foreload.open_dataset(Blobs())


@pytest.mark.parametrize("makes_itself", [False, True])
def test_samples_of_several_parts(images, makes_itself):
    """Their bytes came as one piece."""
    paths = files(images)

    class Pairs:
        def __len__(self):
            return 10

        def locate(self, index):
            return {"left": paths[index], "right": paths[index + 1], "number": index}

    class Sizes(Pairs):
        def decode(self, parts, index):
            return len(parts["left"]), len(parts["right"]), parts["number"]

    if makes_itself:
        served = foreload.open_dataset(Sizes())
        sizes = [path.stat().st_size for path in paths]
        assert served[3] == (sizes[3], sizes[4], 3)
    else:
        served = foreload.open_dataset(Pairs(), {"left": CHAIN, "right": None})
        plain = foreload.open_dataset(images, CHAIN)
        sample = served[3]
        assert torch.equal(sample["left"], plain[3][0])
        assert (sample["right"], sample["number"]) == (paths[4].read_bytes(), 3)
        plain.close()
    served.close()


def test_it_shares_a_cache_with_loaders(images):
    total = sum(path.stat().st_size for path in files(images))
    cache = foreload.Cache(memory=f"{total * 3}B")
    served = foreload.open_dataset(images, CHAIN, cache=cache)
    assert cache.memory_left == total * 2
    served.close()
    assert cache.memory_left == total * 3


def test_ranks_of_a_machine_share_its_budgets(images, tmp_path, monkeypatch):
    """Each has a data set of its own, and its own part of a disk's folder."""
    total = sum(path.stat().st_size for path in files(images))
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    for run in range(2):
        both = []
        for rank in range(2):
            monkeypatch.setenv("RANK", str(rank))
            monkeypatch.setenv("LOCAL_RANK", str(rank))
            both.append(
                foreload.open_dataset(
                    images, memory=f"{total}B", disk=(tmp_path, 8 << 20), profile="none"
                )
            )
        for served in both:
            start = json.loads(served._server.core.start_json())
            assert start["tiers"][0]["bytes"] == total // 2
            assert start["tiers"][1]["bytes"] <= 4 << 20
            assert served.stats()["held_samples"] == (50 if run else 0)
            assert [served[index][1] for index in range(50)] == [
                int(path.parent.name[5:]) for path in files(images)
            ]
        for served in both:
            served.close()
