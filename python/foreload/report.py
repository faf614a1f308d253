# SPDX-License-Identifier: Apache-2.0
"""One page about runs: `foreload report RUN.jsonl [MORE.jsonl ...] --out report.html`.

The input are run files. The page stands for itself: pictures are in it as SVG, nothing is loaded
from anywhere and nothing runs in the browser. The verdict comes first, then what it rests on.
"""

from __future__ import annotations

import html
import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from foreload import _core
from foreload._arguments import path_of
from foreload.reports.pictures import MB, Picture, pictures
from foreload.reports.program import Parser, status_of
from foreload.reports.run_files import PLACES, Epoch, Refusal, Run, parse_run, read_run

ROWS = 40  # of a table

STYLE = """
:root { --ink: #222; --quiet: #666; --line: #ddd; --wait: #c8553d; --work: #a9bccf;
        --run: #1f5a91; }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Liberation Sans", Arial, sans-serif; color: var(--ink);
       background: #fff; max-width: 80rem; margin: 0 auto; padding: 1.2rem 1rem; }
h1 { font-size: 1rem; font-weight: 600; color: var(--quiet); margin: 0 0 1rem; }
h2 { font-size: 1.1rem; font-weight: 600; margin: 0; }
p { margin: 0.2rem 0; }
.row, .sections { display: grid; gap: 1.2rem 2rem; grid-template-columns: minmax(0, 1fr); }
@media (min-width: 56rem) {
  .two > .row, .two > section > .row, .one > .sections {
    grid-template-columns: repeat(2, minmax(0, 1fr)); }
}
section { margin-top: 1.6rem; }
.sections { margin-top: 1.6rem; }
.sections section { margin-top: 0; }
figure { margin: 0.4rem 0 0; }
figcaption { font-weight: 600; font-size: 0.9rem; color: var(--run); overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; max-width: 46rem; }
svg text { font-family: system-ui, "Liberation Sans", Arial, sans-serif !important; }
.card { border: 1px solid var(--line); border-top: 4px solid var(--run); border-radius: 4px;
        padding: 0.9rem 1.1rem; overflow-wrap: anywhere; }
.name { font-weight: 600; color: var(--run); }
.quiet { color: var(--quiet); font-size: 0.9rem; }
.verdict { font-size: 1.65rem; line-height: 1.25; font-weight: 600; margin: 0.4rem 0 0.1rem; }
.more { font-size: 1.05rem; margin-bottom: 0.6rem; }
.share { display: flex; height: 0.9rem; border-radius: 2px; overflow: hidden;
         margin: 0.5rem 0 0.2rem; }
.share .waited { background: var(--wait); }
.share .worked { background: var(--work); flex: 1; }
.helps { margin: 0.8rem 0 0; }
.helps h3, .losses h3 { font-size: 0.9rem; font-weight: 600; margin: 0 0 0.2rem; }
.help { margin: 0.35rem 0; }
.bar { height: 0.6rem; background: var(--run); border-radius: 2px; min-width: 2px; }
.bar.now { background: #888; }
.losses { margin-top: 0.8rem; color: #a3200d; }
.losses ul { margin: 0; padding-left: 1.2rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.3rem 0 0.8rem; font-size: 0.9rem; }
th, td { text-align: right; padding: 0.15rem 0.6rem; border-bottom: 1px solid var(--line);
         white-space: nowrap; }
th { font-weight: 600; }
footer { color: var(--quiet); font-size: 0.85rem; margin-top: 2rem; }
"""


def _seconds(seconds: float) -> str:
    if seconds < 0.1:
        return f"{1e3 * seconds:.3g} ms"
    if seconds < 100:
        return f"{seconds:.3g} s"
    if seconds < 6000:
        return f"{seconds / 60:.3g} min"
    return f"{seconds / 3600:.3g} h"


def _about(run: Run) -> str:
    about = run.about
    parts = [str(about.get("made_by", "")), str(about.get("dataset", ""))]
    if about.get("samples"):
        amount = f"{int(about['samples']):,} samples"
        if about.get("bytes"):
            amount += f", {_core.format_bytes(int(about['bytes']))}"
        parts.append(amount)
    if "batch_size" in about:
        parts.append(f"batches of {about['batch_size']}")
    if int(about.get("ranks", 1)) > 1:
        parts.append(f"rank {about.get('rank')} of {about['ranks']}")
    count = len(run.epochs)
    epochs = "1 epoch" if count == 1 else f"{count} epochs"
    total = sum(epoch.seconds for epoch in run.epochs)
    parts.append(f"{'an unfinished epoch' if run.unfinished else epochs}, {_seconds(total)}")
    source = sum(epoch.placed["source"] for epoch in run.epochs)
    if any(any(epoch.placed.values()) for epoch in run.epochs):
        parts.append(f"{_core.format_bytes(source)} from the source")
    if about.get("started"):
        parts.append(f"started {about['started']}")
    return html.escape("; ".join(part for part in parts if part))


def _card(run: Run, longest: float) -> str:
    """The verdict; bars of what-if are drawn against `longest` seconds."""
    last = run.epochs[-1]
    worst = max(run.epochs, key=lambda epoch: epoch.verdict.waited * epoch.seconds)
    head, _, rest = last.verdict.text.partition("; ")
    parts = [
        f'<p class="name">{html.escape(run.name)}</p>',
        f'<p class="verdict">{html.escape(head[:1].upper() + head[1:])}</p>',
    ]
    if rest:
        parts.append(f'<p class="more">{html.escape(rest)}</p>')
    parts.append(_share(last))
    if worst is not last and worst.verdict.waited > last.verdict.waited + 0.1:
        text = f"Epoch {worst.number} {worst.verdict.text}"
        parts.append(f'<p class="more">{html.escape(text)}</p>')
    shown = last if last.verdict.helps else worst
    if shown.verdict.helps:
        parts.append(_helps(shown, longest))
    if last.verdict.losses:
        losses = "".join(f"<li>{html.escape(loss)}</li>" for loss in last.verdict.losses)
        parts.append(f'<div class="losses"><h3>Lost</h3><ul>{losses}</ul></div>')
    parts.append(f'<p class="quiet">{_about(run)}</p>')
    return '<div class="card">\n' + "\n".join(parts) + "\n</div>"


def _share(epoch: Epoch) -> str:
    waited = 100 * epoch.wait_share
    text = (
        f"Epoch {epoch.number}: {_seconds(epoch.seconds)}, the loop waited {waited:.0f} % of it "
        f"({_seconds(epoch.seconds * epoch.wait_share)})"
    )
    return (
        f'<div class="share" role="img" aria-label="waited {waited:.0f} % of the time">'
        f'<div class="waited" style="width:{waited:.1f}%"></div><div class="worked"></div></div>'
        f'<p class="quiet">{html.escape(text)}</p>'
    )


def _helps(epoch: Epoch, longest: float) -> str:
    """What an epoch would take if one thing were changed, as bars."""
    rows = [(f"as it is: {_seconds(epoch.seconds)}", epoch.seconds, "bar now")]
    rows += [
        (
            f"{help.what}: {_seconds(help.seconds)}, {help.times:.2g} times as fast",
            help.seconds,
            "bar",
        )
        for help in epoch.verdict.helps
    ]
    bars = "".join(
        f'<div class="help">{html.escape(text)}'
        f'<div class="{kind}" style="width:{100 * seconds / longest:.1f}%"></div></div>'
        for text, seconds, kind in rows
    )
    return (
        f'<div class="helps"><h3>What would help: epoch {epoch.number} would take</h3>{bars}</div>'
    )


def _table(run: Run) -> str:
    columns = ["epoch", "seconds", "samples/s", "MB/s", *PLACES, "waited", "longest wait"]
    cut = len(run.epochs) - ROWS
    shown = run.epochs if cut <= 0 else [*run.epochs[: ROWS // 2], *run.epochs[-ROWS // 2 :]]
    rows = [
        [
            str(epoch.number),
            f"{epoch.seconds:.2f}",
            f"{epoch.samples / max(epoch.seconds, 1e-9):,.0f}",
            f"{epoch.bytes / max(epoch.seconds, 1e-9) / MB:,.1f}" if epoch.bytes else "–",
            *(_core.format_bytes(epoch.placed[place]) if epoch.bytes else "–" for place in PLACES),
            f"{100 * epoch.wait_share:.1f} %",
            f"{epoch.waits_ms[2]:.2f} ms",
        ]
        for epoch in shown
    ]
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "\n".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    note = f'<p class="quiet">{cut} epochs in between are left out.</p>' if cut > 0 else ""
    return (
        f"<figure><figcaption>{html.escape(run.name)}</figcaption>"
        f'<div class="table"><table>\n<tr>{head}</tr>\n{body}\n</table></div>{note}</figure>'
    )


def _counters(run: Run) -> str:
    """What the engine counted in all epochs together, where it counted anything."""
    sums: Counter[str] = Counter()
    for epoch in run.epochs:
        sums.update(epoch.counters)
    rows = "\n".join(
        f"<tr><th>{html.escape(name.replace('_', ' '))}</th><td>"
        + (_core.format_bytes(value) if name.endswith("_bytes") else f"{value:,}")
        + "</td></tr>"
        for name, value in sums.items()
        if value > 0
    )
    if not rows:
        return ""
    return (
        f"<figure><figcaption>{html.escape(run.name)}: counted in all epochs</figcaption>"
        f'<div class="table"><table>\n{rows}\n</table></div></figure>'
    )


def _section(picture: Picture, runs: Sequence[Run]) -> str:
    named = len(runs) > 1
    figures = "\n".join(
        "<figure>"
        + (f"<figcaption>{html.escape(run.name)}</figcaption>" if named else "")
        + f"{svg}</figure>"
        for run, svg in zip(runs, picture.svgs, strict=True)
    )
    return (
        f'<section><h2>{picture.title}</h2>\n<p class="quiet">{picture.caption}</p>\n'
        f'<div class="row">\n{figures}\n</div></section>'
    )


def page_of(runs: Sequence[Run]) -> str:
    """The whole page."""
    title = "foreload: " + ", ".join(run.name for run in runs)
    epochs = [epoch for run in runs for epoch in run.epochs]
    predicted = [help.seconds for epoch in epochs for help in epoch.verdict.helps]
    longest = max([*(epoch.seconds for epoch in epochs), *predicted, 1e-9])
    cards = "\n".join(_card(run, longest) for run in runs)
    sections = "\n".join(_section(picture, runs) for picture in pictures(runs))
    if len(runs) == 1:  # two pictures beside each other; of several runs each kind is a row
        sections = f'<div class="sections">\n{sections}\n</div>'
    tables = "\n".join(_table(run) + _counters(run) for run in runs)
    body = f"""<h1>{html.escape(title)}</h1>
<div class="row">
{cards}
</div>
{sections}
<section><h2>Epochs</h2>
{tables}
</section>
<footer>foreload {_core.__version__}</footer>"""
    kind = "one" if len(runs) == 1 else "two"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n"
        f'<style>{STYLE}</style>\n</head>\n<body class="{kind}">\n{body}\n</body>\n</html>\n'
    )


def _told_apart(runs: Sequence[Run]) -> list[Run]:
    """Runs with names of their own."""
    names = [run.name for run in runs]
    return [
        run if names.count(run.name) == 1 else replace(run, name=f"{run.name} ({i + 1})")
        for i, run in enumerate(runs)
    ]


def _write(path: str | os.PathLike[str], runs: Sequence[Run]) -> None:
    target = Path(path_of(path))
    try:
        page = page_of(_told_apart(runs))
    except ImportError:
        raise Refusal("drawing needs matplotlib: pip install 'foreload[plot]'") from None
    try:
        target.write_text(page, "utf-8")
    except OSError as error:
        raise Refusal(f"cannot write {target}: {error.strerror}") from None


def write_page(
    path: str | os.PathLike[str],
    text: str,
    name: str,
    beside: Sequence[str | os.PathLike[str]] = (),
) -> None:
    """A page about the run that `text` records, and about run files beside it."""
    try:
        others = [read_run(os.fspath(file)) for file in beside]
        _write(path, [parse_run(name, name, text), *others])
    except Refusal as refusal:
        raise RuntimeError(str(refusal)) from None


def _run(argv: Sequence[str] | None) -> None:
    parser = Parser(
        prog="foreload report",
        description="Make one page about runs: what limits them, what would help, where bytes came "
        "from, waits, stages over time. Two runs are shown side by side on equal scales.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN.jsonl",
        help="what 'foreload read --run-file', DataLoader(run_file=...) or foreload.record() wrote",
    )
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="the page to write")
    arguments = parser.parse_args(argv)
    out = parser.output("--out", arguments.out)
    _write(out, [read_run(path_of(file)) for file in arguments.runs])


def main(argv: Sequence[str] | None = None) -> int:
    """Run `foreload report` with these arguments; gives its exit status."""
    return status_of("foreload report", _run, argv)


if __name__ == "__main__":
    sys.exit(main())
