# SPDX-License-Identifier: Apache-2.0
"""What is said when something is not as it was meant: sizes, names, paths, kinds of data."""

from __future__ import annotations

import json
import os
import re
import time
import warnings
from pathlib import Path

import pytest
from program_answers import refused

import foreload
from foreload import transforms
from foreload.plot import main as plot
from foreload.report import main as report

MIB = 2**20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(12):
        target = tmp_path / "train" / f"class{number % 2}" / f"{number}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes([number]) * 1000)
    return tmp_path / "train"


# What a loader writes.


@pytest.mark.parametrize("write", ["save", "report"])
def test_a_file_in_a_folder_that_is_not_there_is_refused_before_any_work(
    folder: Path, write: str
) -> None:
    loader = foreload.DataLoader(folder, 4)
    file = folder.parent / "resutls" / "x"
    (folder.parent / "results").mkdir()
    said = (
        f"{write}(): cannot write {file}: the folder {file.parent} does not exist; make it, or "
        f"correct the path; did you mean {folder.parent / 'results'}?"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        getattr(loader, write)(file)
    loader.close()


# Names.


@pytest.mark.parametrize(
    ("module", "name", "said"),
    [
        (transforms, "ToTensor", "images come as tensors; ToDtype('float32', scale=True)"),
        (transforms, "RandomRezisedCrop", "did you mean 'RandomResizedCrop'?"),
        (foreload, "make_images", "it is a command, 'foreload make-images FOLDER --help'"),
        (foreload, "Dataloader", "did you mean 'DataLoader'?"),
    ],
)
def test_a_name_that_is_not_there_says_what_to_use(module: object, name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(said)):
        getattr(module, name)


def test_private_names_get_no_suggestions() -> None:
    with pytest.raises(AttributeError, match=r"no attribute '_Compose'$"):
        getattr(transforms, "_Compose")  # noqa: B009


@pytest.mark.parametrize("kind", ["MixUp", "CutMix"])
def test_what_mixes_batches_is_no_transform_of_samples(folder: Path, kind: str) -> None:
    """It was called with one image, and the message was about shapes."""
    v2 = pytest.importorskip("torchvision.transforms.v2")
    for module in (transforms, v2):
        with pytest.raises(ValueError, match=f"give it as batch_transform={kind}"):
            foreload.DataLoader(folder, transform=getattr(module, kind)(num_classes=2))
    with pytest.raises(TypeError, match="to the DataLoader as batch_transform="):
        transforms.Compose([transforms.Resize(4), getattr(transforms, kind)(num_classes=2)])


# Sizes.


def test_a_letter_alone_is_binary_as_in_slurm() -> None:
    assert foreload.Cache(memory="8G").memory == 8 * 2**30
    assert foreload.parse_bytes("512M") == 512 * MIB


@pytest.mark.parametrize("number", [1, 8, MIB])
def test_a_small_whole_number_is_refused_with_the_unit_to_write(number: int) -> None:
    said = f"memory={number}: {number:,} bytes? Write '{number}GiB', or '{number}B' if you mean it"
    with pytest.raises(ValueError, match=re.escape(said)):
        foreload.Cache(memory=number)
    with pytest.raises(ValueError, match="Write '8GiB'"):
        foreload.Cache(disk=("/tmp", 8))
    with pytest.raises(ValueError, match="Write '8GiB'"):
        foreload.plan(samples=10, mean_size=10, memory=8)


def test_other_whole_numbers_are_bytes() -> None:
    assert foreload.Cache(memory=MIB + 1).memory == MIB + 1
    assert foreload.Cache(memory=0).memory == 0
    assert foreload.Cache(memory="8B").memory == 8


def test_a_text_without_a_unit_is_refused_with_the_unit_to_write() -> None:
    with pytest.raises(ValueError, match=re.escape("memory: cannot read size '8': it has no unit")):
        foreload.Cache(memory="8")


def test_auto_is_half_of_what_is_left_and_says_so(folder: Path, tmp_path: Path) -> None:
    loader = foreload.Reader(folder, epochs=1, memory="auto", disk=f"{tmp_path}/c:auto")
    memory, disk = loader.stats()["tiers"]
    for tier in (memory, disk):
        assert tier["bytes"] > 0
        assert tier["budget_from"].startswith("auto: half of the ")
    assert len(list(loader)) == 1


def test_a_cache_can_be_automatic(folder: Path) -> None:
    cache = foreload.Cache(memory="auto")
    loader = foreload.DataLoader(folder, 4, cache=cache)
    assert cache.memory > 0
    assert "auto: half of the" in repr(loader)
    loader.close()


def test_the_program_takes_auto(run, folder: Path) -> None:
    done = run("read", folder, "--memory", "auto")
    assert done.returncode == 0, done.stderr
    assert "(auto: half of the" in done.stdout.splitlines()[0]


# Paths.


def test_home_is_expanded_everywhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    reader = foreload.Reader("~/train", epochs=1, disk="~/cache:4MiB", index="~/x.index")
    assert len(list(reader)) == 1
    assert reader.stats()["tiers"][1]["folder"] == f"{folder.parent}/cache"
    assert (folder.parent / "x.index").exists()
    loader = foreload.DataLoader("~/train", 4)
    loader.save("~/state.json")
    loader.restore("~/state.json")
    assert (folder.parent / "state.json").exists()
    assert len(foreload.list_folder("~/train")) == 12
    assert len(foreload.read_index("~/x.index")) == 12
    assert foreload.plan("~/train").to_dict()["samples"] == 12


def test_the_program_expands_home(run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(folder.parent))
    done = run("read", "~/train", "--disk=~/cache:4MiB", "--trace=~/trace.json", "--run-file=~/r")
    assert done.returncode == 0, done.stderr
    assert {"cache", "trace.json", "r"} <= {entry.name for entry in folder.parent.iterdir()}


@pytest.mark.parametrize("option", ["--trace", "--run-file"])
def test_outputs_are_checked_before_the_run(run, folder: Path, option: str) -> None:
    file = folder.parent / "nowhere" / "file"
    done = run("read", folder, option, file)
    assert f"{option}: cannot write {file}: the folder {file.parent} does not exist" in refused(
        done
    )
    assert done.stdout == ""


def test_outputs_of_other_verbs_are_checked(run, folder: Path) -> None:
    plan = ["plan", "--dataset", folder]
    assert "--save-index: cannot write" in refused(run(*plan, "--save-index", "/nowhere/x"))
    assert "--plot: cannot write" in refused(run(*plan, "--plot", "/nowhere/x.png"))
    assert "--save: cannot write" in refused(run("probe", folder, "--save", "/nowhere/x"))


def test_pages_and_pictures_are_checked_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(["missing.jsonl", "-o", "/nowhere/page.html"]) == 2
    assert "--out: cannot write /nowhere/page.html" in capsys.readouterr().err
    assert plot(["missing.json", "-o", "/nowhere/picture.png"]) == 2
    assert "--output: cannot write /nowhere/picture.png" in capsys.readouterr().err


def test_a_disk_cache_without_a_parent_asks_for_it(run, folder: Path) -> None:
    cache = folder.parent / "trian" / "cache"
    said = f"cannot make folder {cache}: {cache.parent}, which it would be in, does not exist"
    with pytest.raises(ValueError, match=re.escape(said)):
        foreload.DataLoader(folder, disk=(cache, "4MiB"))
    answer = refused(run("read", folder, "--disk", f"{cache}:4MiB"))
    assert said in answer
    assert f"did you mean {folder}?" in answer
    assert not cache.parent.exists()


# Kinds of data.


@pytest.mark.parametrize(
    ("dataset", "said"),
    [
        ("s3://bucket/train", "it is an S3 bucket, which foreload does not read yet"),
        ("ftp://host/train.tar", "it is an FTP server"),
        ("x.tar", "it is a tar archive"),
        ("x.parquet", "it is a Parquet file"),
        ("x.h5", "it is an HDF5 file"),
    ],
)
def test_data_that_is_not_read_is_named(run, tmp_path: Path, dataset: str, said: str) -> None:
    if "://" not in dataset:
        (tmp_path / dataset).write_bytes(bytes(100))
        dataset = str(tmp_path / dataset)
    for open_it in (foreload.DataLoader, foreload.Reader, foreload.plan, foreload.open_dataset):
        with pytest.raises(ValueError, match=said):
            open_it(dataset)
    assert said in refused(run("read", dataset))


def test_pipes_and_devices_are_no_data_sets(run, tmp_path: Path) -> None:
    """A pipe was waited for, and /dev/zero was read into memory until there was none left."""
    os.mkfifo(tmp_path / "pipe")
    for path, said in ((tmp_path / "pipe", "it is a named pipe"), ("/dev/zero", "it is a device")):
        with pytest.raises(ValueError, match=said):
            foreload.DataLoader(path)
        assert said in refused(run("read", path))


@pytest.mark.parametrize("address", ["http://", "https://"])
def test_an_address_without_a_host_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="it names no host"):
        foreload.DataLoader(address)


def test_a_missing_folder_is_answered_with_one_that_is_there(run, folder: Path) -> None:
    answer = refused(run("read", folder.parent / "trian"))
    assert f"No such file or directory; check the path; did you mean {folder}?" in answer


def test_a_folder_without_class_folders_says_so(run, folder: Path) -> None:
    first = run("read", folder / "class0").stdout.splitlines()[0]
    assert "6 samples without class folders" in first


def test_objects_that_are_no_data_sets_are_refused_with_what_works() -> None:
    with pytest.raises(TypeError, match=r"samples of a int: give a folder, .*__getitem__.*locate"):
        foreload.DataLoader(5)


# Suggestions.


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: foreload.DataLoader("x", batchsize=3),
            "DataLoader() got an unexpected keyword argument 'batchsize'; "
            "did you mean 'batch_size'?",
        ),
        (lambda: foreload.Reader("x", epoch=3), "Reader() got .*'epoch'; did you mean 'epochs'?"),
        (lambda: foreload.Cache(mem="1GiB"), "Cache() got .*'mem'; did you mean 'memory'?"),
        (
            lambda: foreload.open_dataset("x", memroy="1GiB"),
            "open_dataset() got .*'memroy'; did you mean 'memory'?",
        ),
        (
            lambda: transforms.RandomResizedCrop(224, scales=(1, 1)),
            "RandomResizedCrop() got .*'scales'; did you mean 'scale'?",
        ),
    ],
)
def test_mistyped_arguments_are_answered_with_the_right_one(call, said: str) -> None:
    with pytest.raises(TypeError, match=said.replace("(", r"\(").replace(")", r"\)").rstrip("?")):
        call()


def test_a_stranger_gets_no_suggestion() -> None:
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'frobnicate'$"):
        foreload.Cache(frobnicate=1)  # type: ignore[call-arg]


def test_mistyped_values_are_answered_with_the_right_one(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"on_error is 'skp': use .*; did you mean 'skip'"):
        foreload.DataLoader(folder, on_error="skp")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["read", "x", "--epoch", "3"], "unknown option --epoch; did you mean --epochs?"),
        (["read", "x", "--batchsize=3"], "unknown option --batchsize; did you mean --batch-size?"),
        (["reed", "x"], "the verb is 'reed': use advise, .*; did you mean read?"),
        (["read", "x", "--io", "thread"], "--io is 'thread': use .*; did you mean threads?"),
        (["plan", "--placement", "covr"], "unknown placement 'covr': use .*; did you mean cover?"),
        (["report", "--ot", "x", "y", "-o", "z"], "unknown option --ot; did you mean --out?"),
    ],
)
def test_the_program_suggests(run, tmp_path: Path, arguments: list[str], said: str) -> None:
    answer = refused(run(*arguments, cwd=tmp_path))
    assert re.search(said.replace("?", r"\?"), answer), answer


def test_a_warning_points_at_the_caller(folder: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        foreload.DataLoader(folder, 4, transform=transforms.imagenet_train(8))
    assert [os.path.basename(entry.filename) for entry in caught] == ["test_messages.py"]


# Listings.


def test_a_listing_from_a_cache_says_so_with_its_age(run, folder: Path, tmp_path: Path) -> None:
    read = ["read", folder, "--disk", f"{tmp_path}/cache:4MiB"]
    assert "; listed now; " in run(*read).stdout.splitlines()[0]
    (file,) = (tmp_path / "cache" / "foreload-1").glob("*.index")
    before = time.time() - 3 * 86_400 - 60
    os.utime(file, (before, before))
    first = run(*read).stdout.splitlines()[0]
    assert f"; listing from cache {file}, 3 days old; revalidate lists again; " in first
    loader = foreload.DataLoader(folder, 4, disk=(tmp_path / "cache", "4MiB"))
    listing = loader.stats()["listing"]
    assert (listing["from"], listing["file"]) == ("cache", str(file))
    assert listing["age_seconds"] >= 3 * 86_400
    assert "3 days old" in repr(loader)
    loader.close()


def test_a_new_file_is_noticed(run, folder: Path, tmp_path: Path) -> None:
    read = ["read", folder, "--disk", f"{tmp_path}/cache:4MiB"]
    run(*read)
    (folder / "class1" / "new.jpg").write_bytes(b"new")
    later = time.time() + 1
    os.utime(folder / "class1", (later, later))
    done = run(*read)
    first = done.stdout.splitlines()[0]
    assert "13 samples" in first
    assert f"listed again: folder {folder}/class1 changed since the listing of" in first
    assert done.stderr == ""
    stats = json.loads(run(*read, "--json").stdout)
    assert stats["listing"]["from"] == "cache"
    assert stats["listing"]["changed_folder"] is None


# Two at once.


def test_a_second_loader_on_a_disk_cache_is_warned(folder: Path, tmp_path: Path) -> None:
    first = foreload.Reader(folder, epochs=1, disk=(tmp_path / "cache", "4MiB"))
    with pytest.warns(RuntimeWarning, match="is in use by another loader of this process"):
        second = foreload.Reader(folder, epochs=1, disk=(tmp_path / "cache", "4MiB"))
    (other,) = second.stats()["tiers"][1]["in_use_by"]
    assert other["process"] == os.getpid()
    assert second.stats()["tiers"][1]["bytes"] == 4 * MIB - other["bytes"]
    assert len(list(first)) == len(list(second)) == 1


def test_a_second_job_on_a_disk_cache_is_warned(run, folder: Path, tmp_path: Path) -> None:
    reader = foreload.Reader(folder, epochs=1, disk=(tmp_path / "cache", "4MiB"))
    done = run("read", folder, "--disk", f"{tmp_path}/cache:4MiB")
    assert done.returncode == 0
    assert f"is in use by process {os.getpid()} on " in done.stderr
    assert done.stderr.count("\n") == 1
    assert len(list(reader)) == 1
