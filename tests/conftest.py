# SPDX-License-Identifier: Apache-2.0
"""A test that does not run proves nothing: only the reasons named here may skip one."""

from __future__ import annotations

import pytest

# What a machine without a GPU cannot show, and what a user who may do everything cannot.
GOOD_REASONS = (
    "torch sees no GPU here",
    "root may read everything",
    "takes minutes or gigabytes: run -m soak",
)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name tests that were skipped for another reason; pytest_sessionfinish() made the run fail."""
    for where, why in _unnamed(terminalreporter):
        terminalreporter.write_line(f"FAILED {where}: skipped, but not for a named reason: {why}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in which something was skipped for another reason has failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and _unnamed(reporter) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _unnamed(reporter: pytest.TerminalReporter) -> list[tuple[str, str]]:
    skipped = []
    for report in reporter.stats.get("skipped", []):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(reason in why for reason in GOOD_REASONS):
            skipped.append((report.nodeid, why))
    return skipped
