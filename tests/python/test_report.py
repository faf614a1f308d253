# SPDX-License-Identifier: Apache-2.0
"""`foreload report` and `loader.report()`: a page that stands for itself, the verdict first; one
line for what is no run file; how another loader's run is recorded."""

from __future__ import annotations

import html.parser
import json
import re
import resource
import shutil
import subprocess
import warnings
import xml.etree.ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import foreload
from foreload import transforms
from foreload.reports import run_files
from foreload.reports.pictures import _whole_ticks, pictures

Run = Callable[..., "subprocess.CompletedProcess[str]"]

HEADER = {"foreload_run": 2, "made_by": "a test", "dataset": "/data/<b>", "samples": 40}
OLD_EPOCH = {
    "epoch": 0,
    "seconds": 2.0,
    "samples": 40,
    "bytes": 4_000,
    "from": {"memory": 1_000, "disk": 0, "peer": 0, "source": 3_000},
    "wait_fraction": 0.25,
    "batch_wait_ms": {"p50": 0.0, "p99": 3.0, "max": 7.5},
}
EPOCH = OLD_EPOCH | {
    "kind": "epoch",
    "at": 2.0,
    "wait_counts": [0, 0, 3, 0, 0, 1],
    "stages": {"source": [0.9, 1_500], "decode": [0.2, 2_000]},
    "decode_by_size": [{"from_bytes": 64, "samples": 40, "bytes": 4_000, "seconds": 0.4}],
    "peers": [
        {"rank": 1, "bytes": 700, "same_host_bytes": 0, "served_bytes": 400, "wait_seconds": 0.1}
    ],
    "verdict": {
        "limit": "source",
        "waited": 0.25,
        "seconds": 2.0,
        "text": "waited 25 % for the source (2 KB/s); memory would help",
        "helps": [{"what": 'memory="1GiB"', "seconds": 1.0, "times": 2.0}],
        "losses": ["2 samples were skipped: <x>"],
    },
    "curve": [[1.0, 2_000, 20], [2.0, 4_000, 40]],
}
MOMENT = {
    "kind": "moment",
    "at": 1.0,
    "epoch": 0,
    "batches": 2,
    "of": 4,
    "samples": 20,
    "bytes": 2_000,
    "from": {"memory": 0, "disk": 0, "peer": 0, "source": 2_000},
    "waited": 0.5,
    "stages": {"source": [1.0, 2_000], "decode": [0.1, 2_000]},
    "ready": 1,
    "kept_bytes": [],
    "verdict": "waited 50 % for the source",
}


@pytest.fixture
def photos(run: Run, tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    made = run(
        "make-images", folder, "--count", 40, "--mean-size", "3KiB", "--classes", 2, "--json"
    )
    assert made.returncode == 0, made.stderr
    assert json.loads(made.stdout)["files"] == len(list(folder.glob("class*/*.jpg"))) == 40
    return folder


def lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


class Words(html.parser.HTMLParser):
    """The text of a page in the order it is read, without style; tags must close."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in ("meta", "br", "path", "use", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.text += data + "\n"


def words_of(page: str) -> str:
    parser = Words()
    parser.feed(page)
    assert parser.open == []
    return parser.text


def stands_for_itself(page: str) -> None:
    for picture in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        xml.etree.ElementTree.fromstring(picture)
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)
    assert "url(h" not in page


def test_a_page_about_real_runs(run: Run, photos: Path, tmp_path: Path) -> None:
    names = []
    for memory in ("0", "1MiB"):
        names.append(tmp_path / f"memory-{memory}.jsonl")
        options = ["--epochs", 2, "--batch-size", 8, "--memory", memory, "--run-file", names[-1]]
        shaped = ["--source-bandwidth", "2MB", "--source-latency-ms", 1]
        assert run("read", photos, *options, *shaped).returncode == 0
    page = tmp_path / "report.html"
    done = run("report", *names, "--out", page)
    assert done.returncode == 0, done.stderr
    text = page.read_text("utf-8")
    stands_for_itself(text)
    for title in ("Where bytes came from", "Waits", "Stages over time", "Throughput"):
        assert len(re.findall(rf'aria-label="{title}[^"]*: memory-', text)) == 2
    assert len(re.findall(r"<tr><td>", text)) == 4
    assert len(re.findall(r"<tr><th>source bytes</th><td>", text)) == 2


def test_the_verdict_comes_first_then_what_would_help_then_pictures(
    run: Run, tmp_path: Path
) -> None:
    record = tmp_path / "run.jsonl"
    record.write_text(lines(HEADER, MOMENT, EPOCH), "utf-8")
    assert run("report", record, "-o", tmp_path / "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    stands_for_itself(page)
    text = words_of(page)
    wanted = (
        "Waited 25 % for the source (2 KB/s)",
        "memory would help",
        'memory="1GiB": 1 s, 2 times as fast',
        "2 samples were skipped: <x>",
        "Where bytes came from",
        "Waits",
        "Stages over time",
        "Decode time by size",
        "Other ranks",
        "Epochs",
    )
    places = [text.index(part) for part in wanted]
    assert places == sorted(places)
    assert "/data/&lt;b&gt;" in page


def test_two_runs_have_equal_scales() -> None:
    slow = EPOCH | {"seconds": 9.0, "at": 9.0, "bytes": 77_000, "from": {"source": 77_000}}
    runs = [
        run_files.parse_run(name, name, lines(HEADER, epoch))
        for name, epoch in (("fast", EPOCH), ("slow", slow))
    ]
    for picture in pictures(runs):
        boxes, ticks = [], []
        for svg in picture.svgs:
            tree = xml.etree.ElementTree.fromstring(svg)
            boxes.append(tree.get("viewBox"))
            axes = [
                group
                for group in tree.iter("{http://www.w3.org/2000/svg}g")
                if re.match(r"(x|y)tick_\d+$", group.get("id", ""))
            ]
            ticks.append(
                ["".join(group.itertext()).strip() for group in axes]
                + [group.get("transform") for group in axes]
            )
        assert boxes[0] == boxes[1], picture.title
        assert ticks[0] == ticks[1], picture.title
        assert ticks[0]


def test_a_loader_that_counts_nothing_can_be_compared() -> None:
    bare = {"kind": "epoch", "at": 4.0, "epoch": 0, "seconds": 4.0, "samples": 40, "bytes": 0}
    bare |= {"wait_fraction": 0.9, "batch_wait_ms": {"p50": 1.0, "p99": 1.0, "max": 1.0}}
    runs = [
        run_files.parse_run(name, name, lines(HEADER, epoch))
        for name, epoch in (("full", EPOCH), ("bare", bare))
    ]
    assert runs[1].epochs[0].verdict.text == "waited 90 % of the time"
    shown = {picture.title: picture.svgs[1] for picture in pictures(runs)}
    assert "not known" in shown["Where bytes came from"]
    assert "not known" in shown["Decode time by size"]


def test_a_file_of_the_first_format_is_still_read(run: Run, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    record.write_text(lines(HEADER | {"foreload_run": 1}, OLD_EPOCH), "utf-8")
    assert run("report", record, "-o", tmp_path / "page.html").returncode == 0
    assert "Waited 25 % of the time" in (tmp_path / "page.html").read_text("utf-8")


def test_a_run_in_its_first_epoch_has_a_page_too(run: Run, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    record.write_text(lines(HEADER, MOMENT), "utf-8")
    assert run("report", record, "-o", tmp_path / "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text("utf-8")
    assert "Waited 50 % for the source" in page
    assert "an unfinished epoch" in page


def test_the_record_has_a_curve(run: Run, photos: Path, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    run("read", photos, "--epochs", 1, "--batch-size", 8, "--run-file", record)
    *_, epoch, _ = map(json.loads, record.read_text("utf-8").splitlines())
    times, delivered, samples = zip(*epoch["curve"], strict=True)
    for series in (times, delivered, samples):
        assert list(series) == sorted(series)
    assert delivered[-1] == epoch["bytes"]
    assert samples[-1] == epoch["samples"] == 40


def test_a_torn_line_does_not_count(run: Run, tmp_path: Path) -> None:
    record = tmp_path / "run.jsonl"
    record.write_bytes(lines(HEADER, EPOCH).encode() + '{"epoch": 1, "data": "é'.encode()[:-1])
    assert run("report", record, "-o", tmp_path / "page.html").returncode == 0
    text = (tmp_path / "page.html").read_text("utf-8")
    assert len(re.findall(r"<tr><td>", text)) == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "it is not a run file"),
        (b"hello\n", "it is not a run file"),
        (b"\xff\xfe\x00", "it is not a run file"),
        (b"[1, 2]\n", "it is not a run file"),
        (lines({"foreload_run": 9}).encode(), "of format 9"),
        (lines(HEADER).encode(), "no finished epoch"),
        (lines(HEADER, {"epoch": 0}).encode(), "it is not a run file"),
        (lines(HEADER, EPOCH | {"seconds": "nan"}).encode(), "it is not a run file"),
        (b"x\n" + lines(HEADER, EPOCH).encode(), "it is not a run file"),
    ],
)
def test_refuses_what_is_no_run_file(
    run: Run, tmp_path: Path, content: bytes, complaint: str
) -> None:
    record = tmp_path / "other.jsonl"
    record.write_bytes(content)
    done = run("report", record, "-o", tmp_path / "page.html")
    assert done.returncode == 2
    assert complaint in done.stderr
    assert str(record) in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


def test_says_what_cannot_be_read_or_written(run: Run, tmp_path: Path) -> None:
    missing = run("report", tmp_path / "none.jsonl", "-o", tmp_path / "page.html")
    assert missing.returncode == 2
    assert "No such file" in missing.stderr
    record = tmp_path / "run.jsonl"
    record.write_text(lines(HEADER, EPOCH), "utf-8")
    unwritable = run("report", record, "-o", tmp_path / "none" / "page.html")
    assert unwritable.returncode == 2
    assert "cannot write" in unwritable.stderr


CHAIN = transforms.Compose([transforms.Resize((8, 8))])


def kinds_of(file: Path) -> list[str]:
    records = map(json.loads, file.read_text("utf-8").splitlines())
    return [record.get("kind", "header") for record in records]


def test_a_dataloader_writes_a_run_file_and_a_page(images: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    loader = foreload.DataLoader(images, batch_size=8, transform=CHAIN, run_file=file)
    for _ in range(2):
        for _ in loader:
            pass
    header, *rest = map(json.loads, file.read_text("utf-8").splitlines())
    assert header["made_by"] == "foreload.DataLoader"
    assert (header["rank"], header["ranks"], header["samples"]) == (0, 1, 50)
    epochs = [record for record in rest if record["kind"] == "epoch"]
    assert [epoch["epoch"] for epoch in epochs] == [0, 1]
    assert [epoch["samples"] for epoch in epochs] == [50, 50]
    # What was decoded ahead for the next epoch counts, too.
    assert sum(entry["samples"] for epoch in epochs for entry in epoch["decode_by_size"]) >= 100
    assert sum(epochs[0]["wait_counts"]) == 7
    loader.report(tmp_path / "page.html")
    assert 'aria-label="Decode time by size: this run"' in (tmp_path / "page.html").read_text()


def test_a_page_needs_no_run_file_and_no_finished_epoch(images: Path, tmp_path: Path) -> None:
    loader = foreload.DataLoader(images, batch_size=8, transform=CHAIN)
    next(iter(loader))
    loader.report(tmp_path / "page.html")
    assert "an unfinished epoch" in (tmp_path / "page.html").read_text("utf-8")


def test_samples_of_the_programs_own_are_recorded_too(tmp_path: Path) -> None:
    class Blobs:
        def __len__(self) -> int:
            return 10

        def locate(self, index: int) -> bytes:
            return b"abc"

        def decode(self, data: bytes, index: int) -> int:
            return len(data)

    file = tmp_path / "run.jsonl"
    for _ in foreload.DataLoader(Blobs(), batch_size=4, run_file=file):
        pass
    *_, epoch, _ = map(json.loads, file.read_text("utf-8").splitlines())
    assert epoch["samples"] == 10


@pytest.mark.parametrize("name", ["missing/run.jsonl", "."])
def test_a_run_file_that_cannot_be_written_is_refused_at_once(
    images: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(ValueError, match="run_file: cannot write"):
        foreload.DataLoader(images, run_file=tmp_path / name)


def test_a_home_folder_is_found(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    foreload.DataLoader(images, run_file="~/run.jsonl").close()
    assert kinds_of(tmp_path / "run.jsonl") == ["header", "end"]


def test_a_disk_that_fills_up_is_a_warning_and_the_run_goes_on(
    images: Path, tmp_path: Path
) -> None:
    file = tmp_path / "run.jsonl"
    loader = foreload.DataLoader(images, batch_size=8, transform=CHAIN, run_file=file)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 9, before[1]))
    try:
        with pytest.warns(RuntimeWarning, match="cannot write run file .* The run goes on"):
            assert sum(1 for _ in loader) == 7
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert kinds_of(file) == ["header"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(1 for _ in loader) == 7  # said once


def test_ranks_have_files_of_their_own(images: Path, tmp_path: Path) -> None:
    for rank in range(2):
        foreload.DataLoader(
            images, rank=rank, world_size=2, transport="none", run_file=tmp_path / "run"
        ).close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.0", "run.1"]


def test_torchs_loader_can_be_recorded(images: Path, tmp_path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    torch = pytest.importorskip("torch")
    dataset = data.TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))
    file = tmp_path / "torch.jsonl"
    recorded = foreload.record(data.DataLoader(dataset, batch_size=4), file)
    assert len(recorded) == 3
    assert recorded.batch_size == 4
    for _ in range(2):
        assert [len(labels) for _, labels in recorded] == [4, 4, 2]
    header, *rest = map(json.loads, file.read_text("utf-8").splitlines())
    assert header["made_by"] == "torch DataLoader"
    epochs = [record for record in rest if record["kind"] == "epoch"]
    assert [(epoch["epoch"], epoch["samples"]) for epoch in epochs] == [(0, 10), (1, 10)]
    loader = foreload.DataLoader(images, batch_size=8, transform=CHAIN)
    for _ in loader:
        pass
    loader.report(tmp_path / "page.html", beside=[file])
    words = words_of((tmp_path / "page.html").read_text("utf-8"))
    assert words.index("this run") < words.index("torch") < words.index("Where bytes came from")


CHROMIUM = shutil.which("chromium") or "chromium"


@pytest.mark.parametrize("width", [400, 1400])
def test_nothing_is_wider_than_the_window(run: Run, tmp_path: Path, width: int) -> None:
    """In a real browser; a script of the test's own measures the page."""
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text(lines(HEADER, MOMENT, EPOCH), "utf-8")
    page = tmp_path / "page.html"
    assert run("report", tmp_path / "a.jsonl", tmp_path / "b.jsonl", "-o", page).returncode == 0
    # A window is never narrower than 500 pixels, a frame may be.
    measured = tmp_path / "measured.html"
    measured.write_text(
        f'<iframe style="width:{width}px;height:3000px;border:0" '
        f'srcdoc="{html.escape(page.read_text("utf-8"))}"></iframe>'
        "<script>onload = () => { const page = frames[0].document; document.title = "
        "JSON.stringify({width: page.documentElement.scrollWidth, "
        "tops: [...page.querySelectorAll('.card')].map(c => c.getBoundingClientRect().top)}) }"
        "</script>",
        "utf-8",
    )
    done = subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--window-size=1500,3000", f"--user-data-dir={tmp_path}/profile", "--dump-dom",
         measured.as_uri()],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    found = re.search(r"<title>(\{.*?\})</title>", done.stdout)
    assert found, done.stderr
    figures = json.loads(html.unescape(found[1]))
    assert figures["width"] <= width
    first, second = figures["tops"]
    assert (first == second) == (width == 1400)  # beside each other only where there is room


def test_ticks_of_epochs_are_few_and_round() -> None:
    assert _whole_ticks(3, 3) == [3]
    assert _whole_ticks(0, 10) == list(range(11))
    assert _whole_ticks(0, 11) == [0, 2, 4, 6, 8, 10]
    assert _whole_ticks(1, 32) == [1, 6, 11, 16, 21, 26, 31]
    assert _whole_ticks(0, 900) == list(range(0, 901, 100))
