# SPDX-License-Identifier: Apache-2.0
"""Peer reads over UCX against ucx_perftest on the same pair, in turn, and the ratio of the medians.

    python bench/peers/run.py pair

Both sides use TCP on the loopback interface and UCX's peer error mode (ucx_perftest -e). There,
bare active messages go one way and both ends spin; foreload asks for each message, tags and checks
every byte, and sleeps while it waits.
"""

import json
import os
import re
import statistics
import subprocess
import time

PORT = 13_411


def perftest(size: int, count: int) -> float:
    """Megabytes a second of ucp_am_bw, in units of 10^6 bytes."""
    environment = {
        **os.environ,
        "UCX_TLS": "tcp",
        "UCX_NET_DEVICES": "lo",
        "UCX_LOG_LEVEL": "fatal",
    }
    command = ["ucx_perftest", "-p", str(PORT), "-e"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            time.sleep(0.7)
            test = ["-t", "ucp_am_bw", "-s", str(size), "-n", str(count), "-w", "500"]
            client = subprocess.run(
                [*command[:1], "127.0.0.1", *command[1:], *test],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=True,
            )
        finally:
            server.kill()
    final = re.search(r"^Final:.*$", client.stdout, re.MULTILINE)
    if final is None:
        raise RuntimeError(f"ucx_perftest printed no result:\n{client.stdout}")
    # The last figure but two is the overall bandwidth in 2^20 bytes a second.
    return float(final.group().split()[-3]) * 1.048576


def foreload(program: str, size: int, seconds: float) -> dict[str, float]:
    output = subprocess.run(
        [program, "--bytes", str(size), "--seconds", str(seconds), "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    figures: dict[str, float] = json.loads(output.stdout)
    return figures


def measure(program: str, rounds: int = 5, size: int = 100 << 10) -> dict[str, object]:
    """Medians, and their ratio; of both bandwidths the range too."""
    theirs, ours, latencies = [], [], []
    for _ in range(rounds):
        theirs.append(perftest(size, 20_000))
        figures = foreload(program, size, 3)
        ours.append(figures["megabytes_per_second"])
        latencies.append(figures["median_latency_us"])

    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"

    return {
        "ratio": statistics.median(ours) / statistics.median(theirs),
        "ours": spread(ours),
        "theirs": spread(theirs),
        "latency": statistics.median(latencies),
    }
