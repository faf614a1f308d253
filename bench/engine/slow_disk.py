# SPDX-License-Identifier: Apache-2.0
"""A disk that is read at a limited rate, by a control group (as root)."""

from __future__ import annotations

import os
import sys
from pathlib import Path


class SlowDisk:
    """A control group whose processes read a disk at a limited rate, as a disk would that is no
    faster than a few CPUs can check and copy; where there is none, the disk is as fast as it is."""

    def __init__(self, folder: Path, rate: int) -> None:
        status = folder.stat()
        device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        name = f"foreload-disk-{os.getpid()}-{rate}"
        self.group: Path | None = None
        for root, file, text in (
            (Path("/sys/fs/cgroup/blkio"), "blkio.throttle.read_bps_device", f"{device} {rate}"),
            (Path("/sys/fs/cgroup"), "io.max", f"{device} rbps={rate}"),
        ):
            try:
                (root / name).mkdir()
                (root / name / file).write_text(text, "utf-8")
                self.group = root / name
                return
            except OSError:
                if (root / name).is_dir():
                    (root / name).rmdir()
        print("the disk's rate cannot be limited here: it is as fast as it is", file=sys.stderr)

    def command(self, command: list[str]) -> list[str]:
        if self.group is None:
            return command
        enter = f'echo $$ > {self.group}/cgroup.procs && exec "$@"'
        return ["sh", "-c", enter, "sh", *command]

    def close(self) -> None:
        if self.group is not None:
            self.group.rmdir()
