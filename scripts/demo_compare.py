# SPDX-License-Identifier: Apache-2.0
"""demo_compare.py COVER INDEPENDENT: two results of `foreload plan --json`, side by side."""

import json
import sys
from pathlib import Path


def tebibytes(count: float) -> str:
    return f"{count / 2**40:.2f} TiB"


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    cover, independent = (json.loads(Path(name).read_text("utf-8")) for name in sys.argv[1:3])
    rows = [
        ("samples kept somewhere", "coverage", percent),
        ("reads from own cache", "local_read_fraction", percent),
        ("reads from another rank", "peer_read_fraction", percent),
        ("reads from the source", "source_read_fraction", percent),
        ("bytes from the source", "source_bytes", tebibytes),
        ("lowest possible", "source_bytes_lower_bound", tebibytes),
        ("seconds to plan", "plan_seconds", "{:.1f}".format),
    ]
    print(f"{'':25}{'cover':>14}{'independent':>14}")
    for label, key, form in rows:
        print(f"{label:25}{form(cover[key]):>14}{form(independent[key]):>14}")
    factor = independent["source_bytes"] / cover["source_bytes"]
    ranks, epochs = cover["ranks"], cover["epochs"]
    print()
    print(f"{ranks} caches that together hold the data set once, and {epochs} epochs to use them:")
    print("  cover        every sample has one owner, so the source is read once and left alone")
    print(
        f"  independent  every rank chooses for itself; the source serves {factor:.1f} x the bytes"
    )


if __name__ == "__main__":
    main()
