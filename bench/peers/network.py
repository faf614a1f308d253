# SPDX-License-Identifier: Apache-2.0
"""Ranks as nodes of a small cluster on one machine: network namespaces on one bridge.

Every namespace has one link, shaped in both directions with tc's token bucket, so that a rank has
the bandwidth of a network card and no more. Needs root, iproute2 and the kernel's bridge and tbf.
"""

from __future__ import annotations

import os
import subprocess
from types import TracebackType


def _run(*command: str, check: bool = True) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


class Network:
    """Addresses and namespaces for `nodes`; all of it is gone after the block."""

    def __init__(self, nodes: int, megabits: int) -> None:
        self.megabits = megabits
        self._bridge = f"flb{os.getpid()}"
        self.names = [f"{self._bridge}n{i}" for i in range(nodes)]
        self.addresses = [f"10.232.{i // 250}.{i % 250 + 1}" for i in range(nodes)]

    def prefix(self, node: int) -> list[str]:
        """What to put in front of a command that is to run there."""
        return ["ip", "netns", "exec", self.names[node]]

    def __enter__(self) -> Network:
        if os.geteuid() != 0:
            raise RuntimeError("network namespaces need root")
        try:
            self._make()
        except BaseException:
            self.close()
            raise
        return self

    def _make(self) -> None:
        _run("ip", "netns", "add", self._bridge)
        _run("ip", "-n", self._bridge, "link", "add", "br0", "type", "bridge")
        _run("ip", "-n", self._bridge, "link", "set", "br0", "up")
        for i, name in enumerate(self.names):
            _run("ip", "netns", "add", name)
            link = ["type", "veth", "peer", "name", "e0", "netns", name]
            _run("ip", "-n", self._bridge, "link", "add", f"p{i}", *link)
            _run("ip", "-n", self._bridge, "link", "set", f"p{i}", "master", "br0", "up")
            _run("ip", "-n", name, "addr", "add", f"{self.addresses[i]}/16", "dev", "e0")
            _run("ip", "-n", name, "link", "set", "e0", "up")
            _run("ip", "-n", name, "link", "set", "lo", "up")
            for where, device in ((name, "e0"), (self._bridge, f"p{i}")):
                shape = ["rate", f"{self.megabits}mbit", "burst", "256kb", "latency", "50ms"]
                _run("tc", "-n", where, "qdisc", "add", "dev", device, "root", "tbf", *shape)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for name in (self._bridge, *self.names):
            _run("ip", "netns", "del", name, check=False)
