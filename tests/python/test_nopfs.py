# SPDX-License-Identifier: Apache-2.0
"""foreload.compat.nopfs: the published usage."""

import numpy as np
import pytest

import foreload
from foreload import transforms
from foreload.compat import nopfs
from foreload.compat.nopfs import Job, NoPFSDataLoader, NoPFSImageFolder

torch = pytest.importorskip("torch")


def test_the_published_usage(images):
    job = Job(images, 16, 2, "uniform", False, seed=3, memory="16MiB")
    dataset = NoPFSImageFolder(images, job, transforms.imagenet_eval(16, 20))
    loader = NoPFSDataLoader(dataset)
    assert (len(dataset), len(loader)) == (50, 4)
    assert dataset.class_to_idx == {"class0": 0, "class1": 1, "class2": 2}
    labels_of = foreload.list_folder(images).labels
    for epoch in range(2):
        batches = list(loader)
        assert [len(labels) for _, labels in batches] == [16, 16, 16, 2]
        samples, labels = batches[0]
        assert samples.shape == (16, 3, 16, 16)
        assert labels.dtype == torch.int64
        order = foreload.order(50, seed=3, epoch=epoch)
        np.testing.assert_array_equal(torch.cat([b[1] for b in batches]), labels_of[order])
    with pytest.raises(RuntimeError, match="beyond epochs=2"):
        next(iter(loader))


def test_transforms_of_the_job_types_of_labels_and_collating(images):
    """The usage of the published benchmark, by its names."""
    steps = [
        nopfs.transforms.ImgDecode(),
        nopfs.transforms.RandomResizedCrop(8),
        nopfs.transforms.RandomHorizontalFlip(),
        nopfs.transforms.HWCtoCHW(),
    ]
    job = nopfs.Job(
        images, 10, 1, "uniform", True, transforms=steps, seed=42, libhdmlp_path="lib.so"
    )
    folder = nopfs.HDMLPImageFolder(images, job, filelist="hdmlp_files.pickle")
    samples, labels = next(iter(nopfs.HDMLPDataLoader(folder, label_type=torch.int32)))
    assert samples.shape == (10, 3, 8, 8)
    assert samples.dtype == torch.uint8
    assert labels.dtype == torch.int32
    assert list(NoPFSDataLoader(folder, collate_fn=len)) == [10] * 5


def test_a_folder_s_transform_gets_batches_after_those_of_the_job(images):
    steps = [nopfs.transforms.Resize(12, 8), nopfs.transforms.ToTensor()]
    job = Job(images, 10, 1, "uniform", True, steps)
    folder = NoPFSImageFolder(images, job, lambda batch: batch * 2 + len(batch))
    samples, _ = next(iter(NoPFSDataLoader(folder)))
    plain, _ = next(iter(NoPFSDataLoader(NoPFSImageFolder(images, job))))
    assert samples.shape == (10, 3, 8, 12)  # height, width
    assert torch.equal(samples, plain * 2 + 10)


def test_images_as_they_are(images):
    job = Job(images, 5, 1, "uniform", True)
    samples, labels = next(iter(NoPFSDataLoader(NoPFSImageFolder(images, job))))
    assert len(samples) == len(labels) == 5
    assert samples[0].dtype == torch.uint8
    assert samples[0].shape[0] == 3


def test_the_batch_is_that_of_all_ranks(images, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    job = Job(images, 16, 1, "uniform", True)
    assert (job.get_node_id(), job.get_no_nodes()) == (1, 4)
    dataset = NoPFSImageFolder(images, job, transforms.Resize((8, 8)))
    assert [len(labels) for _, labels in NoPFSDataLoader(dataset)] == [4, 4, 4]
    with pytest.raises(ValueError, match="multiple"):
        Job(images, 10, 1, "uniform", True)


def test_what_is_not_there_is_said(images, tmp_path):
    with pytest.raises(ValueError, match="uniform"):
        Job(images, 10, 1, "skewed", True)
    with pytest.warns(UserWarning, match="not read"):
        Job(images, 10, 1, "uniform", True, config_path=tmp_path / "hdmlp.cfg")
    with pytest.raises(ValueError, match="one sample each"):
        Job(images, 10, 1, "uniform", True, filesystem_backend="hdf5")
